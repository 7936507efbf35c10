//! Operations and their items.

use crate::numbers::{limit, signed};
use crate::shared::records::{FromRow as _, OPERATION_COLUMNS};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, ItemOutcome, NamedRun, OperationAction, OperationSample, OperationState};
use tokio_postgres::Row;

use crate::postgres::commit::write_out::column;
use crate::postgres::reads::columns::{number, packed_json_or_none, parsed, whole};
use crate::postgres::rows::PgRows;
use crate::shared::operation_work::matching;
use redrive_engine::codec::encode;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::RunFilter;
use redrive_engine::operations::row::OperationRow;
use redrive_engine::ports::rows::{FrozenState, NewOperationRow, OperationRows, ReadRuns};
use redrive_engine::runs::attempts::json;
use redrive_engine::runs::document::{position, word};
use redrive_engine::runs::run_row::RunRow;

static ONE: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {OPERATION_COLUMNS} FROM operations WHERE id = $1 FOR UPDATE"));

const INSERT: &str = "INSERT INTO operations (action, state, preparing, all_moved, open, spec, actor, created_at,
         started_at, last_run, prepared_to, moved_to, matched, eligible, moved, succeeded, failed, skipped, tallies, canary,
         pace_from, pace_moved, changes_seen, held_until, canary_last)
     VALUES ($1, $2, 1, 0, 1, $3, $4, $5, $6, $7, 0, 0, 0, 0, 0, 0, 0, 0, $8, $9, $5, 0, $10, 0, 0) RETURNING id";

const UPDATE: &str = "UPDATE operations SET state = $2, preparing = $3, all_moved = $4, open = $5, started_at = $6,
         ended_at = $7, prepared_to = $8, moved_to = $9, matched = $10, eligible = $11, moved = $12, succeeded = $13,
         failed = $14, skipped = $15, tallies = $16, canary = $17, canary_until = $18, stopped_because = $19,
         joined = $20, pace_from = $21, pace_moved = $22, changes_seen = $23, settle_until = $24, holder = $25,
         held_until = $26, canary_last = $27 WHERE id = $1";

