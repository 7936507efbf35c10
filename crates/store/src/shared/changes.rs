//! The change log: each run once, with its latest state, in the order of its last change.

use std::collections::{BTreeMap, HashMap};

use redrive_core::run::StateName;
use redrive_core::wire::{ChangeEntry, ChangesAnswer};

use super::columns::{Columns, bytes, number, parsed, parsed_or_empty, time, unexpected, whole};
use super::cursor::{seal_numbers, unseal_numbers};
use super::lookup::{ReadScope, read_scope};
use super::reader::{SqlReader, StoreReader};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::TenantScope;
use redrive_engine::runs::document::word;

/// An answer ends after the commit that reaches this many runs.
const RUNS_MAX: usize = 1_000;
/// Runs of any tenant that one answer examines at most.
const EXAMINED_MAX: usize = 10_000;
/// Commits that one statement reads.
const CHUNK_COMMITS: i64 = 500;

pub(crate) async fn changes(
    reader: &impl StoreReader,
    scope: &TenantScope,
    since: Option<&str>,
) -> Result<ChangesAnswer> {
    let current = reader.last_change().await?;
    let question = format!("changes {scope:?}");
    let answer = |changes, next, reset| ChangesAnswer { changes, next: seal_numbers(&question, &[next]), reset };
    let Some(cursor) = since else { return Ok(answer(Vec::new(), current, false)) };
    let [since] = unseal_numbers(&question, cursor)?;
    if since > current || (since < current && oldest(reader).await?.is_none_or(|oldest| since < oldest - 1)) {
        return Ok(answer(Vec::new(), current, true));
    }
    let scope = read_scope(reader, scope).await?;
    let mut changed = ChangedRuns { entries: BTreeMap::new(), last: since, examined: 0 };
    while !changed.is_full() {
        let commits = commits_after(reader, changed.last).await?;
        if commits.is_empty() {
            break;
        }
        let runs: Vec<i64> = commits.iter().flat_map(|commit| commit.runs.iter().copied()).collect();
        let states = states_of(reader, scope, runs).await?;
        for commit in commits {
            changed.add(&commit, &states);
            if changed.is_full() {
                break;
            }
        }
    }
    let next = changed.last;
    Ok(answer(changed.into_entries(), next, false))
}

async fn oldest(reader: &impl SqlReader) -> Result<Option<i64>> {
    let found = reader.row("SELECT min(seq) FROM changes", &[]).await?.read(|row| row.number_or_none(0))?;
    Ok(found.flatten())
}

/// A commit, and the runs that it changed.
pub(crate) struct CommitRow {
    pub(crate) seq: i64,
    pub(crate) runs: Vec<i64>,
}

/// The next chunk of the log.
pub(crate) async fn commits_after(reader: &impl SqlReader, seq: i64) -> Result<Vec<CommitRow>> {
    let sql = "SELECT seq, runs FROM changes WHERE seq > $1 ORDER BY seq LIMIT $2";
    reader
        .rows(sql, &[seq.into(), CHUNK_COMMITS.into()])
        .await?
        .read(|row| Ok(CommitRow { seq: number(row, 0)?, runs: run_numbers(bytes(row, 1)?)? }))
}

fn run_numbers(bytes: &[u8]) -> Result<Vec<i64>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(unexpected("changes").into());
    }
    Ok(numbers.iter().map(|n| i64::from_le_bytes(*n)).collect())
}

/// The runs as they are now, without those of other tenants.
async fn states_of(reader: &impl SqlReader, scope: ReadScope, mut runs: Vec<i64>) -> Result<HashMap<i64, ChangeEntry>> {
    runs.sort_unstable();
    runs.dedup();
    let read =
        reader.rows_any(&format!("{CHANGE} WHERE runs.id = ANY($1)"), &[runs.as_slice().into()]).await?.read(|row| {
            if scope.sees(number(row, 0)?) { Ok(Some((number(row, 8)?, change_of(row)?))) } else { Ok(None) }
        });
    Ok(read?.into_iter().flatten().collect())
}

/// The answer so far: all changes up to the commit `last`.
struct ChangedRuns {
    entries: BTreeMap<i64, (i64, ChangeEntry)>,
    last: i64,
    examined: usize,
}

impl ChangedRuns {
    fn add(&mut self, commit: &CommitRow, states: &HashMap<i64, ChangeEntry>) {
        self.last = commit.seq;
        self.examined += commit.runs.len();
        for run in &commit.runs {
            if let Some(known) = self.entries.get_mut(run) {
                known.0 = commit.seq;
            } else if let Some(entry) = states.get(run) {
                self.entries.insert(*run, (commit.seq, entry.clone()));
            }
        }
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= RUNS_MAX || self.examined >= EXAMINED_MAX
    }

    fn into_entries(self) -> Vec<ChangeEntry> {
        let mut entries: Vec<(i64, ChangeEntry)> = self.entries.into_values().collect();
        entries.sort_by_key(|(seq, _)| *seq);
        entries.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// The columns of [`change_of`], between the tenant and the run number.
const CHANGE: &str = "SELECT runs.tenant, runs.run_id, tenants.name, queues.name, runs.state, runs.attempt, \
     runs.reason, runs.updated_at, runs.id \
     FROM runs JOIN tenants ON tenants.id = runs.tenant JOIN queues ON queues.id = runs.queue";

fn change_of(row: &impl Columns) -> Result<ChangeEntry> {
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
