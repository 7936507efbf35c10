//! The one place that writes. Commands queue up; the committer folds what waits into one transaction and answers each
//! after the commit, so durable and fast are the same path.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use redrive_core::policy::Policies;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::{Clock, Dice};
use crate::error::{Error, Result};
use crate::sqlite::batch::{Batch, Known};
use crate::sqlite::connection::is_unavailable;
use crate::sqlite::failpoint;
use crate::sqlite::tally::Tally;

/// Commands that may wait; one more is answered Busy and nothing is lost.
const QUEUE_MAX_COMMANDS: usize = 8_192;
/// Commands in one transaction.
const BATCH_MAX_COMMANDS: usize = 1_024;

/// A command: run inside a transaction (again, if its batch had to be rolled back), answered after the commit.
trait Command: Send {
    /// Err only when the store failed; a refusal is an answer like any other.
    fn run(&mut self, batch: &mut Batch<'_>) -> Result<()>;
    fn answer(self: Box<Self>, failed: Option<Error>);
}

struct Call<F, T> {
    act: F,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Answered<F, T>>,
}

/// An answer, and with it the command: whoever asked lets go of what it held, so that the committer need not.
type Answered<F, T> = (Result<T>, F);

impl<F, T> Command for Call<F, T>
where
    F: FnMut(&mut Batch<'_>) -> Result<T> + Send + 'static,
    T: Send + 'static,
{
    fn run(&mut self, batch: &mut Batch<'_>) -> Result<()> {
        match (self.act)(batch) {
            Err(failed @ (Error::Sqlite(_) | Error::Unavailable(_) | Error::Unexpected(_) | Error::Damaged(_))) => {
                Err(failed)
            }
            answer => {
                self.result = Some(answer);
                Ok(())
            }
        }
    }

    fn answer(self: Box<Self>, failed: Option<Error>) {
        let answer = match failed {
            Some(error) => Err(error),
            None => self.result.unwrap_or(Err(Error::Closing)),
        };
        // Nobody may be waiting any more: a client that hung up does not undo what was committed.
        let _ = self.reply.send((answer, self.act));
    }
}

/// The handle that commands are given to.
pub(super) struct Committer {
    commands: mpsc::Sender<Box<dyn Command>>,
    wakeups: watch::Receiver<u64>,
    thread: std::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Committer {
    pub(super) fn start(
        conn: Connection,
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        policies: Policies,
    ) -> Result<Self> {
        let (commands, queue) = mpsc::channel(QUEUE_MAX_COMMANDS);
        let (wake, wakeups) = watch::channel(0);
        let mut desk = Desk { conn, clock, dice, policies, known: Known::default(), wake };
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(move || desk.work(queue))
            .map_err(|e| Error::Unexpected(format!("no thread for the committer: {e}")))?;
        Ok(Self { commands, wakeups, thread: std::sync::Mutex::new(Some(thread)) })
    }

    pub(super) fn wakeups(&self) -> watch::Receiver<u64> {
        self.wakeups.clone()
    }

    /// Commits one command, or says at once that too many wait.
    pub(super) async fn commit<T: Send + 'static>(
        &self,
        act: impl FnMut(&mut Batch<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(Box::new(Call { act, result: None, reply })).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => Error::Closing,
        })?;
        answer.await.map_or(Err(Error::Closing), |(answer, _)| answer)
    }

    /// Commits many, waiting for room: the caller's own memory bounds them. Each is answered alone.
    pub(super) async fn commit_each<T: Send + 'static, F>(&self, acts: Vec<F>) -> Vec<Result<T>>
    where
        F: FnMut(&mut Batch<'_>) -> Result<T> + Send + 'static,
    {
        let mut waiting = Vec::with_capacity(acts.len());
        for act in acts {
            let (reply, answer) = oneshot::channel();
            let sent = self.commands.send(Box::new(Call { act, result: None, reply })).await;
            waiting.push(sent.is_ok().then_some(answer));
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for answer in waiting {
            answers.push(match answer {
                Some(answer) => answer.await.map_or(Err(Error::Closing), |(answer, _)| answer),
                None => Err(Error::Closing),
            });
        }
        answers
    }

    /// Answers what is queued, then ends. Waits for the thread.
    pub(super) async fn close(&self) {
        // The empty command that closes the queue from the inside, behind all that was sent before.
        let _ = self.commands.send(Box::new(Stop)).await;
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Ends the committer.
struct Stop;

impl Command for Stop {
    fn run(&mut self, _: &mut Batch<'_>) -> Result<()> {
        Err(Error::Closing)
    }

    fn answer(self: Box<Self>, _: Option<Error>) {}
}

/// The committer's own thread.
struct Desk {
    conn: Connection,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    policies: Policies,
    known: Known,
    wake: watch::Sender<u64>,
}

impl Desk {
    fn work(&mut self, mut queue: mpsc::Receiver<Box<dyn Command>>) {
        while let Some(first) = queue.blocking_recv() {
            let mut commands = vec![first];
            while commands.len() < BATCH_MAX_COMMANDS {
                let Ok(next) = queue.try_recv() else { break };
                commands.push(next);
            }
            if !self.commit_all(commands) {
                queue.close();
            }
        }
        if let Err(error) = self.conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)") {
            tracing::warn!(%error, "the last checkpoint failed; the write-ahead log keeps everything");
        }
    }

    /// One transaction for all; where that fails, one for each, so that a bad command costs only itself. False when
    /// the committer was told to stop.
    fn commit_all(&mut self, mut commands: Vec<Box<dyn Command>>) -> bool {
        let whole: Result<()> = self.transact(|batch| {
            commands.iter_mut().try_for_each(|command| {
                command.run(batch)?;
                failpoint::pass("mid_batch");
                Ok(())
            })
        });
        let Err(error) = whole else {
            commands.into_iter().for_each(|command| command.answer(None));
            return true;
        };
        let mut stop = matches!(error, Error::Closing);
        for mut command in commands {
            let alone = self.transact(|batch| command.run(batch)).err();
            stop |= matches!(alone, Some(Error::Closing));
            if let Some(error) = alone.as_ref().filter(|error| !matches!(error, Error::Closing)) {
                tracing::error!(%error, "a command could not be committed");
            }
            command.answer(alone);
        }
        !stop
    }

    fn transact(&mut self, act: impl FnOnce(&mut Batch<'_>) -> Result<()>) -> Result<()> {
        let done = self.try_transact(act);
        if done.is_err() {
            self.known.forget();
            if !self.conn.is_autocommit()
                && let Err(error) = self.conn.execute_batch("ROLLBACK")
            {
                tracing::error!(%error, "a transaction could not be rolled back");
            }
        }
        done
    }

    fn try_transact(&mut self, act: impl FnOnce(&mut Batch<'_>) -> Result<()>) -> Result<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map_err(storage)?;
        let mut batch = Batch {
            conn: &self.conn,
            now: self.clock.now(),
            dice: &*self.dice,
            policies: &self.policies,
            known: &mut self.known,
            tally: Tally::default(),
            wake: false,
        };
        catch_unwind(AssertUnwindSafe(|| act(&mut batch)))
            .unwrap_or_else(|_| Err(Error::Unexpected("a command panicked".into())))
            .map_err(sort_out)?;
        let Batch { now, wake, tally, known, .. } = batch;
        tally.fold(&self.conn, now, &mut known.pattern_clocks).map_err(sort_out)?;
        failpoint::pass("before_commit");
        self.conn.prepare_cached("COMMIT")?.execute([]).map_err(storage)?;
        failpoint::pass("after_commit");
        if wake {
            self.wake.send_modify(|n| *n = n.wrapping_add(1));
        }
        Ok(())
    }
}

fn sort_out(error: Error) -> Error {
    match error {
        Error::Sqlite(sqlite) => storage(sqlite),
        other => other,
    }
}

fn storage(error: rusqlite::Error) -> Error {
    if is_unavailable(&error) { Error::Unavailable(error.to_string()) } else { Error::Sqlite(error) }
}
