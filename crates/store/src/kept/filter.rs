//! What a filter says by itself, in the store's numbers.

use redrive_core::run::StateName;
use redrive_core::wire::Sort;

use crate::commands::life::position;
use crate::model::{RunFilter, TenantScope};

pub(crate) const PAGE_MAX: u32 = 500;
/// Rows that one page may look at.
pub(crate) const LOOKS_MAX: usize = 20_000;
/// With more patterns than this, one way through all rows is shorter.
pub(crate) const PATTERN_LANES_MAX: usize = 256;
/// Without a counter, counting stops here.
pub(crate) const COUNT_MAX: u64 = 10_000;
/// Rows that one call may look at to count.
pub(crate) const COUNT_LOOKS_MAX: u64 = 50_000;

/// What must be the same for a cursor to be good: all but the page's size.
pub(crate) fn question(scope: &TenantScope, filter: &RunFilter, sort: Sort) -> String {
    format!("runs {scope:?} {filter:?} {sort}")
}

pub(crate) fn listed(numbers: impl Iterator<Item = i64>) -> Option<Vec<i64>> {
    let mut numbers: Vec<i64> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    (!numbers.is_empty()).then_some(numbers)
}

/// The states named, less those that the rest of the filter rules out.
pub(crate) fn states(filter: &RunFilter, sort: Sort) -> Option<Vec<i64>> {
    let only_scheduled = filter.held == Some(true) || sort == Sort::Due;
    let only_dead = !filter.dead_because.is_empty();
    let open = |state: &StateName| {
        (!only_scheduled || *state == StateName::Scheduled) && (!only_dead || *state == StateName::Dead)
    };
    if filter.states.is_empty() && !only_scheduled && !only_dead {
        return None;
    }
    let named = if filter.states.is_empty() { StateName::ALL } else { &filter.states };
    let numbers = named.iter().filter(|state| open(state)).map(|state| position(StateName::ALL, state));
    Some(listed(numbers).unwrap_or_default())
}
