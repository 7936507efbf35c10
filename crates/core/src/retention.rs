//! How long ended runs are kept: closed runs, dead letters, and their payloads, each counted from the end of the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::Retention;
use crate::run::StateName;
use crate::time::{DAY_MS, Timestamp};

/// Dead letters that will be removed within this time are announced.
pub const ANNOUNCED_MS: u64 = 7 * DAY_MS;

/// A run that has ended, as retention sees it. Stored by its index in [`EndedAs::ALL`], which is append-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EndedAs {
    Closed,
    ClosedWithoutPayload,
    Dead,
    DeadWithoutPayload,
}

impl EndedAs {
    pub const ALL: &'static [Self] = &[Self::Closed, Self::ClosedWithoutPayload, Self::Dead, Self::DeadWithoutPayload];

    /// None while the run is open. `payload_expired`: retention has deleted its payload.
    pub fn of(state: StateName, payload_expired: bool) -> Option<Self> {
        match (state, payload_expired) {
            (StateName::Scheduled | StateName::Running | StateName::Review, _) => None,
            (StateName::Dead, false) => Some(Self::Dead),
            (StateName::Dead, true) => Some(Self::DeadWithoutPayload),
            (
                StateName::Succeeded
                | StateName::Recovered
                | StateName::Resolved
                | StateName::Discarded
                | StateName::Merged,
                expired,
            ) => Some(if expired { Self::ClosedWithoutPayload } else { Self::Closed }),
        }
    }

    pub fn is_dead(self) -> bool {
        match self {
            Self::Dead | Self::DeadWithoutPayload => true,
            Self::Closed | Self::ClosedWithoutPayload => false,
        }
    }

    pub fn has_payload(self) -> bool {
        match self {
            Self::Closed | Self::Dead => true,
            Self::ClosedWithoutPayload | Self::DeadWithoutPayload => false,
        }
    }
}

/// A run's state and when it ended, before a transition.
#[derive(Debug, Clone, Copy)]
pub struct EndedBefore {
    pub state: StateName,
    pub attempt: u32,
    pub ended_at: Option<Timestamp>,
}

/// When a run ended, after a transition: now if it was closed or dead-lettered by it, as before if it stayed so. A dead
/// letter that failed another attempt was dead-lettered again.
pub fn ended_at(before: Option<EndedBefore>, state: StateName, attempt: u32, now: Timestamp) -> Option<Timestamp> {
    let ended = EndedAs::of(state, false)?;
    let same = before.filter(|before| {
        EndedAs::of(before.state, false) == Some(ended) && (!ended.is_dead() || before.attempt == attempt)
    });
    Some(same.and_then(|before| before.ended_at).unwrap_or(now))
}

/// When an ended run and its payload go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunRetention {
    /// When the run is removed; absent for a dead letter while there is no archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_at: Option<Timestamp>,
    /// When its payload is deleted, if that is before the run is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_until: Option<Timestamp>,
    /// The payload was deleted because its time was over.
    #[serde(default)]
    pub payload_expired: bool,
}

impl Retention {
    /// When a run that ended then goes. A dead letter is archived before it is removed, so it stays without an archive.
    pub fn of_run(&self, ended_as: EndedAs, ended_at: Timestamp, has_archive: bool) -> RunRetention {
        let remove_at = self.kept_ms(ended_as, has_archive).map(|ms| ended_at.plus_ms(ms));
        let payload_until = ended_at.plus_ms(days(self.payload_days));
        let goes_first = ended_as.has_payload() && remove_at.is_none_or(|remove_at| payload_until < remove_at);
        RunRetention {
            remove_at,
            payload_until: goes_first.then_some(payload_until),
            payload_expired: !ended_as.has_payload(),
        }
    }

    /// Runs that ended then or before are removed now.
    pub fn removed_before(&self, ended_as: EndedAs, now: Timestamp, has_archive: bool) -> Option<Timestamp> {
        self.kept_ms(ended_as, has_archive).map(|ms| now.minus_ms(ms))
    }

    /// The payloads of runs that ended then or before are deleted now.
    pub fn payloads_before(&self, ended_as: EndedAs, now: Timestamp) -> Option<Timestamp> {
        ended_as.has_payload().then(|| now.minus_ms(days(self.payload_days)))
    }

