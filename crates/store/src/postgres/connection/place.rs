//! A store opened by one connection, for copies.

use redrive_core::time::SECOND_MS;
use tokio::runtime::Handle;
use tokio_postgres::Client;

use crate::postgres::connection::address::Address;
use crate::postgres::connection::connect;
use crate::postgres::reads::columns::Columns as _;
use crate::postgres::schema;
use redrive_engine::error::{Error, PortResult as Result};

/// A replica stamps the store every second; one without a stamp for so long has ended.
const ABSENT_AFTER_MS: u64 = 5 * SECOND_MS;

/// A database and its connection.
pub(crate) struct PgPlace {
    pub(crate) client: Client,
    name: String,
}

impl PgPlace {
    /// `create` migrates the schema.
    pub(crate) async fn open(url: &str, create: bool) -> Result<Self> {
        let address = Address::parse(url)?;
        let name = address.name();
        let session = connect(&address, |driver| drop(Handle::current().spawn(driver))).await?;
        if create {
            schema::migrate(&session).await?;
        } else {
            schema::require_current(&session).await?;
        }
        let client = session.client;
        // An unfinished copy may have brought the last stamp of a server of its source.
        if !is_half_copied(&client).await? {
            refuse_served(&client).await?;
        }
        // Large tables take long.
        let patient = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";
        client.batch_execute(patient).await?;
        Ok(Self { client, name })
    }

    /// Without the password.
    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }
}

async fn refuse_served(client: &Client) -> Result<()> {
    let age = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - max(at) FROM stamps";
    let age = client.query_one(age, &[]).await?.number_or_none(0)?;
    if age.is_some_and(|ms| ms.unsigned_abs() < ABSENT_AFTER_MS) {
        return Err(Error::Unexpected("a redrive server is using this database: stop it first".into()).into());
    }
    Ok(())
}

/// A copy into this store was begun and not finished.
pub(crate) async fn is_half_copied(client: &Client) -> Result<bool> {
    Ok(client.query_one("SELECT to_regclass('copying') IS NOT NULL", &[]).await?.try_get(0)?)
}
