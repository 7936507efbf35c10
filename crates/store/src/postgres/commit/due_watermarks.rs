//! Due watermarks: where scans for due runs start. Claimed runs leave dead index entries until they are vacuumed, which any
//! long transaction delays; a scan that starts behind them visits none.

use std::collections::HashMap;

use redrive_core::time::{SECOND_MS, Timestamp};

/// Tenants of one queue that one scan reads.
pub(crate) const TENANTS_MAX: usize = 2_048;
/// Full scans ignore the watermark this often, to find a run that is due before it, such as an old run that was moved to this
/// queue. They visit every dead entry, so they are rare.
const FULL_SCAN_EVERY_MS: u64 = 20 * SECOND_MS;
/// A slow commit may add a run that was due a while ago.
const SLACK_MS: u64 = 60 * SECOND_MS;

#[derive(Debug, Default)]
pub(crate) struct DueWatermarks {
    at: HashMap<i64, i64>,
    full_scan_at: HashMap<i64, Timestamp>,
}

/// Where a scan of some queues starts.
pub(crate) struct ScanStart {
    pub(crate) at: Vec<i64>,
    pub(crate) full_scan: bool,
}

impl DueWatermarks {
    /// Where a scan of a queue starts.
    pub(crate) fn at(&self, queue: i64, now: Timestamp) -> i64 {
        let fresh = self.full_scan_at.get(&queue).is_some_and(|at| *at <= now && now.since(*at) < FULL_SCAN_EVERY_MS);
        self.at.get(&queue).copied().filter(|_| fresh).unwrap_or(i64::MIN)
    }

    pub(crate) fn of(&self, queues: &[i64], now: Timestamp) -> ScanStart {
        let at: Vec<i64> = queues.iter().map(|queue| self.at(*queue, now)).collect();
        let full_scan = at.contains(&i64::MIN);
        ScanStart { at: if full_scan { vec![i64::MIN; queues.len()] } else { at }, full_scan }
    }

    /// Moves the watermarks after a scan that found the oldest run of each queue.
    pub(crate) fn advance(&mut self, oldest: Vec<(i64, Option<i64>)>, full_scan: bool, now: Timestamp) {
        let since = now.minus_ms(SLACK_MS).as_millis();
        for (queue, oldest) in oldest {
            self.at.insert(queue, oldest.unwrap_or(since).min(since));
            if full_scan {
                self.full_scan_at.insert(queue, now);
            }
        }
    }
}
