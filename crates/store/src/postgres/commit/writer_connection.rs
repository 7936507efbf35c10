//! A committer's own line to the database: a connection on its own small runtime, used by one thread, so that nothing a
//! client does can cut a transaction off.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::postgres::commit::write::Write;
use crate::postgres::connection::address::Address;
use crate::postgres::connection::failure::{classify, database, is_unavailable};
use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::connection::{COMMIT_ANSWER_MAX, Session, connect};
use redrive_engine::error::{Error, PortResult as Result};

pub(crate) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A statement that was sent, and whose answer nobody has waited for yet.
type Sent = Pin<Box<dyn Future<Output = std::result::Result<(), tokio_postgres::Error>> + Send>>;

/// Every statement here finds its rows by an index, one by one, however small the tables are today. None takes long: one
/// that does holds locks that others wait for.
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
     SET enable_bitmapscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan; \
     SET statement_timeout = 15000";

/// What is to be done about a statement that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Somebody was there first, holds a lock, or two waited for each other: the whole batch again.
    Again,
    /// The connection is of no more use.
    Lost,
    /// This very command can't be done.
    Command,
}

impl Failure {
    pub(crate) fn of(error: &tokio_postgres::Error) -> Self {
        match error.code() {
            // A value that does not fit its column says nothing of the connection.
            None if !error.is_closed() && source_is_ours(error) => Self::Command,
            None => Self::Lost,
            Some(code) if *code == SqlState::UNIQUE_VIOLATION || code.code().starts_with("40") => Self::Again,
            // Whoever holds it is slow, or gone: its lock is free soon, or taken away from it.
            Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => Self::Again,
            // The database ended the transaction of a process that was suspended: nothing of it holds.
            Some(code) if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Self::Again,
            Some(_) if is_unavailable(error) => Self::Lost,
            Some(_) => Self::Command,
        }
    }
}

fn source_is_ours(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| !source.is::<std::io::Error>())
}

