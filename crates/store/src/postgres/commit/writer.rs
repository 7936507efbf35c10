//! A writer's thread: it folds waiting commands into one transaction, retries the batch after a conflict, and reconnects when
//! the database was away.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redrive_core::time::{SECOND_MS, Timestamp};

use crate::commit::queue::{CommandQueue, answer, monotonic};
use crate::commit::writer_status::WriterStatus;
use crate::postgres::commit::committer::{Queued, ReplicaContext};
use crate::postgres::commit::due_watermarks::DueWatermarks;
use crate::postgres::commit::prefetch::{self, TenantIds};
use crate::postgres::commit::write_out;
use crate::postgres::commit::writer_connection::{FailureKind, WriterConnection};
use crate::postgres::connection::failure::classify;
use crate::postgres::rows::PgRows;
use redrive_engine::breakers;
use redrive_engine::counters::CounterDeltas;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::failpoint;
use redrive_engine::ports::backend::Unpaced;
use redrive_engine::ports::rows::EngineRows as _;
use redrive_engine::tx::{Tx, TxCache};

/// Commands in one transaction.
pub(crate) const BATCH_MAX_COMMANDS: usize = 1_024;
/// Tries of a batch that meets conflicts.
const TRIES_MAX: u32 = 8;
/// How long queues are cached that other replicas may change.
const QUEUES_CACHED_MS: u64 = SECOND_MS;
/// Waits between attempts to reconnect.
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_secs(1);

/// The same while tenants share the writer: one tenant's thousand must not delay another.
const SHARED_BATCH_MAX_COMMANDS: usize = 128;

/// All that waits, as far as it fits into one transaction.
fn with_those_behind(first: Queued, queue: &CommandQueue<Queued>) -> Vec<Queued> {
    let mut commands = vec![first];
    while commands.len() < BATCH_MAX_COMMANDS
        && !(commands.len() >= SHARED_BATCH_MAX_COMMANDS && queue.is_shared())
        && let Some(next) = queue.next()
    {
        commands.push(next);
    }
    commands
}

pub(crate) struct Writer {
    shared: Arc<ReplicaContext>,
    connection: Option<WriterConnection>,
    known: TxCache,
    names: TenantIds,
    watermarks: DueWatermarks,
    queues_set: u64,
    queues_known_at: Timestamp,
    reconnect_in: Duration,
    /// The last transaction sent its commit: if the connection was lost after that, its outcome is unknown.
    commit_sent: bool,
    status: Arc<WriterStatus>,
}

/// Why a transaction failed.
struct BatchError {
    error: Error,
    how: FailureKind,
}

impl Writer {
    pub(crate) fn new(shared: Arc<ReplicaContext>, status: Arc<WriterStatus>) -> Self {
        Self {
            shared,
            connection: None,
            known: TxCache::default(),
            names: TenantIds::default(),
            watermarks: DueWatermarks::default(),
            queues_set: 0,
            queues_known_at: Timestamp::default(),
            reconnect_in: RECONNECT_FIRST,
            commit_sent: false,
            status,
        }
    }

    pub(crate) fn work(&mut self, queue: &CommandQueue<Queued>) {
        self.make_ready();
        while let Some(first) = queue.wait() {
            let commands = with_those_behind(first, queue);
            // A panic outside of commands costs the answers of one batch, not the thread.
            if catch_unwind(AssertUnwindSafe(|| self.commit_all(commands))).is_err() {
                tracing::error!("writer panicked; continuing with the next batch");
                self.known.clear();
                self.connection = None;
            }
        }
    }

    /// Connects and prepares statements before the first batch, which tries again if this fails.
    fn make_ready(&mut self) {
        let ready = self.connected().and_then(|()| match &mut self.connection {
            Some(connection) => prefetch::prepare(connection).and_then(|()| write_out::prepare(connection)),
            None => Ok(()),
        });
        if let Err(error) = ready {
            tracing::debug!(%error, "writer is not connected yet");
            self.connection = None;
        }
    }

    /// Commits all in one transaction. If a command makes that fail, each gets a transaction of its own, so that a bad command
    /// costs only itself.
    fn commit_all(&mut self, mut commands: Vec<Queued>) {
        let Err(failed) = self.transact_with_retries(&mut commands) else {
            commands.into_iter().for_each(|queued| answer(queued.command, None));
            return;
        };
        if failed.how == FailureKind::ConnectionLost {
            // The outcome of a commit without an answer is unknown; callers send the command again.
            tracing::warn!(error = %failed.error, "database unavailable");
            self.status.failed();
            let unavailable = unavailable(failed.error);
            commands.into_iter().for_each(|queued| answer(queued.command, Some(unavailable())));
            return;
        }
        for mut queued in commands {
            let alone = self.transact_with_retries(std::slice::from_mut(&mut queued)).err();
            if let Some(failed) = &alone {
                tracing::error!(error = %failed.error, "command not committed");
            }
            let failed = alone.map(|failed| match failed.how {
                FailureKind::Command => failed.error,
                FailureKind::Conflict | FailureKind::ConnectionLost => unavailable(failed.error)(),
            });
            answer(queued.command, failed);
        }
    }

