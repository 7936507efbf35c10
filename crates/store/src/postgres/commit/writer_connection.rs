//! A writer's connection. It has its own small runtime and one thread, so that no client can cancel a transaction.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::postgres::commit::write_out::Write;
use crate::postgres::connection::address::Address;
use crate::postgres::connection::failure::{classify, database, is_unavailable};
use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::connection::{COMMIT_ANSWER_MAX, PgSession, connect};
use redrive_engine::error::{Error, PortResult as Result};

pub(crate) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Every statement finds its rows by an index, also while tables are small. A statement that takes long is cancelled: it
/// holds locks that others wait for.
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
     SET enable_bitmapscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan; \
     SET statement_timeout = 15000";

/// What a failed statement means for its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// Another transaction was first, holds a lock, or deadlocked with this one: the batch is retried.
    Conflict,
    ConnectionLost,
    /// A command fails whenever it is tried.
    Command,
}

impl FailureKind {
    pub(crate) fn of(error: &tokio_postgres::Error) -> Self {
        match error.code() {
            // A value that can't be converted says nothing about the connection.
            None if !error.is_closed() && source_is_ours(error) => Self::Command,
            None => Self::ConnectionLost,
            Some(code) if *code == SqlState::UNIQUE_VIOLATION || code.code().starts_with("40") => Self::Conflict,
            Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => Self::Conflict,
            // The database ended the transaction of a suspended process: nothing of it was committed.
            Some(code) if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Self::Conflict,
            Some(_) if is_unavailable(error) => Self::ConnectionLost,
            Some(_) => Self::Command,
        }
    }
}

fn source_is_ours(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| !source.is::<std::io::Error>())
}

pub(crate) struct WriterConnection {
    /// Dropped before the runtime that drives it.
    pub(crate) session: PgSession,
    runtime: Runtime,
    /// The task that drives the session.
    driver: AbortHandle,
    answer_max: Duration,
    /// The first failure since the last `take_failure`.
    failure: Option<FailureKind>,
}

impl WriterConnection {
    pub(crate) fn open(address: &Address) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| Error::Unexpected(format!("no runtime for a connection: {e}")))?;
        let mut driver = None;
        let drive = |moves| driver = Some(runtime.spawn(moves).abort_handle());
        let session = runtime.block_on(connect(address, drive))?;
        let driver = driver.ok_or_else(|| Error::Unexpected("a connection without a driver".into()))?;
        let mut connection = Self { session, runtime, driver, answer_max: COMMIT_ANSWER_MAX, failure: None };
        let set = connection.wait(connection.session.client.batch_execute(SETTINGS));
        connection.noted(set)?;
        Ok(connection)
    }

    /// For checks that read whole tables.
    pub(crate) fn wait_however_long(&mut self) {
        self.answer_max = Duration::MAX;
    }

    /// Runs a future to its end. If the database stops answering, the connection is closed and the future fails.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let mut work = std::pin::pin!(work);
            if let Ok(done) = timeout(self.answer_max, &mut work).await {
                return done;
            }
            self.driver.abort();
            work.await
        })
    }

    /// Sends statements in their order, without waiting in between, and waits for all of them. The first failure counts.
    pub(crate) fn send(&mut self, writes: &[Write<'_>], commit: bool) -> Result<()> {
        let session = &self.session;
        let sent = self.wait(async {
            // A statement goes into the connection's queue when it is first polled, so these go out in this order.
            let writes = join_all(writes.iter().map(|write| write.execute(session)));
            let end = async { if commit { session.client.batch_execute("COMMIT").await } else { Ok(()) } };
            let (written, ended) = tokio::join!(biased; writes, end);
            written.into_iter().collect::<std::result::Result<(), _>>().and(ended)
        });
        self.noted(sent)
    }

    pub(crate) fn take_failure(&mut self) -> Option<FailureKind> {
        self.failure.take()
    }

    /// Remembers how a statement failed, which decides what becomes of the batch.
    pub(crate) fn noted<T>(&mut self, result: std::result::Result<T, tokio_postgres::Error>) -> Result<T> {
        result.map_err(|error| {
            self.failure.get_or_insert(FailureKind::of(&error));
            database(error).into()
        })
    }

    pub(crate) fn query(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>> {
        let PgSession { client, statements } = &self.session;
        let found = self.wait(async {
            let statement = statements.prepared(client, sql).await?;
            client.query(&statement, values).await
        });
        self.noted(found)
    }

    /// The first row, if there is one.
    pub(crate) fn row(&mut self, sql: &str, values: Values<'_>) -> Result<Option<Row>> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// Reads with the readers' code inside the open transaction.
    pub(crate) fn snapshot<T>(&mut self, read: impl AsyncFnOnce(Snapshot<'_>) -> Result<T>) -> Result<T> {
        let PgSession { client, statements } = &self.session;
        let found = self.wait(read(Snapshot::new(client, statements)));
        found.map_err(|error| {
            let error = classify(error);
            let how =
                if matches!(error, Error::Unavailable(_)) { FailureKind::ConnectionLost } else { FailureKind::Command };
            self.failure.get_or_insert(how);
            error.into()
        })
    }

    /// Returns the number of changed rows.
    pub(crate) fn execute(&mut self, sql: &str, values: Values<'_>) -> Result<u64> {
        let PgSession { client, statements } = &self.session;
        let changed = self.wait(async {
            let statement = statements.prepared(client, sql).await?;
            client.execute(&statement, values).await
        });
        self.noted(changed)
    }

    pub(crate) fn roll_back(&mut self) -> bool {
        self.wait(self.session.client.batch_execute("ROLLBACK")).is_ok()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_does_not_answer_is_lost() {
        let database = private_postgres::Database::fresh().unwrap();
        let mut connection = WriterConnection::open(&Address::parse(database.url()).unwrap()).unwrap();
        connection.answer_max = Duration::from_millis(50);
        let refused = Error::from(connection.query("SELECT pg_sleep(3600)", &[]).unwrap_err());
        assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
        assert_eq!((connection.take_failure(), connection.is_closed()), (Some(FailureKind::ConnectionLost), true));
    }

    const INSERT: &str = "INSERT INTO met (name) VALUES ($1)";

    fn connection_with_names(database: &private_postgres::Database) -> WriterConnection {
        database.sql("CREATE TABLE met (name TEXT CONSTRAINT runs_key UNIQUE)").unwrap();
        let mut connection = WriterConnection::open(&Address::parse(database.url()).unwrap()).unwrap();
        connection.execute(INSERT, &[&"before"]).unwrap();
        connection
    }

    fn insert(name: &'static str) -> Write<'static> {
        Write::new(INSERT, []).with(name)
    }

    #[test]
    fn the_first_failed_statement_says_why() {
        let database = private_postgres::Database::fresh().unwrap();
        let mut connection = connection_with_names(&database);
        let seen = |connection: &mut WriterConnection| -> i64 {
            connection.row("SELECT count(*) FROM met", &[]).unwrap().unwrap().get(0)
        };
        connection.execute("BEGIN", &[]).unwrap();
        connection.send(&[insert("a")], false).unwrap();
        assert_eq!(seen(&mut connection), 2);
        let refused = connection.send(&[insert("b"), insert("before"), insert("c")], true).unwrap_err();
        assert!(refused.to_string().contains("runs_key"), "{refused}");
        assert_eq!(connection.take_failure(), Some(FailureKind::Conflict));
        assert!(connection.roll_back());
        assert_eq!(seen(&mut connection), 1);
    }
}
