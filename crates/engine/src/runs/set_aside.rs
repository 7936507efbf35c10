//! Runs whose rows cannot be read. A service sets such a run aside, logs it, and continues with the next ones.

use redrive_core::lifecycle::{Event, Moved};
use redrive_core::policy::Policy;
use redrive_core::time::MINUTE_MS;

use crate::error::{Error, PortResult, Result};
use crate::ports::rows::Rows;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// How often a run that was set aside is read again: an operator or a newer version may have repaired it.
pub const READ_AGAIN_MS: u64 = 10 * MINUTE_MS;
/// Queries of one round that may find unreadable runs.
const ASKS_MAX: usize = 8;

/// The readable and the unreadable rows of a query.
pub struct ReadRuns<T> {
    pub rows: Vec<T>,
    pub corrupt: Vec<CorruptRun>,
}

pub struct CorruptRun {
    pub run: i64,
    pub why: String,
}

impl<T> ReadRuns<T> {
    pub fn all(rows: Vec<T>) -> Self {
        Self { rows, corrupt: Vec::new() }
    }

    pub fn collect(read: impl IntoIterator<Item = Result<T, impl Into<Error>>>) -> Result<Self> {
        let mut found = Self::all(Vec::new());
        for row in read {
            match unless_corrupt(row)? {
                Ok(row) => found.rows.push(row),
                Err(corrupt) => found.corrupt.push(corrupt),
            }
        }
        Ok(found)
    }
}

/// Separates an unreadable row from a failure of the store.
pub fn unless_corrupt<T>(read: Result<T, impl Into<Error>>) -> Result<Result<T, CorruptRun>> {
    match read.map_err(Into::into) {
        Ok(read) => Ok(Ok(read)),
        Err(Error::Corrupt { id, why, .. }) => Ok(Err(CorruptRun { run: id, why })),
        Err(failed) => Err(failed),
    }
}

/// Runs a query, sets unreadable rows aside, and repeats it so that the rows after them come up.
pub fn readable<T>(tx: &mut Tx<'_>, mut ask: impl FnMut(&mut dyn Rows) -> PortResult<ReadRuns<T>>) -> Result<Vec<T>> {
    for _ in 1..ASKS_MAX {
        let found = ask(tx.rows)?;
        if found.corrupt.is_empty() {
            return Ok(found.rows);
        }
        set_all_aside(tx, &found.corrupt)?;
    }
    let found = ask(tx.rows)?;
    set_all_aside(tx, &found.corrupt)?;
    Ok(found.rows)
}

fn set_all_aside(tx: &mut Tx<'_>, corrupt: &[CorruptRun]) -> Result<()> {
    corrupt.iter().try_for_each(|CorruptRun { run, why }| set_run_aside(tx, *run, why))
}

pub fn set_run_aside(tx: &mut Tx<'_>, run: i64, why: &str) -> Result<()> {
    tracing::error!(run, why, "run set aside: row unreadable");
    Ok(tx.rows.set_run_aside(run, why, tx.now)?)
}

/// The transition of a run that a service has found. A run whose state refuses it is set aside.
pub fn ask_for_service(tx: &mut Tx<'_>, row: &RunRow, event: &Event<'_>, policy: &Policy) -> Result<Option<Moved>> {
    match row.ask(event, policy, tx.now) {
        Ok(moved) => Ok(Some(moved)),
        Err(refused) => set_run_aside(tx, row.id, &refused.to_string()).map(|()| None),
    }
}

/// Puts runs back that are readable again.
pub fn read_set_aside_again(tx: &mut Tx<'_>, most: usize) -> Result<()> {
    for run in tx.rows.put_runs_back(tx.now.minus_ms(READ_AGAIN_MS), most)? {
        match unless_corrupt(tx.rows.run_by_number(run))? {
            Ok(_) => tracing::info!(run, "run put back: row readable again"),
            Err(CorruptRun { run, why }) => tx.rows.set_run_aside(run, &why, tx.now)?,
        }
    }
    Ok(())
}
