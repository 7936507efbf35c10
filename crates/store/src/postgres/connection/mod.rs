//! Connections, with limits that keep one statement or one hung peer from blocking the others, and checked for the settings
//! that durability needs.

pub(crate) mod address;
pub(crate) mod batch_readers;
pub(crate) mod clock;
pub(crate) mod failure;
pub(crate) mod notifier;
pub(crate) mod place;
pub(crate) mod readers;
pub(crate) mod snapshot;
pub(crate) mod tls;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

use crate::postgres::connection::address::Address;
use crate::postgres::connection::failure::classify;
use crate::postgres::connection::snapshot::{Snapshot, Statements};
use redrive_engine::error::{Error, PortResult, Result};

/// The oldest PostgreSQL that is tested.
const VERSION_MIN: i64 = 140_000;

/// Limits of every session, in milliseconds. A transaction that idles belongs to a suspended or dead process: the database
/// ends it, so that other replicas wait only a few seconds for its locks. The same holds for a peer that reads no answers
/// (`tcp_user_timeout`) and for a machine that vanished (keepalives). A batch that times out on a lock is retried.
const LIMITS: &str = "SET statement_timeout = 30000; SET lock_timeout = 1000; \
     SET idle_in_transaction_session_timeout = 3000; SET tcp_user_timeout = 4000; SET tcp_keepalives_idle = 2; \
     SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 2; SET client_min_messages = warning";

/// From the first byte to a usable session.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long an answer may take: twice as long as a statement. A database that is silent for longer has hung or is gone.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The same for a writer, since callers wait behind it.
pub(crate) const COMMIT_ANSWER_MAX: Duration = Duration::from_secs(30);

/// Cancels work that takes longer.
pub(crate) async fn within<T>(most: Duration, work: impl Future<Output = PortResult<T>>) -> Result<T> {
    match timeout(most, work).await {
        Ok(done) => done.map_err(classify),
        Err(_) => Err(Error::Unavailable("the database does not answer".into())),
    }
}

/// The future that drives a connection; it runs as long as the session.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection and its prepared statements.
pub(crate) struct PgSession {
    pub(crate) client: Client,
    pub(crate) statements: Statements,
}

impl PgSession {
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(&self.client, &self.statements)
    }
}

/// Connects; `drive` has to run the driver, which the handshake already needs.
pub(crate) async fn connect(address: &Address, drive: impl FnOnce(Driver)) -> Result<PgSession> {
    within(CONNECT_MAX, open(address, drive)).await
}

async fn open(address: &Address, drive: impl FnOnce(Driver)) -> PortResult<PgSession> {
    let client = match &address.tls {
        Some(tls) => {
            let (client, connection) = address.config.connect(tls.clone()).await?;
            drive(Box::pin(async move { ended(connection.await) }));
            client
        }
        None => {
            let (client, connection) = address.config.connect(NoTls).await?;
            drive(Box::pin(async move { ended(connection.await) }));
            client
        }
    };
    client.batch_execute(LIMITS).await?;
    let session = PgSession { client, statements: Statements::default() };
    check(&session).await?;
    Ok(session)
}

fn ended(result: std::result::Result<(), tokio_postgres::Error>) {
    if let Err(error) = result {
        tracing::debug!(error = crate::postgres::connection::failure::message(&error), "database connection ended");
    }
}

/// An acknowledged report has to be on disk, whatever is set for this database or role.
async fn check(session: &PgSession) -> PortResult<()> {
    let sql = "SELECT current_setting('server_version_num')::bigint, current_setting('fsync'), \
         current_setting('synchronous_commit'), current_setting('server_encoding')";
    let row = session.client.query_one(sql, &[]).await?;
    let (version, fsync, commit, encoding): (i64, &str, &str, &str) = (row.get(0), row.get(1), row.get(2), row.get(3));
    if version < VERSION_MIN {
        return Err(Error::Unexpected(format!("PostgreSQL {version} is too old: 14 or later is needed")).into());
    }
    if fsync != "on" || commit == "off" {
        return Err(Error::Unexpected(format!(
            "PostgreSQL would lose acknowledged reports: fsync={fsync}, synchronous_commit={commit}"
        ))
        .into());
    }
    if encoding != "UTF8" {
        return Err(Error::Unexpected(format!("the database's encoding is {encoding}: it has to be UTF8")).into());
    }
    Ok(())
}