impl OperationRows for PgRows<'_> {
    fn last_run(&mut self) -> Result<i64> {
        self.ask_after("SELECT coalesce(max(id), 0) FROM runs", &[])?.first().map_or(Ok(0), |row| number(row, 0))
    }

    fn last_change(&mut self) -> Result<i64> {
        self.ask("SELECT seq FROM change_head", &[])?.first().map_or(Ok(0), |row| number(row, 0))
    }

    fn insert_operation(&mut self, new: &NewOperationRow<'_>) -> Result<i64> {
        let row = new.row;
        let made = self.ask_one(
            INSERT,
            &[
                &position(OperationAction::ALL, &row.action),
                &position(OperationState::ALL, &row.state),
                &new.spec,
                &row.actor,
                &row.created_at.as_millis(),
                &row.started_at.map(Timestamp::as_millis),
                &row.last_run,
                &json(&row.tallies)?.into_bytes(),
                &row.canary.map(|state| position(CanaryState::ALL, &state)),
                &row.changes_seen,
            ],
        )?;
        number(&made.ok_or_else(|| Error::Unexpected("no number for an operation".into()))?, 0)
    }

    fn operation(&mut self, id: i64) -> Result<Option<OperationRow>> {
        self.ask_one(&ONE, &[&id])?.map(|row| OperationRow::read(&row)).transpose()
    }

    fn update_operation(&mut self, row: &OperationRow) -> Result<()> {
        self.write_items()?;
        let changed = self.run(
            UPDATE,
            &[
                &row.id,
                &position(OperationState::ALL, &row.state),
                &i64::from(row.preparing),
                &i64::from(row.all_moved),
                &i64::from(row.open),
                &row.started_at.map(Timestamp::as_millis),
                &row.ended_at.map(Timestamp::as_millis),
                &row.prepared_to,
                &row.moved_to,
                &signed(row.matched),
                &signed(row.eligible),
                &signed(row.moved),
                &signed(row.succeeded),
                &signed(row.failed),
                &signed(row.skipped),
                &json(&row.tallies)?.into_bytes(),
                &row.canary.map(|state| position(CanaryState::ALL, &state)),
                &row.canary_until.map(Timestamp::as_millis),
                &row.stopped_because.as_ref().map(String::as_bytes),
                &row.joined.as_ref().map(String::as_bytes),
                &row.pace.from.as_millis(),
                &signed(row.pace.moved),
                &row.changes_seen,
                &row.settle_until.map(Timestamp::as_millis),
                &row.holder,
                &row.held_until.as_millis(),
                &row.canary_last,
            ],
        )?;
        if changed == 1 { Ok(()) } else { Err(Error::NotFound("operation").into()) }
    }

    fn samples_of(&mut self, operation: i64) -> Result<Vec<OperationSample>> {
        let found = self.ask_one("SELECT samples FROM operations WHERE id = $1", &[&operation])?;
        let samples = found.map(|row| packed_json_or_none(&row, 0, "samples")).transpose()?;
        Ok(samples.flatten().unwrap_or_default())
    }

    fn put_samples(&mut self, operation: i64, samples: &[OperationSample]) -> Result<()> {
        let samples = encode(json(&samples)?.as_bytes());
        self.run("UPDATE operations SET samples = $2 WHERE id = $1", &[&operation, &samples])?;
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
        if self.item_stood(operation, run)?.is_some() {
            return Ok(false);
        }
        self.items.stood.insert((operation, run), Some(stood));
        let outcome = position(ItemOutcome::ALL, &outcome);
        self.items.new.push((operation, run, outcome, why.map(str::to_owned), stood));
        Ok(true)
    }

    fn move_item(
        &mut self,
        operation: i64,
        run: i64,
        from: ItemOutcome,
        to: ItemOutcome,
        why: Option<&str>,
    ) -> Result<bool> {
        if !self.items.outcomes.contains_key(&(operation, run)) {
            self.read_items(operation, &[run])?;
        }
        let [to, from] = [to, from].map(|outcome| position(ItemOutcome::ALL, &outcome));
        let Some(at) = self.items.outcomes.get_mut(&(operation, run)).filter(|at| **at == from) else {
            return Ok(false);
        };
        *at = to;
        self.items.moved.push((operation, run, to, why.map(str::to_owned)));
        Ok(true)
    }

    fn runs_as_they_stand(&mut self, operation: i64, runs: &[i64]) -> Result<ReadRuns<RunRow>> {
        self.read_items(operation, runs)?;
        self.read_many_unlocked(runs)
    }

    fn lock_items(&mut self, operation: i64, runs: &[i64]) -> Result<()> {
        self.lock_runs(runs)?;
        self.read_items(operation, runs)?;
        // Read under the lock: otherwise a worker may write a step afterwards that a later command of this batch must see.
        let sql = "SELECT DISTINCT run FROM steps WHERE run = ANY($1)";
        let with_steps = self.ask(sql, &[&runs])?.iter().map(|row| number(row, 0)).collect::<Result<HashSet<_>>>()?;
        self.unit.no_steps.extend(runs.iter().copied().filter(|run| !with_steps.contains(run)));
        Ok(())
    }

    fn still_match(&mut self, filter: &RunFilter, made_at: Timestamp, runs: &[i64]) -> Result<HashSet<i64>> {
        self.write_out()?;
        self.connection.snapshot(async |snapshot| matching(&snapshot, filter, made_at, runs).await)
    }

    fn release_claims(&mut self, of: Option<&str>) -> Result<()> {
        let sql = "UPDATE operations SET held_until = 0 WHERE open = 1 AND holder = coalesce($1, holder)";
        self.run(sql, &[&of])?;
        Ok(())
    }

    fn patterns_moved(&mut self, row: &OperationRow, most: usize) -> Result<Vec<i64>> {
        let sql = "SELECT DISTINCT runs.pattern FROM operation_items AS item JOIN runs ON runs.id = item.run
             WHERE item.operation = $1 AND item.run <= $2 AND runs.pattern IS NOT NULL LIMIT $3";
        let most = limit(most);
        self.ask_after(sql, &[&row.id, &row.moved_to, &most])?.iter().map(|row| number(row, 0)).collect()
    }

    fn runs_of_pattern(&mut self, pattern: i64, after: i64, most: u64) -> Result<Vec<NamedRun>> {
        let sql = "SELECT tenants.name, runs.run_id FROM runs JOIN tenants ON tenants.id = runs.tenant
             WHERE runs.pattern = $1 AND runs.id > $2 ORDER BY runs.id LIMIT $3";
        let found = self.ask_after(sql, &[&pattern, &after, &limit(most)])?;
        let named = |row| Ok(NamedRun { tenant: parsed(row, 0, "tenant")?, run_id: parsed(row, 1, "run_id")? });
        found.iter().map(named).collect()
    }
}

