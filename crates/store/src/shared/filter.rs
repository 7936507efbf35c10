//! What a filter says by itself, in the store's numbers.

use redrive_core::run::StateName;
use redrive_core::wire::{Severity, Sort};

use crate::shared::counts::or_all;
use redrive_engine::model::{RunFilter, TenantScope};
use redrive_engine::runs::document::position;

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

/// The severities asked for, when all of them are kept in the indexes of what is above normal.
pub(crate) fn urgent(filter: &RunFilter) -> Option<Vec<i64>> {
    let is_urgent = |severity: &Severity| *severity > Severity::Normal;
    let numbers = filter.severities.iter().map(|severity| position(Severity::ALL, severity));
    if filter.severities.iter().all(is_urgent) { listed(numbers) } else { None }
}

/// A stretch of such an index for each severity and state.
pub(crate) fn urgent_lanes(urgent: &[i64], states: Option<&[i64]>) -> impl Iterator<Item = (i64, i64)> {
    let states = or_all(states);
    urgent.iter().flat_map(move |severity| states.clone().into_iter().map(|state| (*severity, state)))
}

/// Which rows those indexes hold, in the words of their migration; a planner takes one only for a query that says so.
pub(crate) const IS_URGENT: &str = "runs.severity >= 2";

#[cfg(test)]
mod tests {
    use redrive_core::wire::Severity;

    use super::{IS_URGENT, urgent};
    use redrive_engine::model::RunFilter;
    use redrive_engine::runs::document::position;

    #[test]
    fn what_is_above_normal_is_urgent_and_nothing_else() {
        assert_eq!(IS_URGENT, format!("runs.severity >= {}", position(Severity::ALL, &Severity::High)));
        let asked =
            |severities: &[Severity]| urgent(&RunFilter { severities: severities.to_vec(), ..RunFilter::default() });
        assert_eq!(asked(&[Severity::Critical, Severity::High]), Some(vec![2, 3]));
        assert_eq!(asked(&[Severity::Critical, Severity::Normal]), None);
        assert_eq!(asked(&[]), None);
    }
}
