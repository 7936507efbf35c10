//! Where this replica writes. Each line takes what waits and folds it into one transaction; the same run always goes to the
//! same line, claims have one of their own, and so has what people and the engine do, so that a storm of one starves no
//! other.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use redrive_core::policy::Policies;
use tokio::sync::{mpsc, oneshot};

use super::address::Address;
use super::expected::Expects;
use super::quiet::Quiet;
use super::time::Time;
use super::wakeups::Wakeups;
use super::writer::{BATCH_MAX_COMMANDS, Writer};
use crate::clock::Dice;
use crate::commands::batch::Batch;
use crate::commands::command::{Call, Command, Group, Member, Stop};
use crate::error::{Error, Result};

/// Commands that may wait at one line; one more is answered Busy and nothing is lost.
const QUEUE_MAX_COMMANDS: usize = 8_192;

/// What all lines of a replica share.
pub(super) struct Shared {
    pub(super) address: Address,
    pub(super) time: Time,
    pub(super) dice: Arc<dyn Dice>,
    pub(super) policies: Policies,
    pub(super) quiet: Arc<Quiet>,
    pub(super) wakeups: Wakeups,
    /// Rises when this replica sets a queue: what the lines know of queues is old then.
    pub(super) queues_set: AtomicU64,
}

/// Which line a command goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// By its run.
    Reports,
    Claims,
    Desk,
}

pub(super) struct Queued {
    pub(super) command: Box<dyn Command>,
    pub(super) expects: Expects,
}

/// The handle that commands are given to.
pub(super) struct Committer {
    reports: Vec<mpsc::Sender<Queued>>,
    claims: mpsc::Sender<Queued>,
    desk: mpsc::Sender<Queued>,
    /// Which line the next group goes to.
    turn: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Committer {
    /// Starts so many lines for reports, and the others.
    pub(super) fn start(shared: &Arc<Shared>, lines: usize) -> Result<Self> {
        let mut threads = Vec::new();
        let mut line = |name: String| {
            let (commands, queue) = mpsc::channel(QUEUE_MAX_COMMANDS);
            let mut writer = Writer::new(shared.clone());
            let thread = std::thread::Builder::new().name(name).spawn(move || writer.work(queue));
            threads.push(thread.map_err(|e| Error::Unexpected(format!("no thread for a committer: {e}")))?);
            Ok::<_, Error>(commands)
        };
        let reports = (0..lines.max(1)).map(|n| line(format!("committer-{n}"))).collect::<Result<_>>()?;
        let (claims, desk) = (line("claims".into())?, line("desk".into())?);
        Ok(Self { reports, claims, desk, turn: AtomicUsize::new(0), threads: Mutex::new(threads) })
    }

    fn line(&self, to: To, expects: &Expects) -> &mpsc::Sender<Queued> {
        match to {
            To::Reports => self.reports.get(expects.line(self.reports.len())).unwrap_or(&self.desk),
            To::Claims => &self.claims,
            To::Desk => &self.desk,
        }
    }

    /// Commits one command, or says at once that too many wait.
    pub(super) async fn commit<T: Send + 'static>(
        &self,
        to: To,
        expects: Expects,
        act: impl FnMut(&mut Batch<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let line = self.line(to, &expects);
        let queued = Queued { command: Box::new(Call::new(act, reply)), expects };
        line.try_send(queued).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => Error::Closing,
        })?;
        answer.await.map_or(Err(Error::Closing), |(answer, _)| answer)
    }

    /// Returns once every line for reports has come through a transaction: heartbeats get through.
    pub(super) async fn pass_reports(&self) -> Result<()> {
        for line in &self.reports {
            let (reply, answer) = oneshot::channel();
            let command = Box::new(Call::new(|_: &mut Batch<'_>| Ok(()), reply));
            line.send(Queued { command, expects: Expects::default() }).await.map_err(|_| Error::Closing)?;
            answer.await.map_or(Err(Error::Closing), |(answer, _)| answer)?;
        }
        Ok(())
    }

    /// Commits many, waiting for room: the caller's own memory bounds them. Each is answered alone, and the caller is woken
    /// once.
    pub(super) async fn commit_each<T: Send + 'static, F>(&self, acts: Vec<(Expects, F)>) -> Vec<Result<T>>
    where
        F: FnMut(&mut Batch<'_>) -> Result<T> + Send + 'static,
    {
        let count = acts.len();
        let (group, answered) = Group::of(count);
        // One line for all of them: what came together is numbered in its order.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.reports.len().max(1);
        let line = self.reports.get(turn).unwrap_or(&self.desk);
        let mut acts = acts.into_iter().enumerate().peekable();
        while acts.peek().is_some() {
            let piece: Vec<_> = acts.by_ref().take(BATCH_MAX_COMMANDS).collect();
            // A line that has ended leaves its part unanswered.
            let Ok(room) = line.reserve_many(piece.len()).await else { break };
            for ((at, (expects, act)), place) in piece.into_iter().zip(room) {
                place.send(Queued { command: Box::new(Member::new(act, at, group.clone())), expects });
            }
        }
        drop(acts);
        drop(group);
        let mut answers = answered.await.unwrap_or_default();
        answers.resize_with(count, || None);
        answers.into_iter().map(|answer| answer.map_or(Err(Error::Closing), |(answer, _)| answer)).collect()
    }

    /// Answers what is queued, then ends. Waits for the threads.
    pub(super) async fn close(&self) {
        for line in self.reports.iter().chain([&self.claims, &self.desk]) {
            // The command that closes the queue from the inside, behind all that was sent before.
            let _ = line.send(Queued { command: Box::new(Stop), expects: Expects::default() }).await;
        }
        let threads = self.threads.lock().map(|mut threads| std::mem::take(&mut *threads)).unwrap_or_default();
        let _ = tokio::task::spawn_blocking(move || threads.into_iter().map(JoinHandle::join).count()).await;
    }
}
