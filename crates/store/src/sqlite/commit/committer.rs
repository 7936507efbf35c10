//! The one writer of a SQLite store. It folds waiting commands into one transaction and answers each after the commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use redrive_core::policy::Policies;
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::commit::queue::{BatchPace, CommandQueue, Group, QueuedCommand, answer, command, reply_to};
use crate::commit::writer_status::{WriterStatus, unanswered};
use crate::sqlite::commit::checkpointer::Checkpointer;
use crate::sqlite::connection::{classify, disable_checkpoints};
use crate::sqlite::rows::{SqliteRows, WriterCache};
use redrive_engine::breakers;
use redrive_engine::clock::{Clock, Dice};
use redrive_engine::counters::CounterDeltas;
use redrive_engine::error::{BoxError, Error, Result};
use redrive_engine::failpoint;
use redrive_engine::metrics::StoreMetrics;
use redrive_engine::ports::backend::{Owner, Pace, Unpaced};
use redrive_engine::tx::{Tx, TxCache};

/// Commands in one transaction. More of them share the pages that they change; beyond this the pages no longer fit the
/// cache.
const BATCH_MAX_COMMANDS: usize = 4_096;

/// Above the 0 of other threads, which still get a quarter of a processor beside it.
#[cfg(target_os = "linux")]
const PRIORITY: i32 = -5;

type SqliteQueue = CommandQueue<Box<dyn QueuedCommand>>;

/// The handle that commands are given to.
pub(crate) struct Committer {
    commands: Arc<SqliteQueue>,
    wakeups: watch::Receiver<u64>,
    recovered: watch::Receiver<u64>,
    status: Arc<WriterStatus>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Committer {
    pub(crate) fn start(
        conn: Connection,
        checkpointer: Checkpointer,
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        policies: Policies,
    ) -> Result<Self> {
        let commands = Arc::new(SqliteQueue::default());
        let (wake, wakeups) = watch::channel(0);
        disable_checkpoints(&conn)?;
        let (recover, recovered) = watch::channel(0);
        let status = WriterStatus::new(Arc::new(recover));
        let (known, memory) = (TxCache::default(), WriterCache::default());
        let mut writer =
            SqliteWriter { conn, checkpointer, clock, dice, policies, known, memory, wake, status: status.clone() };
        let (running, queue) = (status.running(), commands.clone());
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || {
                let _running = running;
                writer.work(&queue);
            })
            .map_err(|e| Error::Unexpected(format!("no thread for the committer: {e}")))?;
        Ok(Self { commands, wakeups, recovered, status, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn recovered(&self) -> watch::Receiver<u64> {
        self.recovered.clone()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.status.is_running()
    }

    /// Whether a commit would succeed now: a recent one answers, otherwise the smallest possible one is made.
    pub(crate) async fn ready(&self) -> Result<()> {
        if self.commands.is_full() {
            return Err(Error::Busy);
        }
        if self.status.is_fresh()? {
            return Ok(());
        }
        self.commit(Owner::System, redrive_engine::sweeps::touch).await
    }

    pub(crate) fn metrics(&self) -> &StoreMetrics {
        self.commands.metrics()
    }

    pub(crate) fn wakeups(&self) -> watch::Receiver<u64> {
        self.wakeups.clone()
    }

    /// Commits one command; fails at once if too many wait.
    pub(crate) async fn commit<T: Send + 'static>(
        &self,
        owner: Owner,
        act: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answered) = oneshot::channel();
        self.commands.push(&owner, command(act, reply_to(reply)))?;
        answered.await.map_or_else(|_| Err(unanswered(self.commands.is_closed())), |(answer, _)| answer)
    }

    /// Commits many commands, waiting for room. Each has its own answer; the caller is woken once per group.
    pub(crate) async fn commit_each<T: Send + 'static, F>(&self, owner: Owner, acts: Vec<F>) -> Vec<Result<T>>
    where
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let mut answers = Vec::with_capacity(acts.len());
        let mut acts = acts.into_iter().peekable();
        while acts.peek().is_some() {
            let group: Vec<F> = acts.by_ref().take(BATCH_MAX_COMMANDS).collect();
            answers.extend(self.commit_group(owner.clone(), group).await);
        }
        answers
    }

