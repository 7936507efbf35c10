//! Connections that only read, apart from those that write: a storm of reads starves no report, and none of reports a read.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::address::Address;
use super::connection::{Session, connect};
use crate::error::{Error, Result};

/// Statements are written so that one plan fits all values; what the planner would rather do on a table that is small
/// today is wrong on the same table tomorrow.
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
     SET plan_cache_mode = force_generic_plan; SET default_transaction_read_only = on";
/// All that one read sees is of one moment.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A small pool of readers.
pub(super) struct Readers {
    shelf: Arc<Shelf>,
    permits: Arc<Semaphore>,
}

struct Shelf {
    address: Address,
    idle: Mutex<Vec<Session>>,
}

impl Shelf {
    /// A session with its transaction begun: an idle one that still works, or a new one.
    async fn begin(&self) -> Result<Session> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(session) = idle else { break };
            // One that was cut off meanwhile is only noticed by its use.
            if !session.client.is_closed() && session.client.batch_execute(BEGIN).await.is_ok() {
                return Ok(session);
            }
        }
        let session = connect(&self.address, |driver| drop(Handle::current().spawn(driver))).await?;
        session.client.batch_execute(SETTINGS).await?;
        session.client.batch_execute(BEGIN).await?;
        Ok(session)
    }

    /// Only a session without a transaction comes back.
    async fn end(&self, session: Session) {
        if session.client.batch_execute("ROLLBACK").await.is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }
}

impl Readers {
    /// At most `count` connections, each made when it is first needed.
    pub(super) fn new(address: Address, count: usize) -> Self {
        let shelf = Arc::new(Shelf { address, idle: Mutex::default() });
        Self { shelf, permits: Arc::new(Semaphore::new(count)) }
    }

    /// Runs `read` to its end in a task of its own: a caller that hangs up leaves no transaction open.
    pub(super) async fn run<T, F, R>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Session>) -> R + Send + 'static,
        R: Future<Output = Result<T>> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Closing)?;
        let shelf = Arc::clone(&self.shelf);
        let reading = Handle::current().spawn(async move {
            // Held here and not by the caller, who may stop waiting before the read ends.
            let _permit = permit;
            let session = Arc::new(shelf.begin().await?);
            let answer = read(Arc::clone(&session)).await;
            if let Some(session) = Arc::into_inner(session) {
                shelf.end(session).await;
            }
            answer
        });
        reading.await.unwrap_or_else(|lost| Err(Error::Unexpected(format!("a read did not end: {lost}"))))
    }

    /// Refuses new reads; those under way end by themselves.
    pub(super) fn close(&self) {
        self.permits.close();
        self.shelf.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
