//! Bulk operations: which commands an operation accepts in each state, how fast it may go, how its canary is judged, and
//! how its items are settled. What happens to a single run is decided by the single command.

use crate::lifecycle::Outcome;
use crate::run::StateName;
use crate::time::{SECOND_MS, Timestamp};
use crate::wire::{Canary, ItemOutcome, OperationState};
use crate::words::words;

pub use {CanaryOutcomes as Seen, CanaryVerdict as Judged};

/// Outcomes of the canary's first attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CanaryOutcomes {
    pub succeeded: u64,
    pub failed: u64,
    /// No outcome yet.
    pub open: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CanaryVerdict {
    Waiting,
    Passed,
    Failed { because: String },
}

/// Judges a canary as soon as open runs can't change the result, or when its time is up: open runs then count as failed.
pub fn judge(canary: &Canary, seen: CanaryOutcomes, time_is_up: bool) -> CanaryVerdict {
    let CanaryOutcomes { succeeded, failed, open } = seen;
    let of = succeeded + failed + open;
    let may_fail = canary.max_failure_share * of as f64;
    let at_worst = failed + open;
    if at_worst as f64 <= may_fail {
        return CanaryVerdict::Passed;
    }
    if failed as f64 <= may_fail && !time_is_up {
        return CanaryVerdict::Waiting;
    }
    let (lost, unsettled) = if time_is_up && open > 0 {
        (at_worst, format!(" ({open} of them had no outcome after {} ms)", canary.wait_ms))
    } else {
        (failed, String::new())
    };
    let percent = canary.max_failure_share * 100.0;
    CanaryVerdict::Failed {
        because: format!(
            "{lost} of the first {of} failed on their first attempt{unsettled}; at most {percent} % may. The rest was \
             left where it is."
        ),
    }
}

/// Start of the current pacing period, and how many runs moved since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    pub from: Timestamp,
    pub moved: u64,
}

impl Pace {
    pub fn starting(now: Timestamp) -> Self {
        Self { from: now, moved: 0 }
    }
}

/// How many runs may move now, and the updated pace. Unused allowance is capped at one second's worth.
pub fn allowance(rate_per_s: Option<f64>, pace: Pace, now: Timestamp) -> (u64, Pace) {
    let Some(rate) = rate_per_s else { return (u64::MAX, pace) };
    let earned = |from: Timestamp| whole(rate * now.since(from) as f64 / SECOND_MS as f64);
    let at_once = whole(rate).max(1);
    let left = earned(pace.from).saturating_sub(pace.moved);
    if left <= at_once {
        return (left, pace);
    }
    (at_once, Pace { from: now, moved: 0 })
}

fn whole(number: f64) -> u64 {
    if number >= 1e18 { u64::MAX } else { number.max(0.0) as u64 }
}

/// The item's outcome by the state of its run; none while it is still open.
pub fn settled(state: StateName) -> Option<ItemOutcome> {
    match state {
        StateName::Scheduled | StateName::Running | StateName::Review => None,
        StateName::Succeeded | StateName::Recovered => Some(ItemOutcome::Succeeded),
        // Closed by a person or dead again: the replay itself did not succeed.
        StateName::Dead | StateName::Resolved | StateName::Discarded | StateName::Merged => Some(ItemOutcome::Failed),
    }
}

/// The outcome of a canary's run: its first attempt counts, whatever a retry or a late report does. Without an attempt, its
/// state counts.
pub fn settled_at_first(first_attempt: Option<Outcome>, state: StateName) -> Option<ItemOutcome> {
    match first_attempt {
        Some(Outcome::Succeeded) => Some(ItemOutcome::Succeeded),
        Some(Outcome::Failed | Outcome::Cancelled) => Some(ItemOutcome::Failed),
        None => settled(state),
    }
}

words! {
    pub enum Steer {
        Start = "start",
        Pause = "pause",
        Resume = "resume",
        Cancel = "cancel",
    }
}

