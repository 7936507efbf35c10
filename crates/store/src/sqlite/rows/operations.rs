//! Operations and their items.

use crate::numbers::{limit, signed};
use crate::shared::records::{FromRow as _, OPERATION_COLUMNS};
use std::collections::HashSet;

use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, ItemOutcome, NamedRun, OperationAction, OperationSample, OperationState};
use rusqlite::{Connection, Row, params};

use crate::shared::lookup::last_run;
use crate::shared::operation_work::matching;
use crate::shared::reader::{CounterQueries, ready};
use crate::sqlite::reads::columns::{packed_json_or_none, parsed};
use crate::sqlite::rows::SqliteRows;
use redrive_engine::codec::encode;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::RunFilter;
use redrive_engine::operations::row::OperationRow;
use redrive_engine::ports::rows::{FrozenState, NewOperationRow, OperationRows, ReadRuns, RunRows as _};
use redrive_engine::runs::attempts;
use redrive_engine::runs::document::position;
use redrive_engine::runs::run_row::RunRow;

fn find(conn: &Connection, id: i64) -> Result<OperationRow> {
    let mut find = conn.prepare_cached(&format!("SELECT {OPERATION_COLUMNS} FROM operations WHERE id = ?1"))?;
    let mut rows = find.query([id])?;
    rows.next()?.map(OperationRow::read).transpose()?.ok_or(Error::NotFound("operation").into())
}

fn samples_of(conn: &Connection, id: i64) -> Result<Vec<OperationSample>> {
    let mut find = conn.prepare_cached("SELECT samples FROM operations WHERE id = ?1")?;
    let mut rows = find.query([id])?;
    let samples = rows.next()?.map(|row| packed_json_or_none(row, 0, "samples")).transpose()?;
    Ok(samples.flatten().unwrap_or_default())
}