    /// Dead letters that ended then or before are past their time: removed, or kept because there is no archive.
    pub fn dead_overdue_before(&self, now: Timestamp) -> Timestamp {
        now.minus_ms(days(self.dead_days))
    }

    /// Dead letters that ended then or before are announced.
    pub fn announced_before(&self, now: Timestamp) -> Timestamp {
        now.plus_ms(ANNOUNCED_MS).minus_ms(days(self.dead_days))
    }

    fn kept_ms(&self, ended_as: EndedAs, has_archive: bool) -> Option<u64> {
        match ended_as {
            EndedAs::Closed | EndedAs::ClosedWithoutPayload => Some(days(self.closed_days)),
            EndedAs::Dead | EndedAs::DeadWithoutPayload => has_archive.then(|| days(self.dead_days)),
        }
    }
}

fn days(n: u32) -> u64 {
    u64::from(n) * DAY_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Retention = Retention { closed_days: 30, dead_days: 90, payload_days: 7 };

    fn day(n: u64) -> Timestamp {
        Timestamp::from_millis(0).plus_ms(n * DAY_MS)
    }

    #[test]
    fn only_dead_letters_wait_for_an_archive() {
        for ended_as in EndedAs::ALL {
            for has_archive in [false, true] {
                let expected = match (ended_as.is_dead(), has_archive) {
                    (false, _) => Some(day(40)),
                    (true, true) => Some(day(100)),
                    (true, false) => None,
                };
                let run = POLICY.of_run(*ended_as, day(10), has_archive);
                assert_eq!(run.remove_at, expected, "{ended_as:?} {has_archive}");
                assert_eq!(run.payload_until, ended_as.has_payload().then_some(day(17)), "{ended_as:?} {has_archive}");
            }
        }
    }

    #[test]
    fn payloads_that_would_outlive_their_run_go_with_it() {
        let equal = Retention { payload_days: 30, ..POLICY };
        assert_eq!(equal.of_run(EndedAs::Closed, day(10), false).payload_until, None);
        assert_eq!(equal.of_run(EndedAs::Dead, day(10), false).payload_until, Some(day(40)));
    }

    /// The search by cut-off finds a run exactly when its countdown has ended.
    #[test]
    fn cut_offs_agree_with_the_countdown_of_each_run() {
        for ended_as in EndedAs::ALL {
            for now in 0..200 {
                for has_archive in [false, true] {
                    let run = POLICY.of_run(*ended_as, day(10), has_archive);
                    let removed = POLICY.removed_before(*ended_as, day(now), has_archive);
                    assert_eq!(removed.is_some_and(|by| day(10) <= by), run.remove_at.is_some_and(|at| at <= day(now)));
                    let gone = POLICY.payloads_before(*ended_as, day(now)).is_some_and(|by| day(10) <= by);
                    assert_eq!(gone, run.payload_until.is_some_and(|at| at <= day(now)));
                }
            }
        }
    }

    #[test]
    fn the_time_counts_from_the_closing_or_the_dead_lettering() {
        let (dead, resolved, merged, open) =
            (StateName::Dead, StateName::Resolved, StateName::Merged, StateName::Scheduled);
        let before = |state, attempt, ended_at| Some(EndedBefore { state, attempt, ended_at });
        assert_eq!(ended_at(None, dead, 1, day(3)), Some(day(3)));
        assert_eq!(ended_at(None, open, 1, day(3)), None);
        assert_eq!(ended_at(before(dead, 1, Some(day(1))), dead, 1, day(3)), Some(day(1)), "assigned");
        assert_eq!(ended_at(before(dead, 1, Some(day(1))), dead, 2, day(3)), Some(day(3)), "failed again");
        assert_eq!(ended_at(before(dead, 1, Some(day(1))), resolved, 1, day(3)), Some(day(3)), "closed");
        assert_eq!(ended_at(before(resolved, 1, Some(day(1))), merged, 1, day(3)), Some(day(1)), "still closed");
        assert_eq!(ended_at(before(resolved, 1, Some(day(1))), open, 1, day(3)), None, "opened again");
        assert_eq!(ended_at(before(dead, 1, None), dead, 1, day(3)), Some(day(3)), "unknown counts from now");
    }
}
