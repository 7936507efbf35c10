//! The ledger: steps are read and written one by one, since few attempts report any. Open effects that become unknown wait for
//! the end of the batch, since every attempt ends.

use crate::shared::records::{FromRow as _, MERGED_STEPS, STEP_COLUMNS, STEP_FACTS, read_merged};
use std::sync::LazyLock;

use redrive_core::ids::CallId;
use redrive_core::ledger::EntryState;
use redrive_core::time::Timestamp;
use redrive_core::wire::StepStatus;

use crate::postgres::commit::writer_connection::Values;
use crate::postgres::rows::PgRows;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::ledger::steps::{StepRow, versions_column};
use redrive_engine::ports::rows::{
    LedgerRows, MergedStep, MovedEntry, NewEntry, SettledEntry, outcome_column, status_column,
};
use redrive_engine::runs::document::position;

static OF_RUN_BY_KEY: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {STEP_COLUMNS} FROM steps WHERE run = $1 AND key = $2"));
static OF_RUN: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {STEP_FACTS} FROM steps WHERE run = $1 ORDER BY id"));
static MERGED_OF_RUN: LazyLock<String> = LazyLock::new(|| format!("{MERGED_STEPS} $1"));
static BETWEEN: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {STEP_COLUMNS} FROM steps WHERE run = $1 AND key >= $2 AND key < $3"));
/// Locked, so that two runs that begin the same effect take turns.
static HOLDER: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {STEP_COLUMNS} FROM steps WHERE tenant = $1 AND key = $2 AND effect = 1 AND named = 1 AND holds = 1 FOR UPDATE"
    )
});
static GIVEN_UP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {STEP_COLUMNS} FROM steps WHERE tenant = $1 AND key = $2 AND effect = 1 AND named = 1 AND holds = 0
         ORDER BY at DESC, id DESC LIMIT 1"
    )
});

impl PgRows<'_> {
    fn steps(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<StepRow>> {
        self.write_doubts()?;
        self.ask(sql, values)?.iter().map(StepRow::read).collect()
    }

    /// Steps may depend on doubts that are not written yet.
    fn write_doubts(&mut self) -> Result<()> {
        if self.unit.out.doubts.is_empty() { Ok(()) } else { self.write_out() }
    }

    /// A new run has no steps in the database.
    fn has_no_steps(&self, run: i64) -> bool {
        self.unit.runs.get(&run).is_some_and(|kept| kept.new.is_some() && !kept.has_steps)
    }
}

