//! Read-only commands, such as a plan: they run the writers' code over a snapshot without locks, on connections of their own,
//! so that they wait for no writer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::postgres::commit::committer::ReplicaContext;
use crate::postgres::commit::due_watermarks::DueWatermarks;
use crate::postgres::commit::prefetch::TenantIds;
use crate::postgres::commit::writer_connection::{FailureKind, WriterConnection};
use crate::postgres::connection::failure::classify;
use crate::postgres::rows::PgRows;
use redrive_engine::counters::CounterDeltas;
use redrive_engine::error::{Error, Result};
use redrive_engine::ports::backend::Unpaced;
use redrive_engine::tx::{Tx, TxCache};

/// Connections, each with a thread.
const READERS: usize = 2;
/// Reads that may wait; one more is answered Busy.
const QUEUE_MAX: usize = 1_024;
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

type ReadJob = Box<dyn FnOnce(&mut BatchReader) + Send>;

pub(crate) struct BatchReaders {
    /// None once it is closed.
    jobs: Mutex<Option<SyncSender<ReadJob>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl BatchReaders {
    pub(crate) fn start(shared: &Arc<ReplicaContext>) -> Result<Self> {
        let (jobs, queue) = sync_channel(QUEUE_MAX);
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for n in 0..READERS {
            let (mut reader, queue) = (BatchReader { shared: shared.clone(), connection: None }, queue.clone());
            let thread =
                std::thread::Builder::new().name(format!("batch-reader-{n}")).spawn(move || reader.work(&queue));
            threads.push(thread.map_err(|e| Error::Unexpected(format!("no thread for a reader: {e}")))?);
        }
        Ok(Self { jobs: Mutex::new(Some(jobs)), threads: Mutex::new(threads) })
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        mut act: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let job: ReadJob = Box::new(move |reader| {
            // The caller may have gone.
            let _ = reply.send(reader.read(&mut act));
        });
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        jobs.ok_or(Error::Closing)?.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::Busy,
            TrySendError::Disconnected(_) => Error::Closing,
        })?;
        answer.await.unwrap_or_else(|_| Err(Error::Unexpected("read panicked".into())))
    }

    pub(crate) async fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = tokio::task::spawn_blocking(move || threads.into_iter().map(JoinHandle::join).count()).await;
    }
}

struct BatchReader {
    shared: Arc<ReplicaContext>,
    connection: Option<WriterConnection>,
}

impl BatchReader {
    fn work(&mut self, queue: &Mutex<Receiver<ReadJob>>) {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = next else { return };
            if catch_unwind(AssertUnwindSafe(|| job(self))).is_err() {
                tracing::error!("read panicked");
                self.connection = None;
            }
        }
    }

    /// Retries once over a new connection if the last one was lost while idle.
    fn read<T>(&mut self, act: &mut impl FnMut(&mut Tx<'_>) -> Result<T>) -> Result<T> {
        let was_open = self.connection.is_some();
        let (answer, how) = self.try_read(act);
        if answer.is_err() && how == Some(FailureKind::ConnectionLost) && was_open {
            self.try_read(act).0
        } else {
            answer
        }
    }

    fn try_read<T>(&mut self, act: &mut impl FnMut(&mut Tx<'_>) -> Result<T>) -> (Result<T>, Option<FailureKind>) {
        let kept = self.connection.take().filter(|connection| !connection.is_closed());
        let mut connection = match kept.map_or_else(|| WriterConnection::open(&self.shared.address), Ok) {
            Ok(connection) => connection,
            Err(error) => return (Err(classify(error)), Some(FailureKind::ConnectionLost)),
        };
        let answer = self.read_over(&mut connection, act);
        let how = connection.take_failure();
        if how != Some(FailureKind::ConnectionLost) && connection.roll_back() {
            self.connection = Some(connection);
        }
        (answer, how)
    }

    fn read_over<T>(
        &self,
        connection: &mut WriterConnection,
        act: &mut impl FnMut(&mut Tx<'_>) -> Result<T>,
    ) -> Result<T> {
        let begun = connection.wait(connection.session.client.batch_execute(BEGIN));
        connection.noted(begun)?;
        let (names, mut watermarks, mut known) = (TenantIds::default(), DueWatermarks::default(), TxCache::default());
        let mut rows = PgRows::reading(connection, &names, &mut watermarks, self.shared.quiet.clone());
        let answer = act(&mut Tx {
            rows: &mut rows,
            now: self.shared.time.now(),
            dice: &*self.shared.dice,
            policies: &self.shared.policies,
            known: &mut known,
            counters: CounterDeltas::default(),
            pace: &Unpaced,
            wake: false,
        });
        answer.map_err(classify)
    }
}
