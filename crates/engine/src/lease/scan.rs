//! Scans over due runs. A lease call may have to skip runs: those meant for other agents, and those whose order key is
//! busy. One command examines a bounded number of rows; the next one, of this call or of another with the same filter,
//! continues after them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use redrive_core::ids::IdempotencyKey;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;

use crate::runs::run_row::RunRow;

/// A run's position in due order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePosition {
    pub due: i64,
    pub id: i64,
}

impl DuePosition {
    /// Before every run.
    pub const FRONT: Self = Self { due: i64::MIN, id: i64::MIN };

    /// None where the run has no due time.
    pub fn of(row: &RunRow) -> Option<Self> {
        row.run.due_at().map(|due| Self { due: due.as_millis(), id: row.id })
    }
}

/// A range of due runs of one queue and tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueScan {
    pub queue: i64,
    pub tenant: i64,
    /// Exclusive.
    pub after: DuePosition,
    /// Only runs due by then.
    pub until: Timestamp,
}

impl DueScan {
    /// Queue and tenant.
    pub fn place(&self) -> (i64, i64) {
        (self.queue, self.tenant)
    }
}

/// A request for one page of due runs of each scan.
#[derive(Debug, Clone, Copy)]
pub struct DueQuery<'a> {
    pub scans: &'a [DueScan],
    pub agents: Option<&'a [Label]>,
    /// The most runs returned of each scan.
    pub most: usize,
    /// The most rows examined of each scan, whether returned or skipped.
    pub window: usize,
}

/// A page of due runs.
#[derive(Debug, Default)]
pub struct DuePage {
    pub runs: Vec<DueRun>,
    /// With fewer runs than requested: where the window ended, unless it reached the last due run.
    pub end: Option<DuePosition>,
}

/// A due run that a worker may get.
#[derive(Debug, Clone)]
pub struct DueRun {
    pub row: RunRow,
    pub order_key: Option<String>,
    pub agent: Option<Label>,
    pub idempotency_key: Option<IdempotencyKey>,
    /// The size of its payload in an answer.
    pub bytes: usize,
}

/// A hash of the agents that a lease call accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AgentFilter(u64);

impl AgentFilter {
    pub fn of(agents: Option<&[Label]>) -> Self {
        let Some(agents) = agents else { return Self(0) };
        let mut names: Vec<&str> = agents.iter().map(Label::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let mut hasher = DefaultHasher::new();
        names.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The cursor of a scan over the due runs of a queue and a tenant. It wraps around: after the last due run a new round
/// begins at the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanCursor {
    /// A cursor that was dropped from the cache and created again has another id.
    id: u64,
    round: u64,
    /// The next page begins after it.
    pub position: DuePosition,
    /// The round covers what was due by then, so that it ends even if runs keep falling due.
    pub until: Timestamp,
}

impl ScanCursor {
    /// The round whose end means that every run due now was examined, by this call or by others with its filter.
    pub fn full_round(&self) -> ScanRound {
        let in_progress = u64::from(self.position != DuePosition::FRONT);
        ScanRound { cursor: self.id, round: self.round + in_progress }
    }

    pub fn has_finished(&self, round: ScanRound) -> bool {
        round.is_of(self) && self.round > round.round
    }

    /// Ends the round; the next one begins at the front.
    pub fn wrap(&mut self, now: Timestamp) {
        *self = Self { id: self.id, round: self.round + 1, position: DuePosition::FRONT, until: now };
    }

    pub fn scan(&self, (queue, tenant): (i64, i64)) -> DueScan {
        DueScan { queue, tenant, after: self.position, until: self.until }
    }
}

/// One round of one cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanRound {
    cursor: u64,
    round: u64,
}

impl ScanRound {
    pub fn is_of(&self, cursor: &ScanCursor) -> bool {
        self.cursor == cursor.id
    }
}

/// Cursors between commands, by queue, tenant and filter. A cache: without an entry a scan begins at the front.
#[derive(Debug, Default)]
pub struct ScanCursors {
    last_id: u64,
    cached: HashMap<(i64, i64, AgentFilter), ScanCursor>,
}

/// Callers choose the filters: beyond this many cursors the cache is cleared.
const CURSORS_MAX: usize = 10_000;

impl ScanCursors {
    /// The cached cursor or a new one, and whether it is new.
    pub fn resume(&mut self, (queue, tenant): (i64, i64), filter: AgentFilter, now: Timestamp) -> (ScanCursor, bool) {
        let cached = self.cached.get(&(queue, tenant, filter)).copied();
        let mut cursor = cached.unwrap_or_else(|| {
            self.last_id += 1;
            ScanCursor { id: self.last_id, round: 0, position: DuePosition::FRONT, until: now }
        });
        // A round that has not begun covers what is due now. After a clock was set back, no round reaches past now.
        if cursor.position == DuePosition::FRONT || cursor.until > now {
            cursor.until = now;
        }
        (cursor, cached.is_none())
    }

    pub fn save(&mut self, (queue, tenant): (i64, i64), filter: AgentFilter, cursor: ScanCursor) {
        if self.cached.len() >= CURSORS_MAX {
            self.cached.clear();
        }
        self.cached.insert((queue, tenant, filter), cursor);
    }

    /// Keeps `last_id`, so that no later cursor is taken for an earlier one.
    pub fn clear(&mut self) {
        self.cached.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: (i64, i64) = (1, 1);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn a_call_that_joins_a_round_waits_for_the_next() {
        let (mut cursors, filter) = (ScanCursors::default(), AgentFilter::of(None));
        let (mut cursor, new) = cursors.resume(PLACE, filter, at(10));
        let first = cursor.full_round();
        assert!(new && !cursor.has_finished(first));
        cursor.position = DuePosition { due: 5, id: 7 };
        cursors.save(PLACE, filter, cursor);
        let (mut joined, new) = cursors.resume(PLACE, filter, at(20));
        assert!(!new && joined.position == cursor.position);
        assert_eq!(joined.until, at(10), "the round covers what was due when it began");
        let second = joined.full_round();
        joined.wrap(at(30));
        assert!(joined.has_finished(first) && !joined.has_finished(second));
        joined.wrap(at(40));
        assert!(joined.has_finished(second));
    }

    #[test]
    fn a_round_of_a_dropped_cursor_never_finishes() {
        let (mut cursors, filter) = (ScanCursors::default(), AgentFilter::of(Some(&[Label::from("a")])));
        let (cursor, _) = cursors.resume(PLACE, filter, at(10));
        let round = cursor.full_round();
        cursors.save(PLACE, filter, cursor);
        cursors.clear();
        let (mut other, new) = cursors.resume(PLACE, filter, at(10));
        other.wrap(at(10));
        assert!(new && !round.is_of(&other) && !other.has_finished(round));
    }

    #[test]
    fn a_filter_ignores_order_and_repeats() {
        let [a, b] = ["a", "b"].map(Label::from);
        let both = AgentFilter::of(Some(&[a.clone(), b.clone()]));
        assert_eq!(both, AgentFilter::of(Some(&[b, a.clone(), a.clone()])));
        assert_ne!(both, AgentFilter::of(Some(&[a])));
        assert_ne!(AgentFilter::of(Some(&[])), AgentFilter::of(None));
    }
}
