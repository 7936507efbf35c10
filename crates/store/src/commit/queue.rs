//! Commands on their way to a writer, dealt in turn between those who sent them: whoever sends a hundred thousand delays
//! another's one command by no more than a batch.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redrive_core::ids::Tenant;

use redrive_engine::error::{Error, Result};
use redrive_engine::fair_semaphore::{FairPermit, FairSemaphore};
use redrive_engine::ports::backend::{Owner, Pace};

/// Single commands that may wait; one more is answered Busy and nothing is lost.
const WAITING_MAX: usize = 8_192;
/// Of one owner.
const WAITING_MAX_PER_OWNER: usize = WAITING_MAX / 2;
/// Groups of commands of one owner that may wait at a time; the others wait to be let in.
const GROUPS_MAX_PER_OWNER: usize = 4;
/// Of all owners.
const GROUPS_MAX: usize = 64;
/// How long after two tenants have sent commands their batches stay short.
const SHARED_FOR: Duration = Duration::from_secs(1);
/// What a batch may take of the writer's time while tenants share it. Each ends with an fsync: with a sixth of this, claims
/// of a hundred tenants took more than twice as long; with more, whoever comes meanwhile waits for it.
const SHARED_BATCH_MAX: Duration = Duration::from_millis(12);

pub(crate) struct CommandQueue<C> {
    state: Mutex<State<C>>,
    arrived: Condvar,
    groups: FairSemaphore<Owner>,
}

struct State<C> {
    lanes: HashMap<Owner, Lane<C>>,
    /// Those who have commands waiting, in the order of their turns.
    turns: VecDeque<Owner>,
    /// Single commands that wait.
    single: usize,
    sharing: Sharing,
    closed: bool,
}

struct Lane<C> {
    waiting: VecDeque<(C, Kind)>,
    single: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
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
    /// What the system does for itself makes nobody share.
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
        let state = State {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            single: 0,
            sharing: Sharing::default(),
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            groups: FairSemaphore::new(GROUPS_MAX, GROUPS_MAX_PER_OWNER),
        }
    }
}

impl<C> CommandQueue<C> {
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one command, or says at once that too many wait.
    pub(crate) fn push(&self, owner: &Owner, command: C) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closing);
        }
        let of_owner = state.lanes.get(owner).map_or(0, |lane| lane.single);
        if state.single >= WAITING_MAX || of_owner >= WAITING_MAX_PER_OWNER {
            return Err(Error::Busy);
        }
        state.push(owner, [(command, Kind::Single)]);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits until a group of the owner's may be sent; held until it is answered.
    pub(crate) async fn room_for_group(&self, owner: &Owner) -> Result<FairPermit> {
        self.groups.acquire(owner).await.ok_or(Error::Closing)
    }

    /// Takes many commands of one owner.
    pub(crate) fn push_group(&self, owner: &Owner, commands: impl IntoIterator<Item = C>) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closing);
        }
        state.push(owner, commands.into_iter().map(|command| (command, Kind::OfGroup)));
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// The next command, as soon as there is one; None once the queue is closed and empty.
    pub(crate) fn wait(&self) -> Option<C> {
        let mut state = self.lock();
        loop {
            match state.pop() {
                None if !state.closed => {
                    state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                next => return next,
            }
        }
    }

    /// The next command, if one waits.
    pub(crate) fn next(&self) -> Option<C> {
        self.lock().pop()
    }

    /// Nothing more is taken; what waits is still handed out.
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

    /// Whether several tenants use this writer now, or did a moment ago.
    pub(crate) fn is_shared(&self) -> bool {
        self.lock().sharing.is_shared(monotonic())
    }
}

impl<C> State<C> {
    fn push(&mut self, owner: &Owner, commands: impl IntoIterator<Item = (C, Kind)>) {
        self.sharing.note(owner, monotonic);
        let lane = match self.lanes.get_mut(owner) {
            Some(lane) => lane,
            None => {
                self.turns.push_back(owner.clone());
                self.lanes.entry(owner.clone()).or_insert(Lane { waiting: VecDeque::new(), single: 0 })
            }
        };
        for (command, kind) in commands {
            let single = usize::from(kind == Kind::Single);
            (lane.single, self.single) = (lane.single + single, self.single + single);
            lane.waiting.push_back((command, kind));
        }
        if lane.waiting.is_empty() {
            self.lanes.remove(owner);
            self.turns.retain(|other| other != owner);
        }
    }

    /// One command of whose turn it is.
    fn pop(&mut self) -> Option<C> {
        let owner = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&owner)?;
        let (command, kind) = lane.waiting.pop_front()?;
        let single = usize::from(kind == Kind::Single);
        (lane.single, self.single) = (lane.single - single, self.single - single);
        if lane.waiting.is_empty() {
            self.lanes.remove(&owner);
        } else {
            self.turns.push_back(owner);
        }
        Some(command)
    }
}

/// Runs that one command moves at most while tenants share the writer.
const SHARED_PIECE: usize = 512;

/// One batch of a writer: it may go on for as long as one tenant has the writer to itself, and is short otherwise.
pub(crate) struct BatchPace<C> {
    queue: Arc<CommandQueue<C>>,
    began: Instant,
}

impl<C> BatchPace<C> {
    pub(crate) fn begin(queue: Arc<CommandQueue<C>>) -> Self {
        Self { queue, began: monotonic() }
    }
}

impl<C> Pace for BatchPace<C> {
    fn is_over(&self) -> bool {
        self.began.elapsed() >= SHARED_BATCH_MAX && self.queue.is_shared()
    }

    fn piece(&self, most: usize) -> usize {
        if self.queue.is_shared() { most.min(SHARED_PIECE) } else { most }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a batch takes, and nothing that a run's life depends on")]
fn monotonic() -> Instant {
    Instant::now()
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
        for own in [owner("a"), Owner::System, owner("a")] {
            sharing.note(&own, || now);
        }
        assert!(!sharing.is_shared(now));
        sharing.note(&owner("b"), || now);
        assert!(sharing.is_shared(now) && !sharing.is_shared(now + SHARED_FOR));
    }

    #[test]
    fn a_batch_that_is_shared_is_short() {
        let queue = Arc::new(CommandQueue::<&str>::default());
        let long_ago = monotonic() - SHARED_BATCH_MAX;
        let pace = BatchPace { queue: queue.clone(), began: long_ago };
        queue.push(&owner("a"), "a1").unwrap();
        assert!(!pace.is_over(), "nobody else is there");
        assert_eq!(pace.piece(1_000), 1_000);
        queue.push(&owner("b"), "b1").unwrap();
        assert!(pace.is_over());
        assert_eq!((pace.piece(1_000), pace.piece(7)), (SHARED_PIECE, 7));
        assert!(!BatchPace { queue, began: monotonic() + SHARED_BATCH_MAX }.is_over(), "it has only begun");
    }
}
