//! Walks over due runs. A lease call may have to pass runs over: those meant for other agents, and those whose order key
//! is busy. One command passes over a bounded number of them. The next one goes on after them, in the same call or in
//! another with the same filter, and begins again at the front once it has come to the end.
//!
//! Where a walk has got to is a cache: forgotten, the next walk begins at the front.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use redrive_core::text::Label;
use redrive_core::time::Timestamp;

use crate::runs::run_row::RunRow;

/// Walks that are remembered; beyond them the memory begins anew.
const WALKS_MAX: usize = 10_000;

/// A run's place in due order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePlace {
    pub due: i64,
    pub id: i64,
}

impl DuePlace {
    /// Before every run.
    pub const FRONT: Self = Self { due: i64::MIN, id: i64::MIN };

    /// None where the run is not due at any time.
    pub fn of(row: &RunRow) -> Option<Self> {
        row.run.due_at().map(|due| Self { due: due.as_millis(), id: row.id })
    }
}

/// A walk in laps over the due runs of a queue and a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// One that was forgotten and begun anew has another.
    number: u64,
    lap: u64,
    /// The next look begins after it.
    pub at: DuePlace,
    /// The lap covers what was due by then, so that it ends however much falls due meanwhile.
    pub until: Timestamp,
}

impl Walk {
    /// The lap at whose end all that is due now was looked at, by this call or by others with its filter.
    pub fn full_lap(&self) -> Lap {
        let under_way = u64::from(self.at != DuePlace::FRONT);
        Lap { walk: self.number, lap: self.lap + under_way }
    }

    pub fn has_ended(&self, lap: Lap) -> bool {
        self.number == lap.walk && self.lap > lap.lap
    }

    pub fn end_lap(&mut self, now: Timestamp) {
        *self = Self { number: self.number, lap: self.lap + 1, at: DuePlace::FRONT, until: now };
    }
}

/// One lap of one walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lap {
    walk: u64,
    lap: u64,
}

impl Lap {
    pub fn is_of(&self, walk: &Walk) -> bool {
        self.walk == walk.number
    }
}

/// Which agents' runs a call passes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Filter(u64);

impl Filter {
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

/// Queue, tenant and filter.
type Key = (i64, i64, Filter);

/// The walks that are under way.
#[derive(Debug, Default)]
pub struct Walks {
    numbers: u64,
    remembered: HashMap<Key, Walk>,
}

impl Walks {
    /// The walk that goes on, or a new one, and whether it is new.
    pub fn go_on(&mut self, (queue, tenant): (i64, i64), filter: Filter, now: Timestamp) -> (Walk, bool) {
        let known = self.remembered.get(&(queue, tenant, filter)).copied();
        let mut walk = known.unwrap_or_else(|| {
            self.numbers += 1;
            Walk { number: self.numbers, lap: 0, at: DuePlace::FRONT, until: now }
        });
        // A lap that has not begun covers what is due now; after a clock that was set back none covers what is not.
        if walk.at == DuePlace::FRONT || walk.until > now {
            walk.until = now;
        }
        (walk, known.is_none())
    }

    pub fn remember(&mut self, (queue, tenant): (i64, i64), filter: Filter, walk: Walk) {
        if self.remembered.len() >= WALKS_MAX {
            self.remembered.clear();
        }
        self.remembered.insert((queue, tenant, filter), walk);
    }

    pub fn forget(&mut self) {
        self.remembered.clear();
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
    fn a_call_that_joins_a_lap_sees_the_next_one_whole() {
        let (mut walks, filter) = (Walks::default(), Filter::of(None));
        let (mut walk, new) = walks.go_on(PLACE, filter, at(10));
        let first = walk.full_lap();
        assert!(new && !walk.has_ended(first));
        walk.at = DuePlace { due: 5, id: 7 };
        walks.remember(PLACE, filter, walk);
        let (mut joined, new) = walks.go_on(PLACE, filter, at(20));
        assert!(!new && joined.at == walk.at && joined.until == at(10), "the lap covers what was due when it began");
        let second = joined.full_lap();
        joined.end_lap(at(30));
        assert!(joined.has_ended(first) && !joined.has_ended(second));
        joined.end_lap(at(40));
        assert!(joined.has_ended(second));
    }

    #[test]
    fn a_lap_of_a_forgotten_walk_never_ends() {
        let (mut walks, filter) = (Walks::default(), Filter::of(Some(&[Label::from("a")])));
        let (walk, _) = walks.go_on(PLACE, filter, at(10));
        let lap = walk.full_lap();
        walks.remember(PLACE, filter, walk);
        walks.forget();
        let (mut other, new) = walks.go_on(PLACE, filter, at(10));
        other.end_lap(at(10));
        assert!(new && !lap.is_of(&other) && !other.has_ended(lap));
    }

    #[test]
    fn a_filter_is_the_same_in_any_order() {
        let [a, b] = ["a", "b"].map(Label::from);
        let both = Filter::of(Some(&[a.clone(), b.clone()]));
        assert_eq!(both, Filter::of(Some(&[b, a.clone(), a.clone()])));
        assert_ne!(both, Filter::of(Some(&[a])));
        assert_ne!(Filter::of(Some(&[])), Filter::of(None));
    }
}
