//! How a breaker stands, and whom it lets through.

use serde::{Deserialize, Serialize};

use super::window::Window;
use crate::text::Text;
use crate::time::Timestamp;
use crate::words::words;

words! {
    /// The three states of a breaker, by name.
    pub enum StateName {
        Closed = "closed",
        Open = "open",
        HalfOpen = "half_open",
    }
}

/// The one attempt that finds out whether it works again, known by its run's number and its lease's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    pub run: i64,
    pub epoch: u64,
}

/// Somebody opened it: a change freeze, a known outage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ByHand {
    pub actor: String,
    pub reason: Option<Text>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum State {
    Closed {
        window: Window,
    },
    Open {
        /// Until somebody closes it, where there is no time.
        until: Option<Timestamp>,
        /// Openings in a row without a success between them.
        tries: u32,
        by_hand: Option<ByHand>,
    },
    HalfOpen {
        probe: Option<Probe>,
        tries: u32,
    },
}

/// A breaker as it stands. A result counts only if its attempt began in this generation or a later one: each change of
/// state begins a new one, and numbers are never used again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Breaker {
    pub state: State,
    pub generation: u64,
    /// When it came to stand as it does.
    pub since: Timestamp,
}

/// Who wants to begin an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// Automation, or a worker that takes what is due.
    Retry,
    /// A person asked for this attempt.
    Replay,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Pass,
    /// It may begin, and is the one that finds out.
    Probe,
    Hold,
}

impl Breaker {
    /// One that has seen nothing yet.
    pub fn new(generation: u64, now: Timestamp) -> Self {
        Self { state: State::Closed { window: Window::default() }, generation, since: now }
    }

    pub fn name(&self) -> StateName {
        match self.state {
            State::Closed { .. } => StateName::Closed,
            State::Open { .. } => StateName::Open,
            State::HalfOpen { .. } => StateName::HalfOpen,
        }
    }

    pub fn is_closed(&self) -> bool {
        self.name() == StateName::Closed
    }

    /// Open, and its time is over.
    pub fn is_up(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Open { until, .. } => until.is_some_and(|until| until <= now),
            State::Closed { .. } | State::HalfOpen { .. } => false,
        }
    }

    pub fn is_by_hand(&self) -> bool {
        match &self.state {
            State::Open { by_hand, .. } => by_hand.is_some(),
            State::Closed { .. } | State::HalfOpen { .. } => false,
        }
    }

    /// Nothing worth keeping: as good as one that was never there.
    pub fn is_blank(&self) -> bool {
        match &self.state {
            State::Closed { window } => !window.has_failures(),
            State::Open { .. } | State::HalfOpen { .. } => false,
        }
    }

    /// The same without what lies before its window; none where it is not closed, or has counted failures lately.
    #[must_use]
    pub fn forgotten(&self, now: Timestamp) -> Option<Self> {
        match &self.state {
            State::Closed { window } if window.figures(now).1 == 0 => {
                Some(Self { state: State::Closed { window: Window::default() }, ..self.clone() })
            }
            State::Closed { .. } | State::Open { .. } | State::HalfOpen { .. } => None,
        }
    }

    pub fn admits(&self, asker: Asker) -> Admission {
        match (&self.state, asker) {
            (State::Closed { .. }, _) => Admission::Pass,
            // A freeze is a person's word, and holds what other people ask for.
            (State::Open { by_hand: Some(_), .. }, _) => Admission::Hold,
            (State::HalfOpen { probe: None, .. }, _) => Admission::Probe,
            (State::Open { by_hand: None, .. } | State::HalfOpen { probe: Some(_), .. }, Asker::Replay) => {
                Admission::Pass
            }
            (State::Open { by_hand: None, .. } | State::HalfOpen { probe: Some(_), .. }, Asker::Retry) => {
                Admission::Hold
            }
        }
    }
}
