//! One line at work: it folds what waits into a transaction and sees that to its end, does it anew where others were there
//! first, and connects again where the database was away.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redrive_core::time::{SECOND_MS, Timestamp};

use crate::commit::command::answer;
use crate::commit::queue::CommandQueue;
use crate::commit::writer_status::WriterStatus;
use crate::postgres::commit::committer::{Queued, Shared};
use crate::postgres::commit::due_watermarks::DueWatermarks;
use crate::postgres::commit::prefetch::{self, Asking, Names};
use crate::postgres::commit::write_out;
use crate::postgres::commit::writer_connection::{Failure, WriterConnection};
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
/// So often in a row a line lets others have its processor before it goes on with what it has: some microseconds, if nobody
/// wants it.
const STANDS_ASIDE: u32 = 32;
/// After a run that was taken to be new was none, so many batches ask for all names first: who sends again, or reports a
/// run's later attempts, does so many times.
const ASK_AFTER_SURPRISE: u32 = 64;
/// How often a batch is done anew because others were there first.
const AGAIN_MAX: u32 = 8;
/// How long what other replicas have set for queues may go unseen.
const QUEUES_KNOWN_MS: u64 = SECOND_MS;
/// How long a line waits before it tries to connect again.
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_secs(1);

/// While tenants share a line: one's thousand must not become another's wait.
const SHARED_BATCH_MAX_COMMANDS: usize = 128;

/// What waits, and what comes as long as more keeps coming: a caller that is in the middle of sending a thousand should not
/// find its first ten in a transaction of their own.
fn with_those_behind(first: Queued, queue: &CommandQueue<Queued>) -> Vec<Queued> {
    let mut commands = vec![first];
    let mut stood_aside = 0;
    while commands.len() < BATCH_MAX_COMMANDS {
        if commands.len() >= SHARED_BATCH_MAX_COMMANDS && queue.is_shared() {
            break;
        }
        match queue.next() {
            Some(next) => {
                commands.push(next);
                stood_aside = 0;
            }
            None if stood_aside < STANDS_ASIDE => {
                stood_aside += 1;
                std::thread::yield_now();
            }
            None => break,
        }
    }
    commands
}

/// A line's thread.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    connection: Option<WriterConnection>,
    known: TxCache,
    names: Names,
    watermarks: DueWatermarks,
    queues_set: u64,
    queues_known_at: Timestamp,
    reconnect_in: Duration,
    /// So many batches more ask for the names of runs that may be new.
    asking: u32,
    /// The last transaction came as far as its commit: if the connection was lost then, nobody knows whether it holds.
    commit_sent: bool,
    status: Arc<WriterStatus>,
}

