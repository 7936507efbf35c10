//! The queue of a writer, and how its commands are answered. Owners take turns, so a tenant that sends a hundred thousand
//! commands delays another's one command by at most a batch.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redrive_core::ids::Tenant;

use redrive_engine::error::{Error, Result};
use redrive_engine::fair_semaphore::{FairPermit, FairSemaphore};
use redrive_engine::metrics::StoreMetrics;
use redrive_engine::ports::backend::{Owner, Pace};
use redrive_engine::tx::Tx;
use tokio::sync::oneshot;

/// Single commands that may wait; one more is answered Busy.
const WAITING_MAX: usize = 8_192;
/// Of one owner.
const WAITING_MAX_PER_OWNER: usize = WAITING_MAX / 2;
/// Groups of one owner that may be queued; further ones wait for room.
const GROUPS_MAX_PER_OWNER: usize = 4;
/// Of all owners.
const GROUPS_MAX: usize = 64;
/// Batches stay short for so long after two tenants have sent commands.
const SHARED_FOR: Duration = Duration::from_secs(1);
/// What a batch may take of the writer's time once an owner waits for its end alone. Each batch ends with an fsync: with a
/// sixth of this, claims of a hundred tenants took more than twice as long.
const SHARED_BATCH_MAX: Duration = Duration::from_millis(12);

pub(crate) struct CommandQueue<C> {
    state: Mutex<QueueState<C>>,
    arrived: Condvar,
    groups: FairSemaphore<Owner>,
    metrics: StoreMetrics,
}

struct QueueState<C> {
    owners: HashMap<Owner, OwnerQueue<C>>,
    /// Owners with waiting commands, in the order of their turns.
    turns: VecDeque<Owner>,
    /// Single commands that wait.
    single: usize,
    sharing: Sharing,
    /// An owner has nothing more waiting, and waits for the batch under way to commit.
    commit_awaited: bool,
    closed: bool,
}

struct OwnerQueue<C> {
    waiting: VecDeque<QueueEntry<C>>,
    single: usize,
}

struct QueueEntry<C> {
    command: C,
    kind: CommandKind,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandKind {
    Single,
    OfGroup,
}

/// Whether more than one tenant uses the writer now.
#[derive(Debug, Default)]
struct Sharing {
    last: Option<Tenant>,
    until: Option<Instant>,
}

impl Sharing {
    /// Commands of the system do not count as sharing.
    fn note(&mut self, owner: &Owner, now: impl FnOnce() -> Instant) {
        let Owner::Tenant(tenant) = owner else { return };
        match &self.last {
            Some(last) if last == tenant => return,
            Some(_) => self.until = Some(now() + SHARED_FOR),
            None => {}
        }
        self.last = Some(tenant.clone());
    }

