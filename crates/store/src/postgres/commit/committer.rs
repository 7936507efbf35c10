//! The writers of a replica. Each folds its waiting commands into one transaction. Commands of a run always go to the same
//! writer; claims have their own, and so have people and services, so that a storm of one kind does not starve another.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use redrive_core::policy::Policies;
use tokio::sync::{oneshot, watch};

use crate::commit::queue::{CommandQueue, Group, QueuedCommand, command, reply_to};
use crate::commit::writer_status::{WriterStatus, unanswered};
use crate::postgres::commit::prefetch::report_writer;
use crate::postgres::commit::writer::Writer;
use crate::postgres::connection::address::Address;
use crate::postgres::connection::clock::Time;
use crate::postgres::connection::notifier::Wakeups;
use crate::postgres::rows::breakers::QuietBreakers;
use redrive_engine::clock::Dice;
use redrive_engine::error::{Error, Result};
use redrive_engine::metrics::StoreMetrics;
use redrive_engine::ports::backend::{Lane, Owner, Prefetch, Route};
use redrive_engine::sweeps;
use redrive_engine::tx::Tx;

/// What the writers and readers of a replica share.
pub(crate) struct ReplicaContext {
    pub(crate) address: Address,
    pub(crate) time: Time,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) policies: Policies,
    pub(crate) quiet: Arc<QuietBreakers>,
    pub(crate) wakeups: Wakeups,
    /// Rises when this replica changes a queue, so that writers drop their cached queues.
    pub(crate) queues_set: AtomicU64,
    pub(crate) metrics: StoreMetrics,
}

pub(crate) struct Queued {
    pub(crate) command: Box<dyn QueuedCommand>,
    pub(crate) prefetch: Prefetch,
}

/// A writer's queue and status.
pub(crate) struct WriterQueue {
    commands: Arc<CommandQueue<Queued>>,
    status: Arc<WriterStatus>,
}

impl WriterQueue {
    async fn commit<T: Send + 'static>(
        &self,
        owner: Owner,
        prefetch: Prefetch,
        act: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.push(&owner, Queued { command: command(act, reply_to(reply)), prefetch })?;
        answer.await.map_or_else(|_| Err(unanswered(self.commands.is_closed())), |(answer, _)| answer)
    }

    /// Whether a commit would succeed now: a recent one answers, otherwise the smallest possible one is made.
    async fn ready(&self) -> Result<()> {
        if self.commands.is_full() {
            return Err(Error::Busy);
        }
        if self.status.is_fresh()? {
            return Ok(());
        }
        self.commit(Owner::System, Prefetch::default(), sweeps::touch).await
    }
}

/// The handle that commands are given to.
pub(crate) struct Committer {
    reports: Vec<WriterQueue>,
    claims: WriterQueue,
    desk: WriterQueue,
    /// Picks the writer of the next group.
    turn: AtomicUsize,
    recovered: watch::Receiver<u64>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Committer {
    /// Starts so many writers for reports, one for claims and one for the desk.
    pub(crate) fn start(shared: &Arc<ReplicaContext>, reports: usize) -> Result<Self> {
        let mut threads = Vec::new();
        let (recover, recovered) = watch::channel(0);
        let recover = Arc::new(recover);
        let mut connection = |name: String| {
            let commands = Arc::new(CommandQueue::new(shared.metrics.clone()));
            let queue = commands.clone();
            let status = WriterStatus::new(recover.clone());
            let (mut writer, running) = (Writer::new(shared.clone(), status.clone()), status.running());
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                let _running = running;
                writer.work(&queue);
            });
            threads.push(thread.map_err(|e| Error::Unexpected(format!("no thread for a committer: {e}")))?);
            Ok::<_, Error>(WriterQueue { commands, status })
        };
        let reports = (0..reports.max(1)).map(|n| connection(format!("committer-{n}"))).collect::<Result<_>>()?;
        let (claims, desk) = (connection("claims".into())?, connection("desk".into())?);
        Ok(Self { reports, claims, desk, turn: AtomicUsize::new(0), recovered, threads: Mutex::new(threads) })
    }

    fn all(&self) -> impl Iterator<Item = &WriterQueue> {
        self.reports.iter().chain([&self.claims, &self.desk])
    }

    pub(crate) fn recovered(&self) -> watch::Receiver<u64> {
        self.recovered.clone()
    }

    pub(crate) fn are_running(&self) -> bool {
        self.all().all(|writer| writer.status.is_running())
    }

    /// A replica is ready only if all of its writers are.
    pub(crate) async fn ready(&self) -> Result<()> {
        for writer in self.all() {
            writer.ready().await?;
        }
        Ok(())
    }

    fn writer(&self, route: &Route) -> &WriterQueue {
        match route.lane {
            Lane::Run => self.reports.get(report_writer(&route.prefetch, self.reports.len())).unwrap_or(&self.desk),
            Lane::Claims => &self.claims,
            Lane::Desk => &self.desk,
        }
    }

    /// Commits one command; fails at once if too many wait.
    pub(crate) async fn commit<T: Send + 'static>(
        &self,
        route: Route,
        act: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer(&route).commit(route.owner, route.prefetch, act).await
    }

    /// Returns once every report writer has committed a batch: heartbeats get through.
    pub(crate) async fn drain_reports(&self) -> Result<()> {
        for connection in &self.reports {
            let (reply, answer) = oneshot::channel();
            let command = command(|_: &mut Tx<'_>| Ok(()), reply_to(reply));
            connection.commands.push_group(&Owner::System, [Queued { command, prefetch: Prefetch::default() }])?;
            answer.await.map_or_else(|_| Err(unanswered(connection.commands.is_closed())), |(answer, _)| answer)?;
        }
        Ok(())
    }

    /// Commits many commands, waiting for room. Each has its own answer; the caller is woken once.
    pub(crate) async fn commit_each<T: Send + 'static, F>(&self, acts: Vec<(Route, F)>) -> Vec<Result<T>>
    where
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let count = acts.len();
        let (group, answered) = Group::of(count);
        // One writer for all of them: runs that came together are numbered in their order.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.reports.len().max(1);
        let connection = self.reports.get(turn).unwrap_or(&self.desk);
        // The first command's tenant owns the group: only keys that span tenants send mixed ones.
        let owner = acts.first().map_or(Owner::System, |(route, _)| route.owner.clone());
        // A writer that has ended leaves the group unanswered.
        let room = connection.commands.room_for_group(&owner).await;
        if room.is_ok() {
            let member = |(at, (route, act)): (usize, (Route, F))| Queued {
                command: command(act, group.reply(at)),
                prefetch: route.prefetch,
            };
            let _ = connection.commands.push_group(&owner, acts.into_iter().enumerate().map(member));
        }
        drop(group);
        let mut answers = answered.await.unwrap_or_default();
        answers.resize_with(count, || None);
        let is_closed = connection.commands.is_closed();
        answers
            .into_iter()
            .map(|answer| answer.map_or_else(|| Err(unanswered(is_closed)), |(answer, _)| answer))
            .collect()
    }

    /// Answers what is queued, then waits for the threads to end.
    pub(crate) async fn close(&self) {
        for connection in self.all() {
            connection.commands.close();
        }
        let threads = self.threads.lock().map(|mut threads| std::mem::take(&mut *threads)).unwrap_or_default();
        let _ = tokio::task::spawn_blocking(move || threads.into_iter().map(JoinHandle::join).count()).await;
    }
}
