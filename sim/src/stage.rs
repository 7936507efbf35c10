//! The stage: who acts next, and what time it is. One thread, one call into the store at a time; at every point where
//! an actor would wait, the seed decides who goes on. While an actor is at it the store waits behind a gate, so that whether
//! an answer is there yet is never a matter of luck. So the same seed gives the same play.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crate::chance::Chance;
use crate::gate::{self, GatedClock};
use redrive_core::time::Timestamp;

/// A store that takes longer than this for one call will never answer it.
const STUCK_AFTER: Duration = Duration::from_secs(120);

type Play = Pin<Box<dyn Future<Output = ()>>>;

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

/// Set by whoever answers, maybe from another thread.
struct Bell {
    rung: AtomicBool,
    thread: Thread,
}

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Self { rung: AtomicBool::new(false), thread: std::thread::current() })
    }

    fn wait(&self) {
        while !self.rung.swap(false, Ordering::SeqCst) {
            std::thread::park_timeout(STUCK_AFTER);
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Runs a future to its end while nobody else acts.
pub fn alone<T>(future: impl Future<Output = T>) -> T {
    let _open = gate::open();
    let mut future = Box::pin(future);
    let bell = Bell::new();
    let waker = Waker::from(bell.clone());
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => bell.wait(),
        }
    }
}

struct Actor {
    play: Play,
    /// None: it can go on at once.
    sleeps_until: Option<Timestamp>,
}

pub struct Stage {
    pub time: Time,
    chance: Arc<Chance>,
    actors: Vec<Actor>,
    bell: Arc<Bell>,
    pub steps: u64,
}

impl Stage {
    pub fn new(time: Time, chance: Arc<Chance>) -> Self {
        Self { time, chance, actors: Vec::new(), bell: Bell::new(), steps: 0 }
    }

    pub fn enter(&mut self, play: Play) {
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
        let closed = gate::close();
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