impl OperationRows for SqliteRows<'_> {
    fn last_run(&mut self) -> Result<i64> {
        ready(last_run(self.conn))
    }

    fn last_change(&mut self) -> Result<i64> {
        ready(CounterQueries::last_change(self.conn))
    }

    fn insert_operation(&mut self, new: &NewOperationRow<'_>) -> Result<i64> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO operations (action, state, preparing, all_moved, open, spec, actor, created_at, started_at,
                 last_run, prepared_to, moved_to, matched, eligible, moved, succeeded, failed, skipped, tallies, canary,
                 pace_from, pace_moved, changes_seen, held_until, canary_last)
             VALUES (?1, ?2, 1, 0, 1, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0, 0, 0, 0, 0, ?8, ?9, ?5, 0, ?10, 0, 0)",
        )?;
        let row = new.row;
        insert.execute(params![
            position(OperationAction::ALL, &row.action),
            position(OperationState::ALL, &row.state),
            new.spec,
            row.actor,
            row.created_at.as_millis(),
            row.started_at.map(Timestamp::as_millis),
            row.last_run,
            attempts::json(&row.tallies)?,
            row.canary.map(|state| position(CanaryState::ALL, &state)),
            row.changes_seen,
        ])?;
        Ok(self.conn.last_insert_rowid())
    }

    fn operation(&mut self, id: i64) -> Result<Option<OperationRow>> {
        match find(self.conn, id).map_err(Error::from) {
            Ok(row) => Ok(Some(row)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(failed) => Err(failed.into()),
        }
    }

    fn update_operation(&mut self, row: &OperationRow) -> Result<()> {
        let mut update = self.conn.prepare_cached(
            "UPDATE operations SET state = ?2, preparing = ?3, all_moved = ?4, open = ?5, started_at = ?6, ended_at = ?7,
                 prepared_to = ?8, moved_to = ?9, matched = ?10, eligible = ?11, moved = ?12, succeeded = ?13,
                 failed = ?14, skipped = ?15, tallies = ?16, canary = ?17, canary_until = ?18, stopped_because = ?19,
                 joined = ?20, pace_from = ?21, pace_moved = ?22, changes_seen = ?23, settle_until = ?24, holder = ?25,
                 held_until = ?26, canary_last = ?27 WHERE id = ?1",
        )?;
        let changed = update.execute(params![
            row.id,
            position(OperationState::ALL, &row.state),
            row.preparing,
            row.all_moved,
            row.open,
            row.started_at.map(Timestamp::as_millis),
            row.ended_at.map(Timestamp::as_millis),
            row.prepared_to,
            row.moved_to,
            signed(row.matched),
            signed(row.eligible),
            signed(row.moved),
            signed(row.succeeded),
            signed(row.failed),
            signed(row.skipped),
            attempts::json(&row.tallies)?,
            row.canary.map(|state| position(CanaryState::ALL, &state)),
            row.canary_until.map(Timestamp::as_millis),
            row.stopped_because,
            row.joined,
            row.pace.from.as_millis(),
            signed(row.pace.moved),
            row.changes_seen,
            row.settle_until.map(Timestamp::as_millis),
            row.holder,
            row.held_until.as_millis(),
            row.canary_last,
        ])?;
        if changed == 1 { Ok(()) } else { Err(Error::NotFound("operation").into()) }
    }

    fn samples_of(&mut self, operation: i64) -> Result<Vec<OperationSample>> {
        samples_of(self.conn, operation)
    }

    fn put_samples(&mut self, operation: i64, samples: &[OperationSample]) -> Result<()> {
        let mut update = self.conn.prepare_cached("UPDATE operations SET samples = ?2 WHERE id = ?1")?;
        update.execute(params![operation, encode(attempts::json(&samples)?.as_bytes())])?;
        Ok(())
    }

    fn insert_item(
        &mut self,
        operation: i64,
        run: i64,
        outcome: ItemOutcome,
        why: Option<&str>,
        stood: FrozenState,
    ) -> Result<bool> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO operation_items (operation, run, outcome, why, state, attempt, decisions)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
        )?;
        let state = position(StateName::ALL, &stood.state);
        let outcome = position(ItemOutcome::ALL, &outcome);
        Ok(insert.execute(params![operation, run, outcome, why, state, stood.attempt, stood.decisions])? == 1)
    }

    fn move_item(
        &mut self,
        operation: i64,
        run: i64,
        from: ItemOutcome,
        to: ItemOutcome,
        why: Option<&str>,
    ) -> Result<bool> {
        let mut update = self.conn.prepare_cached(
            "UPDATE operation_items SET outcome = ?3, why = ?4 WHERE operation = ?1 AND run = ?2 AND outcome = ?5",
        )?;
        let [to, from] = [to, from].map(|outcome| position(ItemOutcome::ALL, &outcome));
        Ok(update.execute(params![operation, run, to, why, from])? == 1)
    }

    fn runs_as_they_stand(&mut self, _: i64, runs: &[i64]) -> Result<ReadRuns<RunRow>> {
        Ok(ReadRuns::collect(runs.iter().filter_map(|run| self.run_by_number(*run).transpose()))?)
    }

    /// The one writer needs no lock.
    fn lock_items(&mut self, _: i64, _: &[i64]) -> Result<()> {
        Ok(())
    }

    fn still_match(&mut self, filter: &RunFilter, made_at: Timestamp, runs: &[i64]) -> Result<HashSet<i64>> {
        ready(matching(self.conn, filter, made_at, runs))
    }

    fn release_claims(&mut self, of: Option<&str>) -> Result<()> {
        let mut update = self
            .conn
            .prepare_cached("UPDATE operations SET held_until = 0 WHERE open = 1 AND holder = coalesce(?1, holder)")?;
        update.execute([of])?;
        Ok(())
    }

    fn patterns_moved(&mut self, row: &OperationRow, most: usize) -> Result<Vec<i64>> {
        let mut patterns = self.conn.prepare_cached(
            "SELECT DISTINCT runs.pattern FROM operation_items AS item JOIN runs ON runs.id = item.run
             WHERE item.operation = ?1 AND item.run <= ?2 AND runs.pattern IS NOT NULL LIMIT ?3",
        )?;
        let found = patterns.query_map(params![row.id, row.moved_to, most], |row| row.get(0))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn runs_of_pattern(&mut self, pattern: i64, after: i64, most: u64) -> Result<Vec<NamedRun>> {
        let mut find = self.conn.prepare_cached(
            "SELECT tenants.name, runs.run_id FROM runs INDEXED BY runs_pattern JOIN tenants ON tenants.id = runs.tenant
             WHERE runs.pattern = ?1 AND runs.id > ?2 ORDER BY runs.id LIMIT ?3",
        )?;
        let named =
            |found: &Row<'_>| Ok(NamedRun { tenant: parsed(found, 0, "tenant")?, run_id: parsed(found, 1, "run_id")? });
        find.query_and_then(params![pattern, after, limit(most)], named)?.collect()
    }
}