    async fn commit_group<T: Send + 'static, F>(&self, owner: Owner, acts: Vec<F>) -> impl Iterator<Item = Result<T>>
    where
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let count = acts.len();
        let (group, answered) = Group::of(count);
        // A writer that has ended leaves the group unanswered.
        let room = self.commands.room_for_group(&owner).await;
        if room.is_ok() {
            let commands = acts.into_iter().enumerate().map(|(at, act)| command(act, group.reply(at)));
            let _ = self.commands.push_group(&owner, commands);
        }
        drop(group);
        let mut answers = answered.await.unwrap_or_default();
        answers.resize_with(count, || None);
        let is_closed = self.commands.is_closed();
        answers.into_iter().map(move |answer| answer.map_or_else(|| Err(unanswered(is_closed)), |(answer, _)| answer))
    }

    /// Answers what is queued, then waits for the thread to end.
    pub(crate) async fn close(&self) {
        self.commands.close();
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// The writer's thread.
struct SqliteWriter {
    conn: Connection,
    checkpointer: Checkpointer,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    policies: Policies,
    known: TxCache,
    memory: WriterCache,
    wake: watch::Sender<u64>,
    status: Arc<WriterStatus>,
}

impl SqliteWriter {
    fn work(&mut self, queue: &Arc<SqliteQueue>) {
        raise_priority();
        while let Some(first) = queue.wait() {
            // A panic outside of commands costs the answers of one batch, not the thread.
            let done = catch_unwind(AssertUnwindSafe(|| {
                self.commit_all(first, queue);
                self.checkpointer.check(&self.conn);
            }));
            if done.is_err() {
                tracing::error!("writer panicked; continuing with the next batch");
                self.roll_back();
            }
        }
        self.checkpointer.end(&self.conn);
    }

    /// Undoes an open transaction, and forgets what was cached of it.
    fn roll_back(&mut self) {
        self.known.clear();
        self.memory = WriterCache::default();
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    /// Commits what waits, and what arrives meanwhile, in one transaction. If that fails, each command gets a transaction of
    /// its own, so that a bad command costs only itself.
    fn commit_all(&mut self, first: Box<dyn QueuedCommand>, queue: &Arc<SqliteQueue>) {
        let (mut commands, pace) = (Vec::new(), BatchPace::begin(queue.clone()));
        let (mut next, clock) = (Some(first), self.clock.clone());
        let whole = self.transact(&pace, |batch| {
            while let Some(command) = next.take() {
                commands.push(command);
                if let Some(command) = commands.last_mut() {
                    command.run(batch)?;
                }
                failpoint::pass("mid_batch");
                if commands.len() < BATCH_MAX_COMMANDS && !pace.is_over() {
                    next = queue.next();
                    // A command that arrived after the batch began must not see an earlier time.
                    batch.now = clock.now();
                }
            }
            Ok(())
        });
        // If the transaction could not begin, the first command is still here.
        commands.extend(next);
        if whole.is_ok() {
            pace.committed(commands.len());
            commands.into_iter().for_each(|command| answer(command, None));
            return;
        }
        for mut command in commands {
            let pace = BatchPace::begin(queue.clone());
            let alone = self.transact(&Unpaced, |batch| command.run(batch)).err();
            match &alone {
                Some(error) => tracing::error!(%error, "a command could not be committed"),
                None => pace.committed(1),
            }
            answer(command, alone);
        }
    }

    fn transact(&mut self, pace: &dyn Pace, act: impl FnOnce(&mut Tx<'_>) -> Result<()>) -> Result<()> {
        let done = catch_unwind(AssertUnwindSafe(|| self.try_transact(pace, act)))
            .unwrap_or_else(|_| Err(Error::Unexpected("a command panicked".into())));
        match &done {
            Ok(()) => self.status.committed(),
            Err(error) => {
                if matches!(error, Error::Unavailable(_)) {
                    self.status.failed();
                }
                self.roll_back();
            }
        }
        done
    }

    fn try_transact(&mut self, pace: &dyn Pace, act: impl FnOnce(&mut Tx<'_>) -> Result<()>) -> Result<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([])).map_err(database)?;
        let mut rows = SqliteRows::new(&self.conn, &mut self.memory);
        let mut batch = Tx {
            rows: &mut rows,
            now: self.clock.now(),
            dice: &*self.dice,
            policies: &self.policies,
            known: &mut self.known,
            counters: CounterDeltas::default(),
            pace,
            wake: false,
        };
        act(&mut batch).map_err(classify)?;
        breakers::fold(&mut batch).map_err(classify)?;
        let Tx { rows, now, wake, counters, .. } = batch;
        rows.fold(counters, now).map_err(classify)?;
        failpoint::pass("before_commit");
        self.conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([])).map_err(database)?;
        failpoint::pass("after_commit");
        if wake {
            self.wake.send_modify(|n| *n = n.wrapping_add(1));
        }
        Ok(())
    }
}

/// Every report waits for this thread, so it runs before the server's other threads where the machine allows it.
fn raise_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, PRIORITY) {
        tracing::debug!(%error, "writer priority not raised");
    }
}

fn database(error: rusqlite::Error) -> Error {
    classify(BoxError::from(error))
}

#[cfg(test)]
mod tests {
    use redrive_core::time::Timestamp;

    use super::*;
    use crate::sqlite::store::{Options, SqliteStore};
    use redrive_engine::clock::{ManualClock, SeededDice};

    fn open(folder: &tempfile::TempDir) -> SqliteStore {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let (dice, policies) = (Arc::new(SeededDice::new(7)), Policies::default());
        SqliteStore::open(Options { folder: folder.path().join("data"), clock, dice, policies }).unwrap()
    }

    #[tokio::test]
    async fn a_panic_beside_a_command_is_contained() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let half = store.write(move |batch| {
            batch.rows.put_stamp("half", batch.now, Timestamp::default())?;
            failpoint::panic_at("before_commit");
            Ok(())
        });
        assert!(matches!(half.await, Err(Error::Unexpected(_))));
        assert_eq!(store.write(|tx| Ok(tx.rows.last_seen()?)).await.unwrap(), None);
        assert!(store.committer.is_running());
    }

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[tokio::test]
    async fn a_panic_while_answering_is_contained() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        // The committer is busy until the caller of the second command has gone, so it drops the answer itself.
        let (release, busy) = std::sync::mpsc::channel::<()>();
        let mut first = Box::pin(store.write(move |_| {
            let _released = busy.recv();
            Ok(())
        }));
        let mut asked = Box::pin(store.write(|_| Ok(PanicsWhenDropped)));
        std::future::poll_fn(|cx| {
            assert!(first.as_mut().poll(cx).is_pending());
            assert!(asked.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(asked);
        release.send(()).unwrap();
        first.await.unwrap();
        assert_eq!(store.write(|tx| Ok(tx.rows.last_seen()?)).await.unwrap(), None);
        assert!(store.committer.is_running());
    }

    #[tokio::test]
    async fn readiness_after_a_commit_costs_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let other = Connection::open(folder.path().join("data/redrive.db")).unwrap();
        let version = || other.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).unwrap();
        let first = version();
        store.committer.ready().await.unwrap();
        let before = version();
        assert_ne!(first, before, "the first call has to commit");
        for _ in 0..100 {
            store.committer.ready().await.unwrap();
        }
        assert_eq!(version(), before);
    }

    #[tokio::test]
    async fn a_failed_command_leaves_no_open_transaction() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let stamped = store.write(|batch| {
            batch.rows.put_stamp("half", batch.now, Timestamp::default())?;
            Err::<(), _>(Error::Unexpected("in the middle of it".into()))
        });
        assert!(matches!(stamped.await, Err(Error::Unexpected(_))));
        assert_eq!(store.write(|tx| Ok(tx.rows.last_seen()?)).await.unwrap(), None);
    }
}