/// The next state, or none if the command is not allowed. Repeating a command changes nothing, so a caller that lost the
/// answer may retry.
pub fn steer(state: OperationState, by: Steer) -> Option<OperationState> {
    use OperationState::{Cancelled, Completed, Paused, Preview, Running, Stopped};
    match (state, by) {
        (Preview | Running, Steer::Start) | (Paused | Running, Steer::Resume) => Some(Running),
        (Running | Paused, Steer::Pause) => Some(Paused),
        (Preview | Running | Paused | Cancelled, Steer::Cancel) => Some(Cancelled),
        (Preview, Steer::Pause | Steer::Resume) | (Paused, Steer::Start) => None,
        (Cancelled, Steer::Start | Steer::Pause | Steer::Resume) => None,
        // Final: after the cause is fixed, a new operation covers the rest.
        (Stopped | Completed, Steer::Start | Steer::Pause | Steer::Resume | Steer::Cancel) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canary(share: f64) -> Canary {
        Canary { size: 10, max_failure_share: share, wait_ms: 5_000 }
    }

    fn seen(succeeded: u64, failed: u64, open: u64) -> CanaryOutcomes {
        CanaryOutcomes { succeeded, failed, open }
    }

    #[test]
    fn canaries_are_judged_once_open_runs_cannot_matter() {
        assert_eq!(judge(&canary(0.2), seen(8, 0, 2), false), CanaryVerdict::Passed);
        assert_eq!(judge(&canary(0.2), seen(7, 0, 3), false), CanaryVerdict::Waiting);
        assert_eq!(judge(&canary(0.2), seen(8, 2, 0), false), CanaryVerdict::Passed);
        assert!(matches!(judge(&canary(0.2), seen(0, 3, 7), false), CanaryVerdict::Failed { .. }));
        assert_eq!(judge(&canary(0.0), seen(9, 0, 1), false), CanaryVerdict::Waiting);
        assert_eq!(judge(&canary(0.0), seen(10, 0, 0), false), CanaryVerdict::Passed);
    }

    #[test]
    fn canary_runs_without_outcome_in_time_fail() {
        let CanaryVerdict::Failed { because } = judge(&canary(0.1), seen(7, 1, 2), true) else { panic!("it passed") };
        assert_eq!(
            because,
            "3 of the first 10 failed on their first attempt (2 of them had no outcome after 5000 ms); at most 10 % may. \
             The rest was left where it is."
        );
        assert_eq!(judge(&canary(0.3), seen(7, 1, 2), true), CanaryVerdict::Passed);
        let settled =
            "3 of the first 10 failed on their first attempt; at most 10 % may. The rest was left where it is.";
        for (seen, time_is_up) in [(seen(7, 3, 0), true), (seen(0, 3, 7), false)] {
            assert_eq!(judge(&canary(0.1), seen, time_is_up), CanaryVerdict::Failed { because: settled.into() });
        }
    }

    #[test]
    fn empty_canaries_pass() {
        assert_eq!(judge(&canary(0.0), seen(0, 0, 0), false), CanaryVerdict::Passed);
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::default().plus_ms(ms)
    }

    #[test]
    fn the_average_rate_holds_at_any_polling_interval() {
        for (rate, every_ms) in [(10.0, 7), (3.0, 250), (0.5, 100), (2_000.0, 250)] {
            let (mut pace, mut moved) = (Pace::starting(at(0)), 0);
            for look in 1..=(60_000 / every_ms) {
                let (now_may, next) = allowance(Some(rate), pace, at(look * every_ms));
                moved += now_may;
                pace = Pace { moved: next.moved + now_may, ..next };
            }
            let wanted = rate * 60.0;
            assert!(moved as f64 <= wanted && moved as f64 >= wanted - rate.max(1.0), "{rate}: {moved}");
        }
    }

    #[test]
    fn unused_allowance_is_capped_at_one_second() {
        let (now_may, pace) = allowance(Some(10.0), Pace::starting(at(0)), at(3_600_000));
        assert_eq!((now_may, pace), (10, Pace { from: at(3_600_000), moved: 0 }));
        assert_eq!(allowance(Some(0.5), Pace::starting(at(0)), at(3_600_000)).0, 1);
    }

    #[test]
    fn without_a_rate_everything_may_go() {
        assert_eq!(allowance(None, Pace::starting(at(0)), at(0)).0, u64::MAX);
    }

    #[test]
    fn items_settle_by_the_state_of_their_run() {
        let told = StateName::ALL.iter().map(|state| (*state, settled(*state)));
        for (state, outcome) in told {
            let expected = match state {
                StateName::Scheduled | StateName::Running | StateName::Review => None,
                StateName::Succeeded | StateName::Recovered => Some(ItemOutcome::Succeeded),
                StateName::Dead | StateName::Resolved | StateName::Discarded | StateName::Merged => {
                    Some(ItemOutcome::Failed)
                }
            };
            assert_eq!((outcome, settled_at_first(None, state)), (expected, expected), "{state}");
            assert_eq!(settled_at_first(Some(Outcome::Succeeded), state), Some(ItemOutcome::Succeeded));
            assert_eq!(settled_at_first(Some(Outcome::Cancelled), state), Some(ItemOutcome::Failed));
        }
    }

    #[test]
    fn operation_commands_depend_on_the_state() {
        let table: Vec<String> = OperationState::ALL
            .iter()
            .map(|state| {
                let to = Steer::ALL.iter().map(|by| steer(*state, *by).map_or("-", OperationState::as_str));
                format!("{state}: {}", to.collect::<Vec<_>>().join(" "))
            })
            .collect();
        assert_eq!(
            table,
            [
                "preview: running - - cancelled",
                "running: running paused running cancelled",
                "paused: - paused running cancelled",
                "stopped: - - - -",
                "cancelled: - - - cancelled",
                "completed: - - - -",
            ]
        );
    }
}
