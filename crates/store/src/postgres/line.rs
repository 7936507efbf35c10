//! A committer's own line to the database: a connection on its own small runtime, used by one thread, so that nothing a
//! client does can cut a transaction off.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::ToSql;

use super::address::Address;
use super::connection::{ANSWER_MAX, Session, connect};
use super::failure::is_unavailable;
use crate::error::{Error, Result};

pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Every statement here finds its rows by an index, one by one, however small the tables are today.
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
     SET enable_bitmapscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan";

/// What is to be done about a statement that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Somebody was there first, or two waited for each other: the whole batch again.
    Again,
    /// So was a run that the batch took to be new: again, and its runs are asked for first.
    NotNew,
    /// The connection is of no more use.
    Lost,
    /// This very command can't be done.
    Command,
}

impl Failure {
    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        match error.code() {
            // A value that does not fit its column says nothing of the connection.
            None if !error.is_closed() && source_is_ours(error) => Self::Command,
            None => Self::Lost,
            Some(code) if *code == SqlState::UNIQUE_VIOLATION && is_about_names(error) => Self::NotNew,
            Some(code) if *code == SqlState::UNIQUE_VIOLATION || code.code().starts_with("40") => Self::Again,
            Some(_) if is_unavailable(error) => Self::Lost,
            Some(_) => Self::Command,
        }
    }
}

/// The index of runs' names would not take one.
fn is_about_names(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().and_then(DbError::constraint) == Some("runs_key")
}

fn source_is_ours(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| !source.is::<std::io::Error>())
}

pub(super) struct Line {
    /// Before the runtime: what drives it goes last.
    pub(super) session: Session,
    runtime: Runtime,
    /// What moves the session's bytes.
    driver: AbortHandle,
    answer_max: Duration,
    /// What went wrong first since the last look.
    failure: Option<Failure>,
}

impl Line {
    pub(super) fn open(address: &Address) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| Error::Unexpected(format!("no runtime for a connection: {e}")))?;
        let mut driver = None;
        let drive = |moves| driver = Some(runtime.spawn(moves).abort_handle());
        let session = runtime.block_on(connect(address, drive))?;
        let driver = driver.ok_or_else(|| Error::Unexpected("nothing moves a connection's bytes".into()))?;
        let mut line = Self { session, runtime, driver, answer_max: ANSWER_MAX, failure: None };
        let set = line.wait(line.session.client.batch_execute(SETTINGS));
        line.noted(set)?;
        Ok(line)
    }

    /// For somebody who reads everything there is.
    pub(super) fn wait_however_long(&mut self) {
        self.answer_max = Duration::MAX;
    }

    /// Runs to its end what speaks to the database. A database that does not answer any more is as good as gone: its
    /// connection ends, and with it whatever waits for an answer.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let mut work = std::pin::pin!(work);
            if let Ok(done) = timeout(self.answer_max, &mut work).await {
                return done;
            }
            self.driver.abort();
            work.await
        })
    }

    pub(super) fn failed(&mut self, error: &tokio_postgres::Error) {
        self.failure.get_or_insert(Failure::of(error));
    }

    /// What the batch stood on does not hold.
    pub(super) fn not_new(&mut self) -> Error {
        self.failure.get_or_insert(Failure::NotNew);
        Error::Unexpected("a run that was taken to be new is not".into())
    }

    pub(super) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Notes how it failed, for whoever decides about the batch.
    pub(super) fn noted<T>(&mut self, result: std::result::Result<T, tokio_postgres::Error>) -> Result<T> {
        if let Err(error) = &result {
            self.failed(error);
        }
        Ok(result?)
    }

    pub(super) fn query(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>> {
        let Session { client, statements } = &self.session;
        let found = self.wait(async {
            let statement = statements.prepared(client, sql).await?;
            client.query(&statement, values).await
        });
        self.noted(found)
    }

    /// The rows one by one as they come: whoever takes them works while the database finds the next.
    pub(super) fn each_row(
        &mut self,
        sql: &str,
        values: Values<'_>,
        mut take: impl FnMut(&Row) -> Result<()>,
    ) -> Result<()> {
        let Session { client, statements } = &self.session;
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
    pub(super) fn row(&mut self, sql: &str, values: Values<'_>) -> Result<Option<Row>> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// How many rows it changed.
    pub(super) fn execute(&mut self, sql: &str, values: Values<'_>) -> Result<u64> {
        let Session { client, statements } = &self.session;
        let changed = self.wait(async {
            let statement = statements.prepared(client, sql).await?;
            client.execute(&statement, values).await
        });
        self.noted(changed)
    }

    pub(super) fn roll_back(&mut self) -> bool {
        self.wait(self.session.client.batch_execute("ROLLBACK")).is_ok()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_does_not_answer_is_lost() {
        let database = private_postgres::Database::fresh().unwrap();
        let mut line = Line::open(&Address::parse(database.url()).unwrap()).unwrap();
        line.answer_max = Duration::from_millis(50);
        let refused = line.query("SELECT pg_sleep(3600)", &[]).unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
        assert_eq!((line.take_failure(), line.is_closed()), (Some(Failure::Lost), true));
    }
}
