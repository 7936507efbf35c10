//! The log of changes as it is answered: each run once, where it last moved.

use std::collections::BTreeMap;

use redrive_core::run::StateName;
use redrive_core::wire::{ChangeEntry, ChangesAnswer};

use super::cursor::{seal_numbers, unseal_numbers};
use crate::shared::columns::{Columns, number, parsed, parsed_or_empty, time, unexpected, whole};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::TenantScope;
use redrive_engine::runs::document::word;

/// An answer stops after the commit that reaches this many runs.
const RUNS_MAX: usize = 1_000;
/// Runs of others that a tenant's answer may step over.
const LOOKS_MAX: usize = 10_000;

/// A place in the log of changes, as one scope may name it.
pub(crate) struct Log(String);

impl Log {
    pub(crate) fn of(scope: &TenantScope) -> Self {
        Self(format!("changes {scope:?}"))
    }

    /// The commit that a cursor of this scope names.
    pub(crate) fn place(&self, cursor: &str) -> Result<i64> {
        unseal_numbers(&self.0, cursor).map(|[at]| at)
    }

    pub(crate) fn nothing(&self, at: i64, reset: bool) -> ChangesAnswer {
        ChangesAnswer { changes: Vec::new(), next: seal_numbers(&self.0, &[at]), reset }
    }

    pub(crate) fn answer(&self, moved: Moved) -> ChangesAnswer {
        let next = seal_numbers(&self.0, &[moved.next]);
        ChangesAnswer { changes: moved.into_entries(), next, reset: false }
    }
}

/// What was found so far, and the commit up to which that is all.
pub(crate) struct Moved {
    entries: BTreeMap<i64, (i64, ChangeEntry)>,
    pub(crate) next: i64,
    looks: usize,
}

impl Moved {
    pub(crate) fn after(since: i64) -> Self {
        Self { entries: BTreeMap::new(), next: since, looks: 0 }
    }

    pub(crate) fn knows(&self, run: i64) -> bool {
        self.entries.contains_key(&run)
    }

    /// A run that a commit moved, and how it stands if that is not known yet; none of another tenant's.
    pub(crate) fn take(&mut self, seq: i64, run: i64, entry: Option<ChangeEntry>) {
        self.next = seq;
        self.looks += 1;
        if let Some(known) = self.entries.get_mut(&run) {
            known.0 = seq;
        } else if let Some(entry) = entry {
            self.entries.insert(run, (seq, entry));
        }
    }

    pub(crate) fn is_enough(&self) -> bool {
        self.entries.len() >= RUNS_MAX || self.looks >= LOOKS_MAX
    }

    /// In the order of their last moves.
    fn into_entries(self) -> Vec<ChangeEntry> {
        let mut entries: Vec<(i64, ChangeEntry)> = self.entries.into_values().collect();
        entries.sort_by_key(|(seq, _)| *seq);
        entries.into_iter().map(|(_, entry)| entry).collect()
    }
}

pub(crate) fn run_numbers(bytes: &[u8]) -> Result<Vec<i64>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(unexpected("changes").into());
    }
    Ok(numbers.iter().map(|n| i64::from_le_bytes(*n)).collect())
}

/// What [`change_of`] reads; a condition follows.
pub(crate) const CHANGE: &str = "SELECT runs.tenant, runs.run_id, tenants.name, queues.name, runs.state, runs.attempt, \
     runs.reason, runs.updated_at, runs.id \
     FROM runs JOIN tenants ON tenants.id = runs.tenant JOIN queues ON queues.id = runs.queue";

pub(crate) fn change_of(row: &impl Columns) -> Result<ChangeEntry> {
    Ok(ChangeEntry {
        run_id: parsed(row, 1, "run_id")?,
        tenant: parsed(row, 2, "tenant")?,
        queue: parsed(row, 3, "queue")?,
        state: word(StateName::ALL, number(row, 4)?, "state")?,
        attempt: whole(row, 5, "attempt")?,
        reason: parsed_or_empty(row, 6, "reason")?,
        at: time(row, 7)?,
    })
}
