//! Counters, folded once per commit: what a batch changes is summed in memory, and written by its store at the end.

use std::sync::Arc;

use redrive_core::money::Spend;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;

use crate::map::Map;
use crate::model::HourlyKind;
use crate::runs::document::position;

/// What a run is counted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Standing {
    pub state: StateName,
    pub tenant: i64,
    pub queue: i64,
    pub reason: Arc<str>,
    pub detail: i64,
    /// The pattern it keeps open, if it is not closed.
    pub pattern: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Count {
    pub state: i64,
    pub tenant: i64,
    pub queue: i64,
    pub reason: Arc<str>,
    pub detail: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hour {
    pub hour: i64,
    pub tenant: i64,
    pub queue: i64,
    pub reason: Option<Arc<str>>,
}

pub type Kinds = [i64; HourlyKind::ALL.len()];

#[derive(Debug, Default)]
pub struct PatternDelta {
    pub count: i64,
    pub open: i64,
    /// One of its group failed.
    pub group_seen: bool,
}

/// The sums of one batch.
#[derive(Debug, Default)]
pub struct Tally {
    pub counts: Map<Count, i64>,
    pub hours: Map<Hour, Kinds>,
    pub patterns: Map<i64, PatternDelta>,
    pub moved: Vec<i64>,
    /// What each tenant's retries used.
    pub spend: Map<i64, Spend>,
}

impl Tally {
    /// A run changed what it counts under; `None` before it was there.
    pub fn moved(&mut self, run: i64, from: Option<&Standing>, to: &Standing) {
        self.moved.push(run);
        if from == Some(to) {
            return;
        }
        if let Some(from) = from {
            self.count(from, -1);
        }
        self.count(to, 1);
    }

    /// By how many the batch has changed what a tenant has under way.
    pub fn running(&self, tenant: i64) -> i64 {
        let running = position(StateName::ALL, &StateName::Running);
        self.counts.iter().filter(|(at, _)| at.tenant == tenant && at.state == running).map(|(_, n)| n).sum()
    }

    fn count(&mut self, at: &Standing, by: i64) {
        let key = Count {
            state: position(StateName::ALL, &at.state),
            tenant: at.tenant,
            queue: at.queue,
            reason: at.reason.clone(),
            detail: at.detail,
        };
        *self.counts.entry(key).or_default() += by;
        if let Some(pattern) = at.pattern.filter(|_| !at.state.is_closed()) {
            self.patterns.entry(pattern).or_default().open += by;
        }
    }

    /// Something happened to a run whose last failure, if that is what it is about, had the reason.
    pub fn happened(&mut self, now: Timestamp, tenant: i64, queue: i64, kind: HourlyKind, reason: Option<&Arc<str>>) {
        let key = Hour { hour: now.hour().as_millis(), tenant, queue, reason: reason.cloned() };
        let kinds = self.hours.entry(key).or_default();
        if let Some(n) = usize::try_from(position(HourlyKind::ALL, &kind)).ok().and_then(|at| kinds.get_mut(at)) {
            *n += 1;
        }
    }

    /// A failed attempt of `pattern`, which is part of `head` or is that itself.
    pub fn failed(&mut self, pattern: i64, head: i64) {
        self.patterns.entry(pattern).or_default().count += 1;
        self.patterns.entry(head).or_default().group_seen = true;
    }
}
