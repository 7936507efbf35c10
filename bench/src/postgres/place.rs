//! The PostgreSQL that is measured: one of our own on the disk that `target` lies on, or one that is there already.

use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use private_postgres::{Database, Server, sql};
use redrive_core::policy::Policies;
use redrive_store::postgres::{LINES, Options, PgStore};
use redrive_store::{Store as _, SystemDice};
use tokio_postgres::{Client, NoTls};

use crate::Plan;

pub struct Place {
    url: String,
    /// Gone with us.
    _own: Option<Server>,
}

impl Place {
    pub fn of(plan: &Plan) -> Result<Self> {
        if let Some(url) = &plan.server {
            return Ok(Self { url: url.clone(), _own: None });
        }
        let folder = tempfile::tempdir_in("target")?;
        let own = Server::start_in(folder.keep().canonicalize()?).map_err(|e| anyhow!(e))?;
        Ok(Self { url: own.url().to_owned(), _own: Some(own) })
    }

    /// Its version and the settings that figures hang on; without durable commits there is nothing to compare.
    pub fn says(&self) -> Result<String> {
        let durable = "SELECT current_setting('fsync') = 'on' AND current_setting('synchronous_commit') = 'on'";
        ensure!(
            self.sql(durable)? == "t",
            "fsync or synchronous_commit is off: what is measured would be worth nothing"
        );
        self.sql(
            "SELECT format('PostgreSQL %s, shared_buffers %s, max_wal_size %s, full_page_writes %s',
                 current_setting('server_version'), current_setting('shared_buffers'),
                 current_setting('max_wal_size'), current_setting('full_page_writes'))",
        )
    }

    pub fn sql(&self, statement: &str) -> Result<String> {
        sql(&self.url, statement).map_err(|e| anyhow!(e))
    }

    /// An empty database.
    pub fn database(&self) -> Result<Database> {
        Database::on(&self.url).map_err(|e| anyhow!(e))
    }

    pub fn copy_of(&self, name: &str) -> Result<Database> {
        let copy = Database::copy_of(name, &self.url).map_err(|e| anyhow!(e))?;
        // What was copied is on disk before anybody is measured.
        self.sql("CHECKPOINT")?;
        Ok(copy)
    }

    /// An empty store.
    pub async fn store(&self) -> Result<Database> {
        let database = self.database()?;
        open(&database).await?.close().await;
        Ok(database)
    }
}

/// A replica in this process.
pub async fn open(database: &Database) -> Result<Arc<PgStore>> {
    let options = Options {
        url: database.url().to_owned(),
        clock: None,
        dice: Arc::new(SystemDice),
        policies: Policies::default(),
        lines: LINES,
    };
    Ok(Arc::new(PgStore::open(options).await?))
}

pub async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// What a statement says in one number.
pub fn number(database: &Database, statement: &str) -> Result<f64> {
    Ok(database.sql(statement).map_err(|e| anyhow!(e))?.parse()?)
}