    fn is_shared(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

impl<C> Default for CommandQueue<C> {
    fn default() -> Self {
        Self::new(StoreMetrics::default())
    }
}

impl<C> CommandQueue<C> {
    pub(crate) fn new(metrics: StoreMetrics) -> Self {
        let state = QueueState {
            owners: HashMap::new(),
            turns: VecDeque::new(),
            single: 0,
            sharing: Sharing::default(),
            commit_awaited: false,
            closed: false,
        };
        let groups = FairSemaphore::new(GROUPS_MAX, GROUPS_MAX_PER_OWNER);
        Self { state: Mutex::new(state), arrived: Condvar::new(), groups, metrics }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues one command; fails at once if too many wait.
    pub(crate) fn push(&self, owner: &Owner, command: C) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closing);
        }
        let of_owner = state.owners.get(owner).map_or(0, |own| own.single);
        if state.single >= WAITING_MAX || of_owner >= WAITING_MAX_PER_OWNER {
            return Err(Error::Busy);
        }
        state.push(owner, [(command, CommandKind::Single)]);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits until the owner may queue a group. The turn is held until the group is answered.
    pub(crate) async fn room_for_group(&self, owner: &Owner) -> Result<FairPermit> {
        self.groups.acquire(owner).await.ok_or(Error::Closing)
    }

    /// Queues many commands of one owner.
    pub(crate) fn push_group(&self, owner: &Owner, commands: impl IntoIterator<Item = C>) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closing);
        }
        state.push(owner, commands.into_iter().map(|command| (command, CommandKind::OfGroup)));
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// The first command of a batch, as soon as there is one; None once the queue is closed and empty.
    pub(crate) fn wait(&self) -> Option<C> {
        let mut state = self.lock();
        state.commit_awaited = false;
        let next = loop {
            match state.pop() {
                None if !state.closed => {
                    state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                next => break next,
            }
        };
        drop(state);
        self.measured(next)
    }

    /// The next command, if one waits.
    pub(crate) fn next(&self) -> Option<C> {
        let next = self.lock().pop();
        self.measured(next)
    }

    pub(crate) fn metrics(&self) -> &StoreMetrics {
        &self.metrics
    }

    /// Records how long a command waited; outside the lock.
    fn measured(&self, next: Option<QueueEntry<C>>) -> Option<C> {
        let QueueEntry { command, since, .. } = next?;
        self.metrics.record_queue_wait(since.elapsed());
        Some(command)
    }

    /// Refuses further commands; those that wait are still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.groups.close();
        self.arrived.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lock().single >= WAITING_MAX
    }

    /// Whether several tenants use this writer.
    pub(crate) fn is_shared(&self) -> bool {
        self.lock().sharing.is_shared(monotonic())
    }

    /// Whether an owner among several waits for nothing but the end of the batch under way.
    fn is_commit_awaited(&self) -> bool {
        let state = self.lock();
        state.commit_awaited && state.sharing.is_shared(monotonic())
    }
}

impl<C> QueueState<C> {
    fn push(&mut self, owner: &Owner, commands: impl IntoIterator<Item = (C, CommandKind)>) {
        let since = monotonic();
        self.sharing.note(owner, || since);
        let own = match self.owners.get_mut(owner) {
            Some(own) => own,
            None => {
                self.turns.push_back(owner.clone());
                self.owners.entry(owner.clone()).or_insert(OwnerQueue { waiting: VecDeque::new(), single: 0 })
            }
        };
        for (command, kind) in commands {
            let single = usize::from(kind == CommandKind::Single);
            (own.single, self.single) = (own.single + single, self.single + single);
            own.waiting.push_back(QueueEntry { command, kind, since });
        }
        if own.waiting.is_empty() {
            self.owners.remove(owner);
            self.turns.retain(|other| other != owner);
        }
    }

    /// The first command of the owner whose turn it is.
    fn pop(&mut self) -> Option<QueueEntry<C>> {
        let owner = self.turns.pop_front()?;
        let own = self.owners.get_mut(&owner)?;
        let next = own.waiting.pop_front()?;
        let single = usize::from(next.kind == CommandKind::Single);
        (own.single, self.single) = (own.single - single, self.single - single);
        if own.waiting.is_empty() {
            self.owners.remove(&owner);
            self.commit_awaited = true;
        } else {
            self.turns.push_back(owner);
        }
        Some(next)
    }
}

/// Runs that one command moves at most while tenants share the writer.
const SHARED_RUNS_MAX: usize = 512;

/// One batch of a writer. It takes all that waits, but ends early once an owner waits for its commit while others have more.
pub(crate) struct BatchPace<C> {
    queue: Arc<CommandQueue<C>>,
    began: Instant,
}

impl<C> BatchPace<C> {
    pub(crate) fn begin(queue: Arc<CommandQueue<C>>) -> Self {
        Self { queue, began: monotonic() }
    }

    /// The transaction of this batch is durable.
    pub(crate) fn committed(&self, commands: usize) {
        self.queue.metrics.record_commit(self.began.elapsed(), commands);
    }
}