impl LedgerRows for PgRows<'_> {
    fn step_of_run(&mut self, run: i64, key: &str) -> Result<Option<StepRow>> {
        if self.has_no_steps(run) {
            return Ok(None);
        }
        Ok(self.steps(&OF_RUN_BY_KEY, &[&run, &key])?.pop())
    }

    fn steps_of_run(&mut self, run: i64) -> Result<Vec<StepRow>> {
        if self.unit.no_steps.contains(&run) || self.has_no_steps(run) {
            return Ok(Vec::new());
        }
        self.steps(&OF_RUN, &[&run])
    }

    fn steps_between(&mut self, run: i64, from: &str, before: &str) -> Result<Vec<StepRow>> {
        self.steps(&BETWEEN, &[&run, &from, &before])
    }

    fn step_holder(&mut self, tenant: i64, key: &str) -> Result<Option<StepRow>> {
        let sql = self.locking(&HOLDER);
        Ok(self.steps(sql, &[&tenant, &key])?.pop())
    }

    fn step_given_up(&mut self, tenant: i64, key: &str) -> Result<Option<StepRow>> {
        Ok(self.steps(&GIVEN_UP, &[&tenant, &key])?.pop())
    }

    fn insert_step(&mut self, new: &NewEntry<'_>, now: Timestamp) -> Result<()> {
        let sql =
            "INSERT INTO steps (tenant, run, run_id, attempt, epoch, key, named, name, effect, status, outcome, holds,
                 began_at, at, used_at, used_epoch, output, omitted_bytes, omitted_sha256, verify, versions,
                 call_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $5, $15, $16, $17, $18, $19, $20)";
        if let Some(kept) = self.unit.runs.get_mut(&new.row.id) {
            kept.has_steps = true;
        }
        self.unit.no_steps.remove(&new.row.id);
        let now = now.as_millis();
        let omitted = new.step.output_omitted.as_ref();
        let began_at = (new.state == EntryState::Started).then_some(now);
        self.run(
            sql,
            &[
                &new.row.tenant,
                &new.row.id,
                &new.row.run_id.as_str(),
                &i64::from(new.by.attempt),
                &new.by.epoch.cast_signed(),
                &new.key,
                &i64::from(new.step.has_own_key()),
                &new.step.name.as_str().as_bytes(),
                &i64::from(new.effect),
                &status_column(new.state),
                &outcome_column(new.state),
                &i64::from(new.holds),
                &began_at,
                &now,
                &new.step.output,
                &omitted.map(|omitted| omitted.bytes.cast_signed()),
                &omitted.map(|omitted| omitted.sha256.as_str()),
                &new.step.check,
                &versions_column(new.by.versions)?.map(String::into_bytes),
                &new.step.call_id.as_ref().map(CallId::as_str),
            ],
        )?;
        Ok(())
    }

    fn move_step(&mut self, moved: &MovedEntry<'_>, now: Timestamp) -> Result<()> {
        let sql = "UPDATE steps SET attempt = $2, epoch = $3, used_epoch = $3, effect = $4, status = $5, outcome = $6,
                 holds = $7, began_at = CASE WHEN $8::bigint = 1 THEN $9 ELSE began_at END, at = $9, used_at = $9,
                 output = $10, omitted_bytes = $11, omitted_sha256 = $12, verify = coalesce($13, verify),
                 versions = $14, settled_by = $15,
                 call_id = CASE WHEN $8::bigint = 1 THEN $17 ELSE call_id END WHERE id = $1 AND status = $16";
        let omitted = moved.step.output_omitted.as_ref();
        let changed = self.run(
            sql,
            &[
                &moved.found.id,
                &i64::from(moved.by.attempt),
                &moved.by.epoch.cast_signed(),
                &i64::from(moved.effect),
                &status_column(moved.state),
                &outcome_column(moved.state),
                &i64::from(moved.holds),
                &i64::from(moved.state == EntryState::Started),
                &now.as_millis(),
                &moved.step.output,
                &omitted.map(|omitted| omitted.bytes.cast_signed()),
                &omitted.map(|omitted| omitted.sha256.as_str()),
                &moved.step.check,
                &versions_column(moved.by.versions)?.map(String::into_bytes),
                &moved.settled_by,
                &status_column(moved.found.state),
                &moved.step.call_id.as_ref().map(CallId::as_str),
            ],
        )?;
        exactly_one(changed)
    }

    fn settle_step(&mut self, settled: &SettledEntry<'_>, now: Timestamp) -> Result<()> {
        let sql = "UPDATE steps SET status = $2, outcome = $3, holds = least(holds, $4), at = $5, used_at = $5,
                 output = $6, omitted_bytes = $7, omitted_sha256 = $8, settled_by = $9 WHERE id = $1 AND status = $10";
        let changed = self.run(
            sql,
            &[
                &settled.found.id,
                &status_column(settled.state),
                &outcome_column(settled.state),
                &i64::from(settled.state.holds()),
                &now.as_millis(),
                &settled.output,
                &settled.omitted.map(|omitted| omitted.bytes.cast_signed()),
                &settled.omitted.map(|omitted| omitted.sha256.as_str()),
                &settled.actor,
                &status_column(settled.found.state),
            ],
        )?;
        exactly_one(changed)
    }

    fn touch_step(&mut self, found: &StepRow, epoch: u64, now: Timestamp) -> Result<()> {
        let sql = "UPDATE steps SET used_at = $2, used_epoch = $3 WHERE id = $1";
        self.run(sql, &[&found.id, &now.as_millis(), &epoch.cast_signed()])?;
        Ok(())
    }

    fn doubt_open_effects(&mut self, run: i64, now: Timestamp) -> Result<()> {
        // The row counts open effects.
        let none = self.unit.runs.get(&run).is_some_and(|kept| kept.row.run.effects.open == 0 && !kept.has_steps);
        if !none {
            self.unit.out.doubts.insert(run, now.as_millis());
        }
        Ok(())
    }

    fn do_step_again(&mut self, run: i64, key: &str) -> Result<()> {
        let sql = "UPDATE steps SET status = $3, outcome = NULL WHERE run = $1 AND key = $2 AND effect = 0";
        self.run(sql, &[&run, &key, &position(StepStatus::ALL, &StepStatus::Failed)])?;
        Ok(())
    }

    fn merged_steps(&mut self, run: i64) -> Result<Vec<MergedStep>> {
        self.ask(&MERGED_OF_RUN, &[&run])?.iter().map(read_merged).collect()
    }

    fn put_merged_step(&mut self, merged: &MergedStep) -> Result<()> {
        let sql = "INSERT INTO merged_steps (step, run, from_run, at, own_status, own_outcome)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (step) DO UPDATE SET at = excluded.at";
        let MergedStep { step, run, from, at, own } = merged;
        let (status, outcome) = (own.map(status_column), own.and_then(outcome_column));
        self.run(sql, &[step, run, from, &at.as_millis(), &status, &outcome])?;
        Ok(())
    }

    fn forget_merged_step(&mut self, step: i64) -> Result<()> {
        self.run("DELETE FROM merged_steps WHERE step = $1", &[&step])?;
        Ok(())
    }

    fn take_step_back(&mut self, step: i64, own: Option<EntryState>, now: Timestamp) -> Result<()> {
        self.forget_merged_step(step)?;
        let changed = match own {
            None => self.run("DELETE FROM steps WHERE id = $1", &[&step])?,
            Some(own) => {
                let sql =
                    "UPDATE steps SET status = $2, outcome = $3, holds = least(holds, $4), at = $5, output = NULL,
                     omitted_bytes = NULL, omitted_sha256 = NULL WHERE id = $1";
                let (status, outcome) = (status_column(own), outcome_column(own));
                self.run(sql, &[&step, &status, &outcome, &i64::from(own.holds()), &now.as_millis()])?
            }
        };
        exactly_one(changed)
    }
}

fn exactly_one(changed: u64) -> Result<()> {
    if changed == 1 { Ok(()) } else { Err(Error::Unexpected(format!("{changed} entries moved instead of one")).into()) }
}