/// The state of an item's run when the set was frozen, in the columns after its number.
fn stood(row: &Row) -> Result<FrozenState> {
    Ok(FrozenState {
        state: word(StateName::ALL, number(row, 1)?, "state")?,
        attempt: whole(row, 2, "attempt")?,
        decisions: whole(row, 3, "decisions")?,
    })
}

/// Items that a batch has read and changed; they are written with the operation's row.
#[derive(Default)]
pub(crate) struct ItemCache {
    stood: HashMap<(i64, i64), Option<FrozenState>>,
    outcomes: HashMap<(i64, i64), i64>,
    new: Vec<(i64, i64, i64, Option<String>, FrozenState)>,
    moved: Vec<(i64, i64, i64, Option<String>)>,
}

impl PgRows<'_> {
    fn item_stood(&mut self, operation: i64, run: i64) -> Result<Option<FrozenState>> {
        if let Some(known) = self.items.stood.get(&(operation, run)) {
            return Ok(*known);
        }
        self.read_items(operation, &[run])?;
        Ok(self.items.stood.get(&(operation, run)).copied().flatten())
    }

    fn read_items(&mut self, operation: i64, runs: &[i64]) -> Result<()> {
        self.write_items()?;
        // One index lookup each: with `= ANY` the planner read all items of the operation.
        let sql = "SELECT item.* FROM unnest($2::bigint[]) AS q(q_run) CROSS JOIN LATERAL (
                 SELECT run, state, attempt, decisions, outcome FROM operation_items
                 WHERE operation = $1 AND run >= q_run AND run <= q_run ORDER BY run LIMIT 1) AS item";
        let found = self.ask(sql, &[&operation, &runs])?;
        for run in runs {
            self.items.stood.entry((operation, *run)).or_insert(None);
        }
        for row in &found {
            let at = (operation, number(row, 0)?);
            self.items.stood.insert(at, Some(stood(row)?));
            self.items.outcomes.insert(at, number(row, 4)?);
        }
        Ok(())
    }

    fn write_items(&mut self) -> Result<()> {
        let new = std::mem::take(&mut self.items.new);
        if !new.is_empty() {
            let sql = "INSERT INTO operation_items (operation, run, outcome, why, state, attempt, decisions)
                 SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]),
                     unnest($5::bigint[]), unnest($6::bigint[]), unnest($7::bigint[])";
            self.connection.execute(
                sql,
                &[
                    &*column(&new, |item| item.0),
                    &*column(&new, |item| item.1),
                    &*column(&new, |item| item.2),
                    &*column(&new, |item| item.3.as_deref()),
                    &*column(&new, |item| position(StateName::ALL, &item.4.state)),
                    &*column(&new, |item| i64::from(item.4.attempt)),
                    &*column(&new, |item| i64::from(item.4.decisions)),
                ],
            )?;
        }
        let moved = std::mem::take(&mut self.items.moved);
        if !moved.is_empty() {
            let sql = "UPDATE operation_items AS item SET outcome = new.outcome, why = new.why
                 FROM (SELECT unnest($1::bigint[]) AS operation, unnest($2::bigint[]) AS run,
                     unnest($3::bigint[]) AS outcome, unnest($4::text[]) AS why) AS new
                 WHERE item.operation = new.operation AND item.run = new.run";
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [
                &*column(&moved, |item| item.0),
                &*column(&moved, |item| item.1),
                &*column(&moved, |item| item.2),
                &*column(&moved, |item| item.3.as_deref()),
            ];
            self.connection.execute(sql, &values)?;
        }
        Ok(())
    }
}