impl<C> Pace for BatchPace<C> {
    fn is_over(&self) -> bool {
        self.began.elapsed() >= SHARED_BATCH_MAX && self.queue.is_commit_awaited()
    }

    fn runs_max(&self, most: usize) -> usize {
        if self.queue.is_shared() { most.min(SHARED_RUNS_MAX) } else { most }
    }
}

#[expect(clippy::disallowed_methods, reason = "measures how long a batch takes; no run depends on it")]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// A command that waits for a writer. It runs inside a transaction, again if its batch was rolled back, and is answered after
/// the commit.
pub(crate) trait QueuedCommand: Send {
    /// Fails only if the store failed; a refusal is an answer like any other.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()>;
    fn answer(self: Box<Self>, failed: Option<Error>);
}

/// Answers a command. A panic while it is dropped costs no other command's answer.
pub(crate) fn answer(command: Box<dyn QueuedCommand>, failed: Option<Error>) {
    if catch_unwind(AssertUnwindSafe(|| command.answer(failed))).is_err() {
        tracing::error!("an answer panicked");
    }
}

/// A command that passes its result to `reply`. The closure goes with it, so that the caller's thread drops what it holds.
pub(crate) fn command<F, T, R>(act: F, reply: R) -> Box<dyn QueuedCommand>
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    T: Send + 'static,
    R: FnOnce((Result<T>, F)) + Send + 'static,
{
    Box::new(CommandWithReply { act, result: None, reply })
}

struct CommandWithReply<F, T, R> {
    act: F,
    result: Option<Result<T>>,
    reply: R,
}

impl<F, T, R> QueuedCommand for CommandWithReply<F, T, R>
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send,
    T: Send,
    R: FnOnce((Result<T>, F)) + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        match (self.act)(tx) {
            Err(failed) if failed.is_of_store() => Err(failed),
            answer => {
                self.result = Some(answer);
                Ok(())
            }
        }
    }

    fn answer(self: Box<Self>, failed: Option<Error>) {
        let Self { act, result, reply } = *self;
        let answer = failed.map_or_else(|| result.unwrap_or(Err(Error::Closing)), Err);
        reply((answer, act));
    }
}

/// A reply to one caller. A client that hung up does not undo what was committed.
pub(crate) fn reply_to<A>(caller: oneshot::Sender<A>) -> impl FnOnce(A) {
    move |answer| drop(caller.send(answer))
}

/// The answers of many commands, sent together when the last command is dropped.
pub(crate) struct Group<A> {
    answers: Mutex<Vec<Option<A>>>,
    done: Option<oneshot::Sender<Vec<Option<A>>>>,
}

impl<A> Group<A> {
    pub(crate) fn of(count: usize) -> (Arc<Self>, oneshot::Receiver<Vec<Option<A>>>) {
        let (done, answered) = oneshot::channel();
        let answers = Mutex::new(std::iter::repeat_with(|| None).take(count).collect());
        (Arc::new(Self { answers, done: Some(done) }), answered)
    }

    /// The reply of the command at `position`.
    pub(crate) fn reply(self: &Arc<Self>, position: usize) -> impl FnOnce(A) + use<A> {
        let group = self.clone();
        move |answer| {
            if let Ok(mut answers) = group.answers.lock()
                && let Some(place) = answers.get_mut(position)
            {
                *place = Some(answer);
            }
        }
    }
}

