//! The counters compared with a recount.

use redrive_core::run::StateName;

use crate::shared::columns::{Columns, whole};
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::position;

/// How many counters differ from a recount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Miscounted {
    /// By tenant, queue, state and reason.
    pub counts: u64,
    /// The same over all tenants.
    pub totals: u64,
    /// Patterns, by their open runs.
    pub patterns: u64,
}

impl Miscounted {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            counts: whole(row, 0, "counts")?,
            totals: whole(row, 1, "totals")?,
            patterns: whole(row, 2, "patterns")?,
        })
    }
}

/// The closed states, as a list in SQL.
pub(crate) fn closed_states() -> String {
    let closed = StateName::ALL.iter().filter(|state| state.is_closed());
    closed.map(|state| position(StateName::ALL, state).to_string()).collect::<Vec<_>>().join(", ")
}
