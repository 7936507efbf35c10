//! How far back due runs have to be looked for. What was claimed leaves dead entries in the index until they are vacuumed,
//! which a long transaction of anybody's holds up; a look that starts behind them visits none.

use std::collections::HashMap;

use redrive_core::time::{SECOND_MS, Timestamp};

/// Tenants of one queue that one look reads.
pub(crate) const TENANTS_MAX: usize = 2_048;
/// A look at everything, whatever the marks say, this often: a run that fell due before its mark (it waited long, and was then
/// moved to this queue, say) waits no longer. It visits every dead entry there is, so it is seldom.
const WHOLE_EVERY_MS: u64 = 20 * SECOND_MS;
/// A commit that takes its time may bring a run that was due a while ago.
const SLACK_MS: u64 = 60 * SECOND_MS;

#[derive(Debug, Default)]
pub(crate) struct DueWatermarks {
    at: HashMap<i64, i64>,
    whole_at: HashMap<i64, Timestamp>,
}

/// Where a look at some queues begins.
pub(crate) struct From {
    pub(crate) at: Vec<i64>,
    /// It sees all there is.
    pub(crate) whole: bool,
}

impl DueWatermarks {
    /// Where a look at a queue begins.
    pub(crate) fn at(&self, queue: i64, now: Timestamp) -> i64 {
        let fresh = self.whole_at.get(&queue).is_some_and(|at| *at <= now && now.since(*at) < WHOLE_EVERY_MS);
        self.at.get(&queue).copied().filter(|_| fresh).unwrap_or(i64::MIN)
    }

    pub(crate) fn of(&self, queues: &[i64], now: Timestamp) -> From {
        let at: Vec<i64> = queues.iter().map(|queue| self.at(*queue, now)).collect();
        let whole = at.contains(&i64::MIN);
        From { at: if whole { vec![i64::MIN; queues.len()] } else { at }, whole }
    }

    /// All from the marks on was looked at: nothing lies between them and the oldest of each queue.
    pub(crate) fn looked(&mut self, oldest: Vec<(i64, Option<i64>)>, whole: bool, now: Timestamp) {
        let since = now.minus_ms(SLACK_MS).as_millis();
        for (queue, oldest) in oldest {
            self.at.insert(queue, oldest.unwrap_or(since).min(since));
            if whole {
                self.whole_at.insert(queue, now);
            }
        }
    }
}
