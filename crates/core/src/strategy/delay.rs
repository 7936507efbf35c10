//! From a strategy's delay to a due time: always in the future, at most 31 days.

use crate::classify::Facts;
use crate::policy::Schedule;
use crate::strategy::table::Delay;
use crate::time::{DAY_MS, MINUTE_MS, SECOND_MS, Timestamp};

pub(super) const RETRY_AFTER_MAX_MS: u64 = DAY_MS;
pub(super) const RESET_MAX_MS: u64 = 31 * DAY_MS;
const FLOOR_MS: u64 = SECOND_MS;
const BACKOFF_FIRST_MS: u64 = 30 * SECOND_MS;
const BACKOFF_MAX_MS: u64 = 5 * MINUTE_MS;
const SPREAD: f64 = 0.1;

/// When the retry is due; `None` when there is nothing to wait for. `retries` were made before on this budget;
/// `jitter` is in `0.0..1.0`.
pub(super) fn due_at(
    delay: Delay,
    schedule: &Schedule,
    facts: &Facts,
    retries: u32,
    now: Timestamp,
    jitter: f64,
) -> Option<Timestamp> {
    let wait_ms = match delay {
        Delay::Never => return None,
        Delay::AtReset => spread(reset_in_ms(facts, now)?.min(RESET_MAX_MS), jitter).min(RESET_MAX_MS),
        Delay::Backoff => match (facts.wait_ms, schedule) {
            (Some(said), _) => said.min(RETRY_AFTER_MAX_MS),
            (None, Schedule::ByReason) => scale(backoff_ms(retries), jitter),
            (None, Schedule::Fixed(waits)) => fixed(waits, retries, jitter),
        },
        Delay::FixedMs(ms) => ms,
    };
    Some(now.plus_ms(wait_ms.max(FLOOR_MS)))
}

/// How far off the reset is that the error names.
pub(super) fn reset_in_ms(facts: &Facts, now: Timestamp) -> Option<u64> {
    let at = facts.reset_at_ms.map(|at| Timestamp::from_millis(at).since(now));
    at.filter(|ms| *ms > 0).or(facts.wait_ms)
}

fn backoff_ms(retries: u32) -> u64 {
    BACKOFF_FIRST_MS.saturating_mul(1 << retries.min(10)).min(BACKOFF_MAX_MS)
}

fn fixed(waits: &[u64], retries: u32, jitter: f64) -> u64 {
    let nth = usize::try_from(retries).unwrap_or(usize::MAX).min(waits.len().saturating_sub(1));
    spread(waits.get(nth).copied().unwrap_or(FLOOR_MS), jitter)
}

/// ± 10 %.
fn spread(ms: u64, jitter: f64) -> u64 {
    scale(ms, 1.0 - SPREAD + 2.0 * SPREAD * jitter)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bounded by 31 days"
)]
fn scale(ms: u64, factor: f64) -> u64 {
    (ms as f64 * factor.clamp(0.0, 2.0)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Preset;

    const NOW: i64 = 1_000_000_000_000;

    fn wait(delay: Delay, schedule: &Schedule, facts: Facts, retries: u32, jitter: f64) -> Option<u64> {
        let now = Timestamp::from_millis(NOW);
        due_at(delay, schedule, &facts, retries, now, jitter).map(|due| due.since(now))
    }

    #[test]
    fn backoff_doubles_up_to_five_minutes() {
        let at = |retries, jitter| wait(Delay::Backoff, &Schedule::ByReason, Facts::default(), retries, jitter);
        assert_eq!(
            [0, 1, 2, 3, 4, 60].map(|n| at(n, 1.0)),
            [30_000, 60_000, 120_000, 240_000, 300_000, 300_000].map(Some)
        );
        assert_eq!(at(0, 0.0), Some(1_000));
    }

    #[test]
    fn retry_after_wins_over_the_schedule() {
        let facts = Facts { wait_ms: Some(7_000), ..Facts::default() };
        assert_eq!(wait(Delay::Backoff, &Preset::Customer.schedule(), facts, 3, 0.5), Some(7_000));
    }

    #[test]
    fn fixed_schedules_jitter_ten_percent_and_repeat_the_last() {
        let schedule = Preset::Internal.schedule();
        let at = |retries, jitter| wait(Delay::Backoff, &schedule, Facts::default(), retries, jitter);
        assert_eq!([at(0, 0.0), at(0, 0.5), at(1, 1.0)], [Some(13_500), Some(15_000), Some(49_500)]);
        assert_eq!(at(99, 0.5), Some(300_000));
    }

    #[test]
    fn quota_retries_wait_for_a_named_future_reset() {
        let reset = |at| Facts { reset_at_ms: at, ..Facts::default() };
        let at = |facts| wait(Delay::AtReset, &Schedule::ByReason, facts, 0, 0.5);
        assert_eq!(at(reset(Some(NOW + 3_600_000))), Some(3_600_000));
        assert_eq!(at(reset(Some(NOW + 400 * 86_400_000))), Some(RESET_MAX_MS));
        let latest = wait(Delay::AtReset, &Schedule::ByReason, reset(Some(i64::MAX)), 0, 1.0);
        assert_eq!(latest, Some(RESET_MAX_MS), "jitter adds nothing to the last day");
        assert_eq!(at(reset(Some(NOW - 1))), None);
        assert_eq!(at(reset(None)), None);
    }

    proptest::proptest! {
        #[test]
        fn the_next_attempt_is_always_in_the_future(
            retries in 0u32..2_000_000, jitter in 0.0f64..1.0, wait_ms in proptest::option::of(0u64..), reset in proptest::option::of(0i64..)
        ) {
            let facts = Facts { wait_ms, reset_at_ms: reset, ..Facts::default() };
            for delay in [Delay::Backoff, Delay::FixedMs(10_000), Delay::AtReset] {
                for schedule in [Schedule::ByReason, Preset::External.schedule()] {
                    let ms = wait(delay, &schedule, facts, retries, jitter);
                    proptest::prop_assert!(ms.is_none_or(|ms| (FLOOR_MS..=RESET_MAX_MS).contains(&ms)));
                }
            }
        }
    }
}
