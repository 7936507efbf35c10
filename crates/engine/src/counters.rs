//! Counter changes of one batch: summed in memory, written by the store once per commit.

use std::sync::Arc;

use redrive_core::money::Spend;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;

use crate::Map;
use crate::error::Result;
use crate::model::HourlyKind;
use crate::runs::document::position;
use crate::tx::Tx;

/// The counters that one run is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedRun {
    pub key: CountKey,
    /// The pattern that counts it as open; none once the run is closed.
    pub open_pattern: Option<i64>,
}

/// A row of the run counters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CountKey {
    /// Its number in [`StateName::ALL`].
    pub state: i64,
    pub tenant: i64,
    pub queue: i64,
    pub reason: Arc<str>,
    pub detail: i64,
}

/// A row of the hourly counters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HourKey {
    pub hour: i64,
    pub tenant: i64,
    pub queue: i64,
    pub reason: Option<Arc<str>>,
}

/// One count per [`HourlyKind`].
pub type HourCounts = [i64; HourlyKind::ALL.len()];

#[derive(Debug, Default)]
pub struct PatternDelta {
    pub count: i64,
    pub open: i64,
    /// A failure of its group was recorded.
    pub group_seen: bool,
}

/// The counter changes of one batch.
#[derive(Debug, Default)]
pub struct CounterDeltas {
    pub counts: Map<CountKey, i64>,
    pub hours: Map<HourKey, HourCounts>,
    pub patterns: Map<i64, PatternDelta>,
    /// Changed runs, for the change log.
    pub moved: Vec<i64>,
    /// By tenant: what its retries used.
    pub spend: Map<i64, Spend>,
}

impl CounterDeltas {
    /// Records that a run changed; `from` is none for a new run.
    pub fn moved(&mut self, run: i64, from: Option<&CountedRun>, to: &CountedRun) {
        self.moved.push(run);
        if from == Some(to) {
            return;
        }
        if let Some(from) = from {
            self.add(from, -1);
        }
        self.add(to, 1);
    }

    fn add(&mut self, run: &CountedRun, by: i64) {
        *self.counts.entry(run.key.clone()).or_default() += by;
        if let Some(pattern) = run.open_pattern {
            self.patterns.entry(pattern).or_default().open += by;
        }
    }

    /// This batch's change to the tenant's number of running attempts.
    pub fn running(&self, tenant: i64) -> i64 {
        let running = position(StateName::ALL, &StateName::Running);
        self.counts.iter().filter(|(key, _)| key.tenant == tenant && key.state == running).map(|(_, n)| n).sum()
    }

    /// Counts an event in its hour; `reason` is that of the failure it is about.
    pub fn happened(&mut self, now: Timestamp, tenant: i64, queue: i64, kind: HourlyKind, reason: Option<&Arc<str>>) {
        let key = HourKey { hour: now.hour().as_millis(), tenant, queue, reason: reason.cloned() };
        let counts = self.hours.entry(key).or_default();
        for (count, of) in counts.iter_mut().zip(HourlyKind::ALL) {
            *count += i64::from(*of == kind);
        }
    }

    /// Counts a failed attempt of `pattern`, whose group is `head`.
    pub fn failed(&mut self, pattern: i64, head: i64) {
        self.patterns.entry(pattern).or_default().count += 1;
        self.patterns.entry(head).or_default().group_seen = true;
    }
}

/// Adds what a retry used to its tenant's spend of today.
pub fn add_spend(tx: &mut Tx<'_>, tenant: i64, spend: Spend) {
    if !spend.is_none() {
        let sum = tx.counters.spend.entry(tenant).or_default();
        *sum = sum.plus(spend);
    }
}

/// What the tenant's retries have used today, including this batch.
pub fn spent_today(tx: &mut Tx<'_>, tenant: i64) -> Result<Spend> {
    let stored = tx.rows.spent_on(tenant, tx.now.day())?;
    Ok(stored.plus(tx.counters.spend.get(&tenant).copied().unwrap_or_default()))
}
