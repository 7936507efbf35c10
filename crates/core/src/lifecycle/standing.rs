//! Fencing: what a worker's call under a lease still counts for.

use crate::run::{Ended, Run, State};

/// What a worker may do under its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Heartbeat,
    Step,
    Succeed,
    Fail,
    Release,
}

/// How a call under an epoch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The lease is live.
    Live,
    /// The same call ended this epoch before: the stored answer again.
    Again,
    /// The work was done after all, and nobody began anew.
    LateSuccess,
    /// Kept as evidence; the run does not move.
    LateFailure,
    /// Changes nothing: 409 `cancelled`.
    Cancelled,
    /// Changes nothing: 409 `lease_lost`.
    Lost,
}

/// A lease ends when a move ends it, not when its time is up: until somebody has looked, the worker still owns the
/// run, so a restart of ours refuses nobody.
pub fn standing(run: &Run, epoch: u64, verb: Verb) -> Standing {
    let last = epoch == run.epoch;
    if last && matches!(run.state, State::Running(_)) {
        return Standing::Live;
    }
    if last && ended_by(verb).is_some_and(|ended| run.ended == Some(ended)) {
        return Standing::Again;
    }
    // A released attempt gives its number back, so the run may stand below it.
    let nobody_began_anew = last && run.attempt <= run.epoch_attempt;
    match verb {
        Verb::Succeed if nobody_began_anew => Standing::LateSuccess,
        Verb::Fail if epoch <= run.epoch => Standing::LateFailure,
        Verb::Heartbeat | Verb::Step | Verb::Succeed | Verb::Fail | Verb::Release => {
            if last && run.ended == Some(Ended::Cancelled) { Standing::Cancelled } else { Standing::Lost }
        }
    }
}

fn ended_by(verb: Verb) -> Option<Ended> {
    match verb {
        Verb::Succeed => Some(Ended::Succeeded),
        Verb::Fail => Some(Ended::Failed),
        Verb::Release => Some(Ended::Released),
        Verb::Heartbeat | Verb::Step => None,
    }
}
