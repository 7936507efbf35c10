//! The deterministic scheduler: one thread, one store call at a time; the seed decides which actor runs next and what time it
//! is. While an actor runs, the store's own threads wait at a gate, so that the arrival of an answer is never a race. The
//! same seed gives the same run.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, ThreadId};
use std::time::Duration;

use redrive_core::time::Timestamp;
use redrive_engine::{Clock, ManualClock};

use crate::backend::Chance;

/// A store that takes longer than this for one call will never answer it.
const STUCK_AFTER: Duration = Duration::from_secs(120);

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What a future tells the stage when it waits for simulated time.
#[derive(Default)]
pub struct Parking(Mutex<Option<Timestamp>>);

impl Parking {
    fn park(&self, until: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    fn take(&self) -> Option<Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Time as everybody on the stage sees it.
#[derive(Clone)]
pub struct Time {
    pub clock: Arc<GatedClock>,
    pub parking: Arc<Parking>,
}

impl Time {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Others act meanwhile, also when it is for no time at all.
    pub fn sleep(&self, ms: u64) -> Sleep {
        Sleep { time: self.clone(), until: self.now().plus_ms(ms), parked: false }
    }
}

pub struct Sleep {
    time: Time,
    until: Timestamp,
    parked: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.parked && self.time.now() >= self.until {
            return Poll::Ready(());
        }
        self.parked = true;
        self.time.parking.park(self.until);
        Poll::Pending
    }
}

/// Set by the answering side, maybe from another thread.
struct WakeFlag {
    rung: AtomicBool,
    thread: Thread,
}

impl WakeFlag {
    fn new() -> Arc<Self> {
        Arc::new(Self { rung: AtomicBool::new(false), thread: std::thread::current() })
    }

    fn wait(&self) {
        while !self.rung.swap(false, Ordering::SeqCst) {
            std::thread::park_timeout(STUCK_AFTER);
        }
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Runs a future to its end while nobody else acts.
pub fn alone<T>(future: impl Future<Output = T>) -> T {
    let _open = open_gate();
    let mut future = Box::pin(future);
    let bell = WakeFlag::new();
    let waker = Waker::from(bell.clone());
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => bell.wait(),
        }
    }
}

struct Actor {
    play: Task,
    /// None: it can go on at once.
    sleeps_until: Option<Timestamp>,
}

pub struct Scheduler {
    pub time: Time,
    chance: Arc<Chance>,
    actors: Vec<Actor>,
    bell: Arc<WakeFlag>,
    pub steps: u64,
}

impl Scheduler {
    pub fn new(time: Time, chance: Arc<Chance>) -> Self {
        Self { time, chance, actors: Vec::new(), bell: WakeFlag::new(), steps: 0 }
    }

    pub fn enter(&mut self, play: Task) {
        self.actors.push(Actor { play, sleeps_until: None });
    }

    /// Everybody has come to an end.
    pub fn is_over(&self) -> bool {
        self.actors.is_empty()
    }

    /// One actor goes on to the next point where it waits.
    pub fn step(&mut self) {
        let Some(who) = self.next() else { return };
        self.steps += 1;
        self.time.clock.advance_ms(self.chance.below(4));
        let waker = Waker::from(self.bell.clone());
        let actor = &mut self.actors[who];
        let closed = close_gate();
        let went = actor.play.as_mut().poll(&mut Context::from_waker(&waker));
        drop(closed);
        match went {
            Poll::Ready(()) => drop(self.actors.swap_remove(who)),
            Poll::Pending => match self.time.parking.take() {
                Some(until) => actor.sleeps_until = Some(until),
                None => {
                    actor.sleeps_until = None;
                    // It waits for the store, which answers before anybody else goes on.
                    self.bell.wait();
                }
            },
        }
        self.bell.rung.store(false, Ordering::SeqCst);
    }

