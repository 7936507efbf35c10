//! The one place where a breaker moves.

use super::counts::Counts;
use super::state::{Breaker, ByHand, Probe, State};
use super::window::Window;
use crate::policy::BreakerSettings;
use crate::time::Timestamp;

/// What can happen to a breaker.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An attempt that began here ended. `voter`: the tenant's number; `generation`: when it began.
    Ended {
        attempt: Probe,
        voter: i64,
        counts: Counts,
        generation: u64,
    },
    /// This attempt begins, and is the probe.
    ProbeGranted(Probe),
    /// The probe ended without a word on what it tried: its lease ran out, it was given back or cancelled.
    ProbeLost(Probe),
    /// Time has passed.
    Tick,
    OpenedByHand {
        by: ByHand,
        until: Option<Timestamp>,
    },
    /// Somebody closed it, or a wider breaker has taken over: what was counted is forgotten.
    Reset,
}

/// What surrounds a move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn<'a> {
    pub settings: &'a BreakerSettings,
    /// Everybody's breaker, which no tenant opens alone.
    pub shared: bool,
    pub now: Timestamp,
    /// In `0.0..1.0`.
    pub jitter: f64,
    /// The number of the generation that a change of state begins.
    pub next: u64,
}

pub fn apply(breaker: &Breaker, event: &Event, turn: Turn<'_>) -> Breaker {
    match event {
        Event::Ended { attempt, voter, counts, generation } => {
            ended(breaker, *attempt, *voter, *counts, *generation, turn)
        }
        Event::ProbeGranted(granted) => probe_granted(breaker, *granted),
        Event::ProbeLost(lost) => probe_lost(breaker, *lost),
        Event::Tick => tick(breaker, turn),
        Event::OpenedByHand { by, until } => {
            stands(State::Open { until: *until, tries: 0, by_hand: Some(by.clone()) }, turn)
        }
        Event::Reset => closed(turn),
    }
}

fn stands(state: State, turn: Turn<'_>) -> Breaker {
    Breaker { state, generation: turn.next, since: turn.now }
}

fn closed(turn: Turn<'_>) -> Breaker {
    stands(State::Closed { window: Window::default() }, turn)
}

/// Twice as long with each opening in a row, a tenth more or less, so that many breakers do not try in one instant.
fn opened(tries: u32, turn: Turn<'_>) -> Breaker {
    let settings = turn.settings;
    let doubled = settings.open_ms.saturating_mul(1 << (tries.saturating_sub(1)).min(20)).min(settings.open_max_ms);
    let spread = doubled / 10;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "milliseconds of hours, times at most two"
    )]
    let more = (spread as f64 * 2.0 * turn.jitter.clamp(0.0, 1.0)) as u64;
    let until = turn.now.plus_ms(doubled - spread + more);
    stands(State::Open { until: Some(until), tries, by_hand: None }, turn)
}

fn ended(breaker: &Breaker, attempt: Probe, voter: i64, counts: Counts, generation: u64, turn: Turn<'_>) -> Breaker {
    match (&breaker.state, counts) {
        // It began before the breaker came to stand as it does: what it says is old.
        (State::Closed { .. }, _) if generation < breaker.generation => breaker.clone(),
        (State::Closed { .. }, Counts::Nothing) => breaker.clone(),
        (State::Closed { window }, Counts::Failure | Counts::Success) => {
            let mut window = window.clone();
            window.add(voter, counts == Counts::Failure, turn.settings, turn.now);
            if window.trips(turn.shared, turn.settings) {
                return opened(1, turn);
            }
            Breaker { state: State::Closed { window }, ..breaker.clone() }
        }
        (State::HalfOpen { probe: Some(probe), tries }, _) if *probe == attempt => match counts {
            Counts::Success => closed(turn),
            Counts::Failure => opened(tries.saturating_add(1), turn),
            Counts::Nothing => probe_lost(breaker, attempt),
        },
        (State::Open { .. } | State::HalfOpen { .. }, _) => breaker.clone(),
    }
}

fn probe_granted(breaker: &Breaker, granted: Probe) -> Breaker {
    match &breaker.state {
        State::HalfOpen { probe: None, tries } => {
            Breaker { state: State::HalfOpen { probe: Some(granted), tries: *tries }, ..breaker.clone() }
        }
        State::HalfOpen { probe: Some(_), .. } | State::Closed { .. } | State::Open { .. } => breaker.clone(),
    }
}

fn probe_lost(breaker: &Breaker, lost: Probe) -> Breaker {
    match &breaker.state {
        State::HalfOpen { probe: Some(probe), tries } if *probe == lost => {
            Breaker { state: State::HalfOpen { probe: None, tries: *tries }, ..breaker.clone() }
        }
        State::HalfOpen { .. } | State::Closed { .. } | State::Open { .. } => breaker.clone(),
    }
}

fn tick(breaker: &Breaker, turn: Turn<'_>) -> Breaker {
    match &breaker.state {
        State::Closed { window } => {
            let mut window = window.clone();
            window.roll(turn.settings, turn.now);
            Breaker { state: State::Closed { window }, ..breaker.clone() }
        }
        State::Open { until: Some(until), tries, by_hand } if *until <= turn.now => match by_hand {
            // Nothing was broken: the freeze is over.
            Some(_) => closed(turn),
            None => stands(State::HalfOpen { probe: None, tries: *tries }, turn),
        },
        State::Open { .. } | State::HalfOpen { .. } => breaker.clone(),
    }
}