    /// Retries after conflicts, and once over a new connection.
    fn transact_with_retries(&mut self, commands: &mut [Queued]) -> std::result::Result<(), BatchError> {
        let (mut tries, mut lost) = (0, 0);
        let was_connected = self.connection.is_some();
        loop {
            let done = self.transact(commands);
            tries += 1;
            match done {
                Err(failed) if failed.how == FailureKind::Conflict && tries < TRIES_MAX => {
                    tracing::debug!(error = %failed.error, "batch retried after a conflict");
                }
                // The connection was lost while idle, or the database ended a transaction that idled too long, as that of a
                // suspended process does. Nothing of it was committed.
                Err(failed)
                    if failed.how == FailureKind::ConnectionLost && was_connected && lost == 0 && !self.commit_sent =>
                {
                    tracing::debug!(error = %failed.error, "batch retried over a new connection");
                    lost += 1;
                }
                done => return done,
            }
        }
    }

    fn transact(&mut self, commands: &mut [Queued]) -> std::result::Result<(), BatchError> {
        self.connected().map_err(|error| BatchError { error: classify(error), how: FailureKind::ConnectionLost })?;
        let began = monotonic();
        let done = catch_unwind(AssertUnwindSafe(|| self.try_transact(commands))).unwrap_or_else(|_| {
            // A statement may have been interrupted.
            self.connection = None;
            Err(Error::Unexpected("a command panicked".into()).into())
        });
        let noted = self.connection.as_mut().and_then(WriterConnection::take_failure);
        let Err(error) = done else {
            self.status.committed();
            self.shared.metrics.record_commit(began.elapsed(), commands.len());
            return Ok(());
        };
        self.known.clear();
        let how = noted.unwrap_or(FailureKind::Command);
        let usable = |connection: &mut WriterConnection| {
            how != FailureKind::ConnectionLost && !connection.is_closed() && connection.roll_back()
        };
        if !self.connection.as_mut().is_some_and(usable) {
            // It may still have an open transaction.
            self.connection = None;
        }
        Err(BatchError { error: classify(error), how })
    }

    fn connected(&mut self) -> Result<()> {
        if self.connection.as_ref().is_some_and(|connection| !connection.is_closed()) {
            return Ok(());
        }
        self.connection = None;
        match WriterConnection::open(&self.shared.address) {
            Ok(connection) => {
                // After a failover the new database may lack the last commits of the old one.
                self.names = TenantIds::default();
                self.watermarks = DueWatermarks::default();
                self.known.clear();
                self.connection = Some(connection);
                self.reconnect_in = RECONNECT_FIRST;
                Ok(())
            }
            Err(error) => {
                std::thread::sleep(self.reconnect_in);
                self.reconnect_in = (self.reconnect_in * 2).min(RECONNECT_MAX);
                Err(error)
            }
        }
    }

    fn refresh_cache(&mut self) {
        let (set, now) = (self.shared.queues_set.load(Ordering::SeqCst), self.shared.time.now());
        let old =
            set != self.queues_set || now < self.queues_known_at || now.since(self.queues_known_at) >= QUEUES_CACHED_MS;
        if old {
            (self.queues_set, self.queues_known_at) = (set, now);
        }
        self.known.expire(old);
    }

    fn try_transact(&mut self, commands: &mut [Queued]) -> Result<()> {
        self.commit_sent = false;
        self.refresh_cache();
        let Self { shared, connection: Some(connection), known, names, watermarks, commit_sent, .. } = self else {
            return Err(Error::Unavailable("no connection".into()).into());
        };
        let unknown = names.unknown(commands.iter().map(|queued| &queued.prefetch));
        if !unknown.is_empty() {
            let found = connection.wait(unknown.read(&connection.session));
            names.remember(&connection.noted(found)?)?;
        }
        let mut rows = PgRows::new(connection, names, watermarks, shared.quiet.clone());
        let now = shared.time.read(rows.begin(commands.iter().map(|queued| &queued.prefetch))?);
        let mut batch = Tx {
            rows: &mut rows,
            now,
            dice: &*shared.dice,
            policies: &shared.policies,
            known,
            counters: CounterDeltas::default(),
            pace: &Unpaced,
            wake: false,
        };
        commands.iter_mut().try_for_each(|queued| {
            queued.command.run(&mut batch)?;
            failpoint::pass("mid_batch");
            Ok::<_, Error>(())
        })?;
        breakers::fold(&mut batch)?;
        let Tx { wake, counters, .. } = batch;
        rows.fold(counters, now)?;
        failpoint::pass("before_commit");
        *commit_sent = true;
        rows.commit()?;
        failpoint::pass("after_commit");
        let quiet = std::mem::take(&mut rows.breakers.quiet);
        shared.quiet.keep(quiet);
        if wake {
            shared.wakeups.due();
        }
        Ok(())
    }
}

/// Answers that the database can't be used now. The commands of a batch share the source.
fn unavailable(error: Error) -> impl Fn() -> Error {
    let source: Arc<dyn std::error::Error + Send + Sync> = match error {
        Error::Unavailable(source) => source.into(),
        other => Arc::new(other),
    };
    move || Error::Unavailable(Box::new(source.clone()))
}
