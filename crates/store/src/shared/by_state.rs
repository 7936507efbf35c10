//! How many runs stand where.

use redrive_core::run::StateName;

use redrive_engine::runs::document::position;

/// Runs by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByState([u64; StateName::ALL.len()]);

impl ByState {
    pub(crate) fn of(&self, state: StateName) -> u64 {
        usize::try_from(position(StateName::ALL, &state)).ok().and_then(|n| self.0.get(n)).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, state: StateName, n: i64) {
        let slot = usize::try_from(position(StateName::ALL, &state)).ok().and_then(|at| self.0.get_mut(at));
        if let Some(slot) = slot {
            *slot = slot.saturating_add_signed(n);
        }
    }

    /// Every state in the order of its list, the empty ones too.
    pub(crate) fn all(&self) -> Vec<(StateName, u64)> {
        StateName::ALL.iter().map(|state| (*state, self.of(*state))).collect()
    }
}

/// One row of the counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count {
    pub(crate) state: StateName,
    pub(crate) queue: i64,
    pub(crate) detail: i64,
    pub(crate) n: i64,
}

pub(crate) fn standing<'a>(counts: impl IntoIterator<Item = &'a Count>) -> ByState {
    let mut standing = ByState::default();
    for count in counts {
        standing.add(count.state, count.n);
    }
    standing
}