    /// Among those who can go on, the seed chooses; when nobody can, time passes until somebody does.
    fn next(&self) -> Option<usize> {
        let ready = |now: Timestamp| {
            let ready = |actor: &Actor| actor.sleeps_until.is_none_or(|until| until <= now);
            self.actors.iter().enumerate().filter(|(_, actor)| ready(actor)).map(|(n, _)| n).collect::<Vec<_>>()
        };
        let mut able = ready(self.time.now());
        if able.is_empty() {
            let first = self.actors.iter().filter_map(|actor| actor.sleeps_until).min()?;
            self.time.clock.set(first);
            able = ready(first);
        }
        Some(able[self.chance.upto(able.len())])
    }
}

#[derive(Default)]
pub struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn closed(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(self: &Arc<Self>, closed: bool) -> bool {
        let before = std::mem::replace(&mut *self.closed(), closed);
        self.opened.notify_all();
        if closed {
            // What is to be read from here on comes after the one who waits here.
            let gate = self.clone();
            drop(tokio::task::spawn_blocking(move || gate.pass()));
        }
        before
    }

    fn pass(&self) {
        let mut closed = self.closed();
        while *closed {
            closed = self.opened.wait(closed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

thread_local! {
    static GATE: RefCell<Option<Arc<Gate>>> = const { RefCell::new(None) };
}

/// Puts the gate back as it was.
pub struct GateGuard {
    gate: Option<Arc<Gate>>,
    before: bool,
}

impl Drop for GateGuard {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.set(self.before);
        }
    }
}

fn set_gate(closed: bool) -> GateGuard {
    let gate = GATE.with_borrow(Clone::clone);
    let before = gate.as_ref().is_some_and(|gate| gate.set(closed));
    GateGuard { gate, before }
}

/// Nobody answers from here on.
pub fn close_gate() -> GateGuard {
    set_gate(true)
}

/// The store answers as it goes: for those who act while nobody else does.
pub fn open_gate() -> GateGuard {
    set_gate(false)
}

/// A clock that only moves when advanced; other threads wait at the gate before they read it. The stage uses elapsed time,
/// the store a wall clock that can be set.
pub struct GatedClock {
    passed: ManualClock,
    set_by_ms: AtomicI64,
    gate: Arc<Gate>,
    stage: ThreadId,
}

impl GatedClock {
    /// The gate of this thread's plays from here on.
    pub fn at(now: Timestamp) -> Self {
        let gate = Arc::new(Gate::default());
        GATE.replace(Some(gate.clone()));
        let (passed, stage) = (ManualClock::at(now), std::thread::current().id());
        Self { passed, set_by_ms: AtomicI64::new(0), gate, stage }
    }

    pub fn now(&self) -> Timestamp {
        self.passed.now()
    }

    pub fn advance_ms(&self, ms: u64) {
        self.passed.advance_ms(ms);
    }

    pub fn set(&self, now: Timestamp) {
        self.passed.set(now);
    }

    /// Somebody sets the wall clock.
    pub fn jump_ms(&self, ms: i64) {
        self.set_by_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// How far the wall clock is off.
    pub fn set_by_ms(&self) -> i64 {
        self.set_by_ms.load(Ordering::SeqCst)
    }
}

impl Clock for GatedClock {
    fn now(&self) -> Timestamp {
        if std::thread::current().id() != self.stage {
            self.gate.pass();
        }
        Timestamp::from_millis(self.passed.now().as_millis().saturating_add(self.set_by_ms()))
    }

    fn elapsed(&self) -> Duration {
        self.passed.elapsed()
    }
}

pub struct WaitForAll<F>(Pin<Box<F>>);

/// The call, woken once for each time that it waits.
pub fn wait_for_all<F: Future>(call: F) -> WaitForAll<F> {
    WaitForAll(Box::pin(call))
}

impl<F: Future> Future for WaitForAll<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let bells = Arc::new(WakeCounter { outer: context.waker().clone(), counts: Mutex::default() });
        let went = self.0.as_mut().poll(&mut Context::from_waker(&Waker::from(bells.clone())));
        if went.is_pending() {
            // Whatever it waits for has kept a waker to ring.
            bells.expect(Arc::strong_count(&bells) - 1);
        }
        went
    }
}

/// Rings outside once all have rung.
struct WakeCounter {
    outer: Waker,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    expected: Option<usize>,
    rung: usize,
}

impl WakeCounter {
    fn expect(&self, bells: usize) {
        self.count(|counts| counts.expected = Some(bells));
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        if counts.expected.is_some_and(|expected| counts.rung >= expected) {
            self.outer.wake_by_ref();
        }
    }
}

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.count(|counts| counts.rung += 1);
    }
}
