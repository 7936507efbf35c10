//! How many there are, as lists say it.

use redrive_core::run::StateName;
use redrive_core::wire::Sort;

use super::filter::COUNT_MAX;
use redrive_engine::runs::document::{HELD, position};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) n: u64,
    /// There are more, or may be.
    pub(crate) capped: bool,
}

impl Total {
    /// From the kept counters. Only of tenant, queue, state and reason do we promise more than 10,000: `bounded` says
    /// that more was asked for.
    pub(crate) fn kept(n: u64, bounded: bool) -> Self {
        let capped = bounded && n > COUNT_MAX;
        if capped { Self { n: COUNT_MAX, capped } } else { Self { n, capped } }
    }
}

/// All states, where none are named.
pub(crate) fn or_all(states: Option<&[i64]>) -> Vec<i64> {
    states.map_or_else(|| (0..).take(StateName::ALL.len()).collect(), <[i64]>::to_vec)
}

/// Held runs have no due time, so a list by due time has none of them.
pub(crate) fn fits(state: i64, detail: i64, held: Option<bool>, sort: Sort) -> bool {
    let is_held = state == position(StateName::ALL, &StateName::Scheduled) && detail == HELD;
    held.is_none_or(|held| held == is_held) && !(sort == Sort::Due && is_held)
}
