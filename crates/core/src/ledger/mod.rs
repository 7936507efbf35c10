//! The ledger's one table: `(entry, report, by) → recorded | refused`. Intent before effect, one owner of a key, a done
//! step's output for good, and what nobody can vouch for is in doubt until somebody can. Stores only ask.

mod entry;
mod moves;
mod unnamed;
mod versions;

/// Entries of one run. Whoever gets a run gets all of them.
pub const RUN_STEPS_MAX: usize = 10_000;

pub use entry::{Call, Entry, EntryState, Known, Will, count_unrecorded, recount, uncount};
pub use moves::{By, Recorded, Refused, Report, apply, reconcile};
pub use unnamed::{
    Unnamed, free_ordinal, is_of_name, may_be_given, ordinal, ordinal_of_key, unnamed_key, unnamed_stem,
};
pub use versions::{VersionChange, versions_changed};

#[cfg(test)]
mod tests;