impl<A> Drop for Group<A> {
    fn drop(&mut self) {
        let answers = self.answers.get_mut().map(std::mem::take).unwrap_or_default();
        if let Some(done) = self.done.take() {
            let _ = done.send(answers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner::Tenant(name.parse().unwrap())
    }

    fn drain(queue: &CommandQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.next()).collect()
    }

    #[test]
    fn commands_are_dealt_in_turn_between_tenants() {
        let queue = CommandQueue::default();
        queue.push_group(&owner("a"), ["a1", "a2", "a3", "a4"]).unwrap();
        queue.push(&owner("b"), "b1").unwrap();
        queue.push(&Owner::System, "s1").unwrap();
        queue.push(&owner("b"), "b2").unwrap();
        assert_eq!(drain(&queue), ["a1", "b1", "s1", "a2", "b2", "a3", "a4"]);
    }

    #[test]
    fn a_late_arrival_is_next_but_one() {
        let queue = CommandQueue::default();
        queue.push_group(&owner("a"), ["a1", "a2", "a3"]).unwrap();
        assert_eq!(queue.next(), Some("a1"));
        queue.push(&owner("b"), "b1").unwrap();
        assert_eq!(drain(&queue), ["a2", "b1", "a3"]);
    }

    #[test]
    fn one_tenants_full_queue_refuses_nobody_else() {
        let queue = CommandQueue::default();
        let mut taken = 0;
        while queue.push(&owner("a"), "a").is_ok() {
            taken += 1;
        }
        assert_eq!(taken, WAITING_MAX_PER_OWNER);
        assert!(matches!(queue.push(&owner("a"), "a"), Err(Error::Busy)));
        assert!(queue.push(&owner("b"), "b").is_ok() && !queue.is_full());
    }

    #[test]
    fn groups_leave_room_for_single_commands() {
        let queue = CommandQueue::default();
        queue.push_group(&owner("a"), vec!["a"; 2 * WAITING_MAX]).unwrap();
        assert!(queue.push(&owner("a"), "one more").is_ok());
    }

    #[test]
    fn a_closed_queue_hands_out_what_it_has() {
        let queue = CommandQueue::default();
        queue.push(&owner("a"), "a1").unwrap();
        queue.close();
        assert!(matches!(queue.push(&owner("a"), "a2"), Err(Error::Closing)));
        assert!(matches!(queue.push_group(&owner("a"), ["a3"]), Err(Error::Closing)));
        assert_eq!((queue.wait(), queue.wait()), (Some("a1"), None));
    }

    #[test]
    fn an_empty_group_takes_no_turn() {
        let queue = CommandQueue::<&str>::default();
        queue.push_group(&owner("a"), []).unwrap();
        queue.push(&owner("a"), "a1").unwrap();
        assert_eq!(drain(&queue), ["a1"]);
    }

    #[test]
    fn only_a_second_tenant_makes_batches_short() {
        let (mut sharing, now) = (Sharing::default(), monotonic());
        for sender in [owner("a"), Owner::System, owner("a")] {
            sharing.note(&sender, || now);
        }
        assert!(!sharing.is_shared(now));
        sharing.note(&owner("b"), || now);
        assert!(sharing.is_shared(now) && !sharing.is_shared(now + SHARED_FOR));
    }

    #[test]
    fn a_shared_batch_ends_once_its_commit_is_awaited() {
        let queue = Arc::new(CommandQueue::<&str>::default());
        let pace = BatchPace { queue: queue.clone(), began: monotonic() - SHARED_BATCH_MAX };
        queue.push(&owner("a"), "a1").unwrap();
        assert_eq!(queue.wait(), Some("a1"));
        assert!(!pace.is_over(), "nobody else is there");
        assert_eq!(pace.runs_max(1_000), 1_000);
        queue.push_group(&owner("a"), ["a2", "a3", "a4"]).unwrap();
        queue.push_group(&owner("b"), ["b1", "b2"]).unwrap();
        assert_eq!((pace.runs_max(1_000), pace.runs_max(7)), (SHARED_RUNS_MAX, 7));
        assert_eq!((queue.wait(), queue.next()), (Some("a2"), Some("b1")));
        assert!(!pace.is_over(), "both have more to come");
        assert_eq!((queue.next(), queue.next()), (Some("a3"), Some("b2")));
        assert!(pace.is_over(), "b waits for the commit");
        assert!(!BatchPace { queue, began: monotonic() + SHARED_BATCH_MAX }.is_over(), "it has only begun");
    }
}
