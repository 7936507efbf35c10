//! Server downtime. No heartbeat could be taken and no run handed out during it, so it counts against no worker and no run.

use crate::time::Timestamp;

/// No server seen for longer than this is an absence.
pub const ABSENT_AFTER_MS: u64 = 3_000;
/// After an absence, workers get this long to reconnect before their silence counts.
pub const RETURN_GRACE_MS: u64 = 3_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    pub since: Timestamp,
    pub until: Timestamp,
}

impl Absence {
    /// The absence that ends now, if the last sign of any server is old enough.
    pub fn up_to_now(last_seen: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        let since = last_seen?;
        (now.since(since) > ABSENT_AFTER_MS).then_some(Self { since, until: now })
    }

    /// Whether an expiry at `then` could not have been prevented by a renewal.
    pub fn excuses(&self, then: Timestamp) -> bool {
        self.since <= then && then <= self.until.plus_ms(RETURN_GRACE_MS)
    }
}

/// When a wait of `wait_ms` that ends now began, absences excluded. `absences` is newest first.
pub fn attended_since(now: Timestamp, wait_ms: u64, absences: &[Absence]) -> Timestamp {
    let (mut at, mut left) = (now, wait_ms);
    for absence in absences {
        let attended = at.since(absence.until);
        if left <= attended {
            break;
        }
        left -= attended;
        at = at.min(absence.since);
    }
    at.minus_ms(left)
}

/// A time limit that excludes absences since `from`. `counted_ms` is how far `at` has been extended already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub from: Timestamp,
    pub at: Timestamp,
    pub counted_ms: u64,
}

impl Limit {
    /// The limit, extended by absences since it began if it has expired. `absences` is newest first.
    #[must_use]
    pub fn attended(self, now: Timestamp, absences: &[Absence]) -> Self {
        if self.at > now {
            return self;
        }
        // Absences that are no longer on record stay counted.
        let counted_ms = absent_ms(self.from, now, absences).max(self.counted_ms);
        Self { at: self.at.plus_ms(counted_ms - self.counted_ms), counted_ms, ..self }
    }
}

/// Downtime between `from` and `to`; overlapping absences count once.
fn absent_ms(from: Timestamp, to: Timestamp, absences: &[Absence]) -> u64 {
    let (mut end, mut sum) = (to, 0);
    for absence in absences {
        let since = absence.since.max(from);
        sum += absence.until.min(end).since(since);
        end = end.min(since);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn absence(since: i64, until: i64) -> Absence {
        Absence { since: at(since), until: at(until) }
    }

    #[test]
    fn only_gaps_beyond_the_limit_are_absences() {
        assert_eq!(Absence::up_to_now(None, at(9_000)), None);
        assert_eq!(Absence::up_to_now(Some(at(1_000)), at(4_000)), None);
        assert_eq!(Absence::up_to_now(Some(at(1_000)), at(4_001)), Some(absence(1_000, 4_001)));
        assert_eq!(Absence::up_to_now(Some(at(9_000)), at(1_000)), None);
    }

    #[test]
    fn absences_excuse_expiries_during_and_shortly_after() {
        let gone = absence(10_000, 20_000);
        let excused = [9_999, 10_000, 20_000, 23_000, 23_001].map(|then| gone.excuses(at(then)));
        assert_eq!(excused, [false, true, true, true, false]);
    }

    #[test]
    fn limits_count_each_absence_once() {
        let limit = Limit { from: at(100), at: at(150), counted_ms: 0 };
        assert_eq!(limit.attended(at(149), &[absence(110, 120)]), limit, "its time has not come");
        assert_eq!(limit.attended(at(150), &[]).at, at(150));
        // Ten within it; what was before it began does not matter.
        let moved = limit.attended(at(150), &[absence(110, 120), absence(0, 90)]);
        assert_eq!((moved.at, moved.counted_ms), (at(160), 10));
        // One that it began in, and one that overlaps another.
        let all = [absence(155, 1_000), absence(150, 160), absence(110, 120), absence(0, 105)];
        let moved = moved.attended(at(1_000), &all);
        assert_eq!((moved.at, moved.counted_ms), (at(1_015), 865));
        assert_eq!(moved.attended(at(1_015), &all), moved, "it has passed");
        // Absences that are forgotten do not pull it back.
        assert_eq!(moved.attended(at(2_000), &[]), moved);
    }

    #[test]
    fn waits_exclude_absences() {
        assert_eq!(attended_since(at(100), 30, &[]), at(70));
        // 20 before now, then 10 before the newer absence.
        assert_eq!(attended_since(at(100), 30, &[absence(50, 80), absence(10, 30)]), at(40));
        // 20 + 20 + 5.
        assert_eq!(attended_since(at(100), 45, &[absence(50, 80), absence(10, 30)]), at(5));
        // The wait fits before the absence began to matter.
        assert_eq!(attended_since(at(100), 20, &[absence(50, 80)]), at(80));
        // Absences that overlap count once.
        assert_eq!(attended_since(at(100), 30, &[absence(50, 80), absence(40, 80)]), at(30));
    }
}
