//! The gate between the stage and the store's own threads. It is closed while an actor acts: whatever the actor asks of the
//! store is answered after it has come to the point where it waits, and never before.
//!
//! The committer asks for the time in each transaction, and is held there. Readers share one thread, and a task that waits
//! at the gate goes before them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use redrive_core::time::Timestamp;
use redrive_store::{Clock, ManualClock};

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
pub struct Set {
    gate: Option<Arc<Gate>>,
    before: bool,
}

impl Drop for Set {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.set(self.before);
        }
    }
}

fn set(closed: bool) -> Set {
    let gate = GATE.with_borrow(Clone::clone);
    let before = gate.as_ref().is_some_and(|gate| gate.set(closed));
    Set { gate, before }
}

/// Nobody answers from here on.
pub fn close() -> Set {
    set(true)
}

/// The store answers as it goes: for those who act while nobody else does.
pub fn open() -> Set {
    set(false)
}

/// Stands still until it is moved; whoever asks from another thread than the stage's waits at the gate first. The stage goes
/// by the time that has passed, the store by a wall clock that somebody may set.
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
