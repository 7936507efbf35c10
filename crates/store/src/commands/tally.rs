//! Counters, folded once per commit: what a batch changes is summed in memory, and written by its store at the end.

use std::sync::Arc;

use redrive_core::money::Spend;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;

use crate::commands::life::position;
use crate::commands::map::Map;
use crate::model::HourlyKind;

/// What a run is counted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Standing {
    pub(crate) state: StateName,
    pub(crate) tenant: i64,
    pub(crate) queue: i64,
    pub(crate) reason: Arc<str>,
    pub(crate) detail: i64,
    /// The pattern it keeps open, if it is not closed.
    pub(crate) pattern: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Count {
    pub(crate) state: i64,
    pub(crate) tenant: i64,
    pub(crate) queue: i64,
    pub(crate) reason: Arc<str>,
    pub(crate) detail: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Hour {
    pub(crate) hour: i64,
    pub(crate) tenant: i64,
    pub(crate) queue: i64,
    pub(crate) reason: Option<Arc<str>>,
}

pub(crate) type Kinds = [i64; HourlyKind::ALL.len()];

#[derive(Debug, Default)]
pub(crate) struct PatternDelta {
    pub(crate) count: i64,
    pub(crate) open: i64,
    /// One of its group failed.
    pub(crate) group_seen: bool,
}

/// The sums of one batch.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: Map<Count, i64>,
    pub(crate) hours: Map<Hour, Kinds>,
    pub(crate) patterns: Map<i64, PatternDelta>,
    pub(crate) moved: Vec<i64>,
    /// What each tenant's retries used.
    pub(crate) spend: Map<i64, Spend>,
}

impl Tally {
    /// A run changed what it counts under; `None` before it was there.
    pub(crate) fn moved(&mut self, run: i64, from: Option<&Standing>, to: &Standing) {
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
    pub(crate) fn running(&self, tenant: i64) -> i64 {
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
    pub(crate) fn happened(
        &mut self,
        now: Timestamp,
        tenant: i64,
        queue: i64,
        kind: HourlyKind,
        reason: Option<&Arc<str>>,
    ) {
        let key = Hour { hour: now.hour().as_millis(), tenant, queue, reason: reason.cloned() };
        let kinds = self.hours.entry(key).or_default();
        if let Some(n) = usize::try_from(position(HourlyKind::ALL, &kind)).ok().and_then(|at| kinds.get_mut(at)) {
            *n += 1;
        }
    }

    /// A failed attempt of `pattern`, which is part of `head` or is that itself.
    pub(crate) fn failed(&mut self, pattern: i64, head: i64) {
        self.patterns.entry(pattern).or_default().count += 1;
        self.patterns.entry(head).or_default().group_seen = true;
    }
}
