//! A pool of read-only connections. Each read sees one snapshot; a connection whose read was cancelled is closed, so that none
//! returns to the pool with an open transaction.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::postgres::connection::address::Address;
use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::connection::{PgSession, connect};
use redrive_engine::error::{Error, PortResult, Result};

/// Concurrent reads; others wait.
pub(crate) const READERS: usize = 8;
/// For keys alone.
pub(crate) const KEY_READERS: usize = 2;
/// Statements are written so that one plan fits all values; the planner's choice for a small table is wrong once it has
/// grown.
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
     SET plan_cache_mode = force_generic_plan; SET default_transaction_read_only = on";
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

#[derive(Clone)]
pub(crate) struct Readers {
    address: Address,
    idle: Arc<Mutex<Vec<PgSession>>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(address: Address, count: usize) -> Self {
        Self { address, idle: Arc::default(), turns: Arc::new(Semaphore::new(count)) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PgSession>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a view of the database as it is now.
    pub(crate) async fn view(&self) -> PortResult<View> {
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| Error::Closing)?;
        loop {
            let kept = self.idle().pop();
            let Some(session) = kept else { break };
            // One that the server has closed meanwhile is no loss: the next one is tried.
            if !session.client.is_closed() && session.client.batch_execute(BEGIN).await.is_ok() {
                return Ok(View { session, readers: self.clone(), _turn: turn });
            }
        }
        let session = self.connect().await?;
        session.client.batch_execute(SETTINGS).await?;
        session.client.batch_execute(BEGIN).await?;
        Ok(View { session, readers: self.clone(), _turn: turn })
    }

    /// A connection for whoever writes beside the committer.
    pub(crate) async fn connect(&self) -> Result<PgSession> {
        let here = tokio::runtime::Handle::current();
        // It ends with its client, which the session owns.
        connect(&self.address, |driver| drop(here.spawn(driver))).await
    }

    pub(crate) fn close(&self) {
        self.turns.close();
        self.idle().clear();
    }
}

/// One read's connection. Dropped before [`View::done`], it is closed.
pub(crate) struct View {
    session: PgSession,
    readers: Readers,
    _turn: OwnedSemaphorePermit,
}

impl View {
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        self.session.snapshot()
    }

    /// Ends the read, and gives the connection back. Nobody waits for the end: whoever reads next is behind it.
    pub(crate) async fn done<T>(self, answer: PortResult<T>) -> PortResult<T> {
        // A statement that failed has ended the transaction already; either way nothing was written.
        if is_sent(self.session.client.batch_execute("ROLLBACK")).await {
            self.readers.idle().push(self.session);
        }
        answer
    }
}

/// Hands a statement to the connection; false where that has ended.
async fn is_sent(statement: impl Future<Output = std::result::Result<(), tokio_postgres::Error>>) -> bool {
    let mut statement = std::pin::pin!(statement);
    let first = std::future::poll_fn(|cx| Poll::Ready(statement.as_mut().poll(cx))).await;
    !matches!(first, Poll::Ready(Err(_)))
}
