//! Steps and effects.

use crate::shared::records::{FromRow as _, MERGED_STEPS, STEP_COLUMNS, STEP_FACTS, read_merged};
use redrive_core::ids::CallId;
use redrive_core::ledger::EntryState;
use redrive_core::time::Timestamp;
use redrive_core::wire::StepStatus;
use rusqlite::{Params, params};

use crate::sqlite::rows::SqliteRows;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::ledger::steps::{StepRow, versions_column};
use redrive_engine::ports::rows::{
    LedgerRows, MergedStep, MovedEntry, NewEntry, SettledEntry, outcome_column, status_column,
};
use redrive_engine::runs::document::position;

impl SqliteRows<'_> {
    fn step(&self, condition: &str, values: impl Params) -> Result<Option<StepRow>> {
        let mut find = self.conn.prepare_cached(&format!("SELECT {STEP_COLUMNS} FROM steps WHERE {condition}"))?;
        let mut rows = find.query(values)?;
        rows.next()?.map(StepRow::read).transpose()
    }
}

impl LedgerRows for SqliteRows<'_> {
    fn step_of_run(&mut self, run: i64, key: &str) -> Result<Option<StepRow>> {
        self.step("run = ?1 AND key = ?2", params![run, key])
    }

    fn steps_of_run(&mut self, run: i64) -> Result<Vec<StepRow>> {
        let mut find =
            self.conn.prepare_cached(&format!("SELECT {STEP_FACTS} FROM steps WHERE run = ?1 ORDER BY id"))?;
        find.query_and_then([run], |row| StepRow::read(row))?.collect()
    }

    fn steps_between(&mut self, run: i64, from: &str, before: &str) -> Result<Vec<StepRow>> {
        let mut find = self
            .conn
            .prepare_cached(&format!("SELECT {STEP_COLUMNS} FROM steps WHERE run = ?1 AND key >= ?2 AND key < ?3"))?;
        find.query_and_then(params![run, from, before], |row| StepRow::read(row))?.collect()
    }

    fn step_holder(&mut self, tenant: i64, key: &str) -> Result<Option<StepRow>> {
        let holds = "tenant = ?1 AND key = ?2 AND effect = 1 AND named = 1 AND holds = 1";
        self.step(holds, params![tenant, key])
    }

    fn step_given_up(&mut self, tenant: i64, key: &str) -> Result<Option<StepRow>> {
        let gave_up = "tenant = ?1 AND key = ?2 AND effect = 1 AND named = 1 AND holds = 0
             ORDER BY at DESC, id DESC LIMIT 1";
        self.step(gave_up, params![tenant, key])
    }

    fn insert_step(&mut self, new: &NewEntry<'_>, now: Timestamp) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO steps (tenant, run, run_id, attempt, epoch, key, named, name, effect, status, outcome, holds,
                 began_at, at, used_at, used_epoch, output, omitted_bytes, omitted_sha256, verify, versions,
                 call_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, ?5, ?15, ?16, ?17, ?18, ?19,
                 ?20)",
        )?;
        let now = now.as_millis();
        let omitted = new.step.output_omitted.as_ref();
        insert.execute(params![
            new.row.tenant,
            new.row.id,
            new.row.run_id.as_str(),
            new.by.attempt,
            new.by.epoch.cast_signed(),
            new.key,
            new.step.has_own_key(),
            new.step.name.as_str(),
            new.effect,
            status_column(new.state),
            outcome_column(new.state),
            new.holds,
            (new.state == EntryState::Started).then_some(now),
            now,
            new.step.output,
            omitted.map(|omitted| omitted.bytes),
            omitted.map(|omitted| omitted.sha256.as_str()),
            new.step.check,
            versions_column(new.by.versions)?,
            new.step.call_id.as_ref().map(CallId::as_str),
        ])?;
        Ok(())
    }

    fn move_step(&mut self, moved: &MovedEntry<'_>, now: Timestamp) -> Result<()> {
        let mut update = self.conn.prepare_cached(
            "UPDATE steps SET attempt = ?2, epoch = ?3, used_epoch = ?3, effect = ?4, status = ?5,
                 outcome = ?6, holds = ?7, began_at = CASE WHEN ?8 THEN ?9 ELSE began_at END, at = ?9, used_at = ?9,
                 output = ?10, omitted_bytes = ?11, omitted_sha256 = ?12, verify = coalesce(?13, verify),
                 versions = ?14, settled_by = ?15, call_id = CASE WHEN ?8 THEN ?17 ELSE call_id END
             WHERE id = ?1 AND status = ?16",
        )?;
        let omitted = moved.step.output_omitted.as_ref();
        let changed = update.execute(params![
            moved.found.id,
            moved.by.attempt,
            moved.by.epoch.cast_signed(),
            moved.effect,
            status_column(moved.state),
            outcome_column(moved.state),
            moved.holds,
            moved.state == EntryState::Started,
            now.as_millis(),
            moved.step.output,
            omitted.map(|omitted| omitted.bytes),
            omitted.map(|omitted| omitted.sha256.as_str()),
            moved.step.check,
            versions_column(moved.by.versions)?,
            moved.settled_by,
            status_column(moved.found.state),
            moved.step.call_id.as_ref().map(CallId::as_str),
        ])?;
        exactly_one(changed)
    }

    fn settle_step(&mut self, settled: &SettledEntry<'_>, now: Timestamp) -> Result<()> {
        let mut update = self.conn.prepare_cached(
            "UPDATE steps SET status = ?2, outcome = ?3, holds = min(holds, ?4), at = ?5, used_at = ?5, output = ?6,
                 omitted_bytes = ?7, omitted_sha256 = ?8, settled_by = ?9 WHERE id = ?1 AND status = ?10",
        )?;
        let changed = update.execute(params![
            settled.found.id,
            status_column(settled.state),
            outcome_column(settled.state),
            settled.state.holds(),
            now.as_millis(),
            settled.output,
            settled.omitted.map(|omitted| omitted.bytes),
            settled.omitted.map(|omitted| omitted.sha256.as_str()),
            settled.actor,
            status_column(settled.found.state),
        ])?;
        exactly_one(changed)
    }

    fn touch_step(&mut self, found: &StepRow, epoch: u64, now: Timestamp) -> Result<()> {
        let mut update = self.conn.prepare_cached("UPDATE steps SET used_at = ?2, used_epoch = ?3 WHERE id = ?1")?;
        update.execute(params![found.id, now.as_millis(), epoch.cast_signed()])?;
        Ok(())
    }

    fn doubt_open_effects(&mut self, run: i64, now: Timestamp) -> Result<()> {
        let mut update = self
            .conn
            .prepare_cached("UPDATE steps SET status = ?2, at = ?4 WHERE run = ?1 AND effect = 1 AND status = ?3")?;
        let number = |status| position(StepStatus::ALL, &status);
        update.execute([run, number(StepStatus::Unknown), number(StepStatus::Started), now.as_millis()])?;
        Ok(())
    }

    /// The statement guards it: no effect is taken back.
    fn do_step_again(&mut self, run: i64, key: &str) -> Result<()> {
        let mut update = self.conn.prepare_cached(
            "UPDATE steps SET status = ?3, outcome = NULL WHERE run = ?1 AND key = ?2 AND effect = 0",
        )?;
        update.execute(params![run, key, position(StepStatus::ALL, &StepStatus::Failed)])?;
        Ok(())
    }

    fn merged_steps(&mut self, run: i64) -> Result<Vec<MergedStep>> {
        let mut find = self.conn.prepare_cached(&format!("{MERGED_STEPS} ?1"))?;
        find.query_and_then([run], |row| read_merged(row))?.collect()
    }

    fn put_merged_step(&mut self, merged: &MergedStep) -> Result<()> {
        let mut put = self.conn.prepare_cached(
            "INSERT INTO merged_steps (step, run, from_run, at, own_status, own_outcome) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO UPDATE SET at = excluded.at",
        )?;
        let MergedStep { step, run, from, at, own } = merged;
        put.execute(params![step, run, from, at.as_millis(), own.map(status_column), own.and_then(outcome_column)])?;
        Ok(())
    }

    fn forget_merged_step(&mut self, step: i64) -> Result<()> {
        self.conn.prepare_cached("DELETE FROM merged_steps WHERE step = ?1")?.execute([step])?;
        Ok(())
    }

    fn take_step_back(&mut self, step: i64, own: Option<EntryState>, now: Timestamp) -> Result<()> {
        self.forget_merged_step(step)?;
        let changed = match own {
            None => self.conn.prepare_cached("DELETE FROM steps WHERE id = ?1")?.execute([step])?,
            Some(own) => {
                let mut update = self.conn.prepare_cached(
                    "UPDATE steps SET status = ?2, outcome = ?3, holds = min(holds, ?4), at = ?5, output = NULL,
                         omitted_bytes = NULL, omitted_sha256 = NULL WHERE id = ?1",
                )?;
                let (status, outcome) = (status_column(own), outcome_column(own));
                update.execute(params![step, status, outcome, own.holds(), now.as_millis()])?
            }
        };
        exactly_one(changed)
    }
}

fn exactly_one(changed: usize) -> Result<()> {
    if changed == 1 { Ok(()) } else { Err(Error::Unexpected(format!("{changed} entries moved instead of one")).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::rows::WriterCache;
    use crate::sqlite::tests::fixture::{Fixture, Seed};

    #[test]
    fn plans_read_no_outputs_of_steps() {
        let fixture = Fixture::with([Seed::default()]);
        let insert = "INSERT INTO steps (tenant, run, run_id, attempt, epoch, key, named, name, effect, status, holds, at, used_at,
            used_epoch, verify, output) VALUES (1, 1, 'r', 1, 1, 'k', 1, 'n', 1, 1, 1, 0, 0, 1, x'00', x'00')";
        fixture.conn.execute(insert, []).unwrap();
        let mut memory = WriterCache::default();
        let mut rows = SqliteRows::new(&fixture.conn, &mut memory);
        let read = rows.steps_of_run(1).unwrap();
        assert_eq!(
            read.iter().map(|step| (step.output.is_some(), step.check.is_some())).collect::<Vec<_>>(),
            [(false, false)]
        );
        let whole = rows.step_of_run(1, "k").unwrap().unwrap();
        assert!(whole.output.is_some() && whole.check.is_some());
    }
}
