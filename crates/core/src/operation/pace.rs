//! How fast an operation goes: so many a second on average, and never more than a second's worth at once.

use crate::time::Timestamp;

const SECOND_MS: u64 = 1_000;

/// Since when the pace is counted, and how many went since.
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

/// How many may go now, and the pace to go on counting from. What was not used while nobody worked is not made up for.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::default().plus_ms(ms)
    }

    #[test]
    fn a_rate_is_kept_on_average_however_often_somebody_looks() {
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
    fn an_hour_away_is_not_made_up_for() {
        let (now_may, pace) = allowance(Some(10.0), Pace::starting(at(0)), at(3_600_000));
        assert_eq!((now_may, pace), (10, Pace { from: at(3_600_000), moved: 0 }));
        assert_eq!(allowance(Some(0.5), Pace::starting(at(0)), at(3_600_000)).0, 1);
    }

    #[test]
    fn without_a_rate_nothing_is_held_back() {
        assert_eq!(allowance(None, Pace::starting(at(0)), at(0)).0, u64::MAX);
    }
}
