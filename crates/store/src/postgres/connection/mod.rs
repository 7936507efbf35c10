//! Connections: opened with the limits that keep one statement or one hung peer from holding everybody up, and checked
//! for what the promises need.

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

/// The oldest PostgreSQL that is tried against.
const VERSION_MIN: i64 = 140_000;

/// Limits of every session, in milliseconds. A transaction of ours never waits for a person: one that idles belongs to a
/// process that was suspended or is gone, and the database takes its locks away, so that other replicas wait for them no
/// longer than a few seconds. The same holds for one whose answers nobody takes (`tcp_user_timeout`) and for a machine
/// that vanished (keepalives). A lock that can't be had at once is asked for again with the whole batch.
const LIMITS: &str = "SET statement_timeout = 30000; SET lock_timeout = 1000; \
     SET idle_in_transaction_session_timeout = 3000; SET tcp_user_timeout = 4000; SET tcp_keepalives_idle = 2; \
     SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 2; SET client_min_messages = warning";

/// From the first byte to a session that can be used.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long an answer may take: twice what a statement may. A database that says nothing for longer has hung, or is gone
/// without a word.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The same for a statement of a writer: callers wait behind it.
pub(crate) const COMMIT_ANSWER_MAX: Duration = Duration::from_secs(30);

/// Waits no longer than this; what it was about is cut off.
pub(crate) async fn within<T>(most: Duration, work: impl Future<Output = PortResult<T>>) -> Result<T> {
    match timeout(most, work).await {
        Ok(done) => done.map_err(classify),
        Err(_) => Err(Error::Unavailable("the database does not answer".into())),
    }
}

/// What moves a connection's bytes; whoever opened it lets it run for as long as the session is there.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection, and what it has prepared.
pub(crate) struct PgSession {
    pub(crate) client: Client,
    pub(crate) statements: Statements,
}

impl PgSession {
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(&self.client, &self.statements)
    }
}

/// Connects; `drive` gets what moves the bytes, before the first of them has to.
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
        tracing::debug!(
            error = crate::postgres::connection::failure::message(&error),
            "a connection to the database ended"
        );
    }
}

/// An acknowledged report has to be on disk, whatever somebody has set for this database or role.
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