/// Why a transaction did not hold.
struct Failed {
    error: Error,
    how: Failure,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, status: Arc<WriterStatus>) -> Self {
        Self {
            shared,
            connection: None,
            known: TxCache::default(),
            names: Names::default(),
            watermarks: DueWatermarks::default(),
            queues_set: 0,
            queues_known_at: Timestamp::default(),
            reconnect_in: RECONNECT_FIRST,
            asking: 0,
            commit_sent: false,
            status,
        }
    }

    pub(crate) fn work(&mut self, queue: &CommandQueue<Queued>) {
        self.make_ready();
        while let Some(first) = queue.wait() {
            let commands = with_those_behind(first, queue);
            // Commands are guarded one by one; whatever panics beside them costs their answers, and not the thread.
            if catch_unwind(AssertUnwindSafe(|| self.commit_all(commands))).is_err() {
                tracing::error!("a writer panicked; it goes on with the next batch");
                self.known.clear();
                self.connection = None;
            }
        }
    }

    /// What the first batch needs is there before it comes. Where that can't be had now, the first batch tries again.
    fn make_ready(&mut self) {
        let ready = self.connected().and_then(|()| match &mut self.connection {
            Some(connection) => prefetch::prepare(connection).and_then(|()| write_out::prepare(connection)),
            None => Ok(()),
        });
        if let Err(error) = ready {
            tracing::debug!(%error, "a line is not ready yet");
            self.connection = None;
        }
    }

    /// One transaction for all; where that fails for one command's sake, one for each, so that it costs only
    /// itself.
    fn commit_all(&mut self, mut commands: Vec<Queued>) {
        let Err(failed) = self.transact_anew(&mut commands) else {
            commands.into_iter().for_each(|queued| answer(queued.command, None));
            return;
        };
        if failed.how == Failure::Lost {
            // Whether a commit that got no answer holds nobody knows: who sends it again finds out.
            tracing::warn!(error = %failed.error, "the database is away");
            self.status.failed();
            let said = unavailable(failed.error).to_string();
            commands.into_iter().for_each(|queued| answer(queued.command, Some(Error::Unavailable(said.clone()))));
            return;
        }
        for mut queued in commands {
            let alone = self.transact_anew(std::slice::from_mut(&mut queued)).err();
            if let Some(failed) = &alone {
                tracing::error!(error = %failed.error, "a command could not be committed");
            }
            let failed = alone.map(|failed| match failed.how {
                Failure::Command => failed.error,
                Failure::Again | Failure::NotNew | Failure::Lost => unavailable(failed.error),
            });
            answer(queued.command, failed);
        }
    }

    /// Once more, as long as the only trouble is that others were there first.
    fn transact_anew(&mut self, commands: &mut [Queued]) -> std::result::Result<(), Failed> {
        let (mut tries, mut lost) = (0, 0);
        let was_connected = self.connection.is_some();
        loop {
            let done = self.transact(commands);
            tries += 1;
            match done {
                Err(failed) if matches!(failed.how, Failure::Again | Failure::NotNew) && tries < AGAIN_MAX => {
                    tracing::debug!(error = %failed.error, "a batch is retried after a conflict");
                }
                // The connection was lost while nobody used it, or the database ended a transaction that had idled for
                // too long, as one of a process that was suspended does. Nothing of it was committed.
                Err(failed) if failed.how == Failure::Lost && was_connected && lost == 0 && !self.commit_sent => {
                    tracing::debug!(error = %failed.error, "a batch is retried over a new connection");
                    lost += 1;
                }
                done => return done,
            }
        }
    }

    fn transact(&mut self, commands: &mut [Queued]) -> std::result::Result<(), Failed> {
        self.connected().map_err(|error| Failed { error: classify(error), how: Failure::Lost })?;
        let done = catch_unwind(AssertUnwindSafe(|| self.try_transact(commands))).unwrap_or_else(|_| {
            // It may have been cut off in the middle of a statement.
            self.connection = None;
            Err(Error::Unexpected("a command panicked".into()).into())
        });
        let noted = self.connection.as_mut().and_then(WriterConnection::take_failure);
        let Err(error) = done else {
            self.status.committed();
            self.asking = self.asking.saturating_sub(1);
            return Ok(());
        };
        self.known.clear();
        let how = noted.unwrap_or(Failure::Command);
        if matches!(how, Failure::NotNew | Failure::Command) {
            self.asking = ASK_AFTER_SURPRISE;
        }
        let usable = |connection: &mut WriterConnection| {
            how != Failure::Lost && !connection.is_closed() && connection.roll_back()
        };
        if !self.connection.as_mut().is_some_and(usable) {
            // With a transaction that may be open it is of no use to anybody.
            self.connection = None;
        }
        Err(Failed { error: classify(error), how })
    }

    fn connected(&mut self) -> Result<()> {
        if self.connection.as_ref().is_some_and(|connection| !connection.is_closed()) {
            return Ok(());
        }
        self.connection = None;
        match WriterConnection::open(&self.shared.address) {
            Ok(connection) => {
                // It may lead to another database, which took over and has not seen all that the last one had.
                self.names = Names::default();
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

    fn look_anew(&mut self) {
        let (set, now) = (self.shared.queues_set.load(Ordering::SeqCst), self.shared.time.now());
        let old =
            set != self.queues_set || now < self.queues_known_at || now.since(self.queues_known_at) >= QUEUES_KNOWN_MS;
        if old {
            (self.queues_set, self.queues_known_at) = (set, now);
        }
        self.known.expire(old);
    }

    fn try_transact(&mut self, commands: &mut [Queued]) -> Result<()> {
        self.commit_sent = false;
        self.look_anew();
        let asking = if self.asking > 0 { Asking::All } else { Asking::ButTheNew };
        let Self { shared, connection: Some(connection), known, names, watermarks, commit_sent, .. } = self else {
            return Err(Error::Unavailable("there is no connection".into()).into());
        };
        let unmet = names.unmet(commands.iter().map(|queued| &queued.prefetch));
        if !unmet.is_empty() {
            let met = connection.wait(unmet.meet(&connection.session, shared.time.now()));
            names.met(&connection.noted(met)?)?;
        }
        let mut rows = PgRows::new(connection, names, watermarks, shared.quiet.clone());
        let now = shared.time.read(rows.begin(commands.iter().map(|queued| &queued.prefetch), asking)?);
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
        if !rows.new_ones_are_made() {
            return Err(rows.connection.not_new().into());
        }
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

fn unavailable(error: Error) -> Error {
    match error {
        Error::Unavailable(said) => Error::Unavailable(said),
        other => Error::Unavailable(other.to_string()),
    }
}