pub(crate) struct WriterConnection {
    /// Sent before the last statement, in their order.
    ahead: Vec<Sent>,
    /// Before the runtime: what drives it goes last.
    pub(crate) session: Arc<Session>,
    runtime: Runtime,
    /// What moves the session's bytes.
    driver: AbortHandle,
    answer_max: Duration,
    /// What went wrong first since the last look.
    failure: Option<Failure>,
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
        let driver = driver.ok_or_else(|| Error::Unexpected("nothing moves a connection's bytes".into()))?;
        let (ahead, session) = (Vec::new(), Arc::new(session));
        let mut connection = Self { ahead, session, runtime, driver, answer_max: COMMIT_ANSWER_MAX, failure: None };
        let set = connection.wait(connection.session.client.batch_execute(SETTINGS));
        connection.noted(set)?;
        Ok(connection)
    }

    /// For somebody who reads everything there is.
    pub(crate) fn wait_however_long(&mut self) {
        self.answer_max = Duration::MAX;
    }

    /// Runs to its end what speaks to the database. A database that does not answer any more is as good as gone: its
    /// connection ends, and with it whatever waits for an answer.
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

    /// Sends statements in their order and waits for none: what comes next on this line is behind them.
    pub(crate) fn send(&mut self, writes: Vec<Write>) {
        let session = &self.session;
        let send = |write: Write| -> Sent {
            let session = session.clone();
            Box::pin(async move { write.execute(&session).await })
        };
        let sent = writes.into_iter().map(send).collect();
        self.start(sent);
    }

    /// Sends the end of a transaction, behind all that was sent before.
    pub(crate) fn send_commit(&mut self) {
        let session = self.session.clone();
        self.start(vec![Box::pin(async move { session.client.batch_execute("COMMIT").await })]);
    }

    /// The first poll of each puts it into the connection's queue.
    fn start(&mut self, mut sent: Vec<Sent>) {
        self.runtime.block_on(poll_fn(|cx| {
            for one in &mut sent {
                if let Poll::Ready(answer) = one.as_mut().poll(cx) {
                    *one = Box::pin(std::future::ready(answer));
                }
            }
            Poll::Ready(())
        }));
        self.ahead.append(&mut sent);
    }

    /// Lets what was sent leave: the database works on it while its caller goes on.
    pub(crate) fn let_go(&self) {
        self.runtime.block_on(tokio::task::yield_now());
    }

    /// Waits for the answers to all that was sent; the first that failed says why.
    pub(crate) fn settle(&mut self) -> Result<()> {
        match self.first_failure_ahead() {
            Some(error) => {
                self.failure.get_or_insert(Failure::of(&error));
                Err(database(error).into())
            }
            None => Ok(()),
        }
    }

    fn first_failure_ahead(&mut self) -> Option<tokio_postgres::Error> {
        let ahead = std::mem::take(&mut self.ahead);
        self.wait(async {
            let mut first = None;
            for sent in ahead {
                first = first.or(sent.await.err());
            }
            first
        })
    }

    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Notes how it failed, for whoever decides about the batch.
    pub(crate) fn noted<T>(&mut self, result: std::result::Result<T, tokio_postgres::Error>) -> Result<T> {
        result.map_err(|error| {
            // What was sent before it was answered before it, and says why if it failed.
            let error = self.first_failure_ahead().unwrap_or(error);
            self.failure.get_or_insert(Failure::of(&error));
            database(error).into()
        })
    }

    pub(crate) fn query(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>> {
        let Session { client, statements } = &*self.session;
        let found = self.wait(async {
            let statement = statements.prepared(client, sql).await?;
            client.query(&statement, values).await
        });
        self.noted(found)
    }

    /// The rows one by one as they come: whoever takes them works while the database finds the next.
    pub(crate) fn each_row(
        &mut self,
        sql: &str,
        values: Values<'_>,
        mut take: impl FnMut(&Row) -> Result<()>,
    ) -> Result<()> {
        let Session { client, statements } = &*self.session;
        let taken = self.wait(async {
            let statement = statements.prepared(client, sql).await?;
            let mut rows = pin!(client.query_raw(&statement, values.iter().copied()).await?);
            while let Some(row) = rows.try_next().await? {
                if let Err(error) = take(&row) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        });
        self.noted(taken)?
    }

    /// The first row, if there is one.
    pub(crate) fn row(&mut self, sql: &str, values: Values<'_>) -> Result<Option<Row>> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// Reads as readers do, within the transaction that is open.
    pub(crate) fn snapshot<T>(&mut self, read: impl AsyncFnOnce(Snapshot<'_>) -> Result<T>) -> Result<T> {
        let Session { client, statements } = &*self.session;
        let found = self.wait(read(Snapshot::new(client, statements)));
        found.map_err(|error| {
            let (how, error) = match (self.first_failure_ahead(), classify(error)) {
                (Some(first), _) => (Failure::of(&first), database(first)),
                (None, error @ Error::Unavailable(_)) => (Failure::Lost, error),
                (None, error) => (Failure::Command, error),
            };
            self.failure.get_or_insert(how);
            error.into()
        })
    }

    /// How many rows it changed.
    pub(crate) fn execute(&mut self, sql: &str, values: Values<'_>) -> Result<u64> {
        let Session { client, statements } = &*self.session;
        let changed = self.wait(async {
            let statement = statements.prepared(client, sql).await?;
            client.execute(&statement, values).await
        });
        self.noted(changed)
    }

    pub(crate) fn roll_back(&mut self) -> bool {
        self.ahead.clear();
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
        assert_eq!((connection.take_failure(), connection.is_closed()), (Some(Failure::Lost), true));
    }

    const INSERT: &str = "INSERT INTO met (name) VALUES ($1)";

    fn line_with_names(database: &private_postgres::Database) -> WriterConnection {
        database.sql("CREATE TABLE met (name TEXT CONSTRAINT runs_key UNIQUE)").unwrap();
        let mut connection = WriterConnection::open(&Address::parse(database.url()).unwrap()).unwrap();
        connection.execute(INSERT, &[&"before"]).unwrap();
        connection
    }

    fn meet(name: &'static str) -> Write {
        Write::of(INSERT).with(name)
    }

    #[test]
    fn what_was_sent_ahead_is_there_for_what_comes_next() {
        let database = private_postgres::Database::fresh().unwrap();
        let mut connection = line_with_names(&database);
        connection.send(vec![meet("a"), meet("b")]);
        let seen: i64 = connection.row("SELECT count(*) FROM met", &[]).unwrap().unwrap().get(0);
        assert_eq!((seen, connection.settle().is_ok()), (3, true));
    }

    #[test]
    fn what_failed_first_says_why_whatever_comes_behind_it() {
        let database = private_postgres::Database::fresh().unwrap();
        let mut connection = line_with_names(&database);
        connection.execute("BEGIN", &[]).unwrap();
        connection.send(vec![meet("a"), meet("before"), meet("b")]);
        let refused = connection.row("SELECT count(*) FROM met", &[]).unwrap_err();
        assert!(refused.to_string().contains("runs_key"), "{refused}");
        assert_eq!(connection.take_failure(), Some(Failure::Again));
        assert!(connection.roll_back() && connection.settle().is_ok());
        let seen: i64 = connection.row("SELECT count(*) FROM met", &[]).unwrap().unwrap().get(0);
        assert_eq!(seen, 1);
    }

    #[test]
    fn rows_that_end_in_an_error_are_an_error() {
        let database = private_postgres::Database::fresh().unwrap();
        let mut connection = WriterConnection::open(&Address::parse(database.url()).unwrap()).unwrap();
        let mut taken = 0;
        let cut = connection.each_row("SELECT 1 / (3 - n) FROM generate_series(1, 5) AS n", &[], |_| {
            taken += 1;
            Ok(())
        });
        assert!(cut.is_err_and(|error| error.to_string().contains("division by zero")));
        assert_eq!((taken, connection.take_failure()), (2, Some(Failure::Command)));
        let not_ours = connection.each_row("SELECT 1", &[], |_| Err(Error::Busy.into()));
        assert!(matches!(not_ours.map_err(Error::from), Err(Error::Busy)));
        assert!(connection.row("SELECT 1", &[]).unwrap().is_some());
    }
}
