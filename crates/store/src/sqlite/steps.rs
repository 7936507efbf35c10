//! The ledger's rows: found, begun, moved on. What may move is decided in `core`; nothing here asks why.

use redrive_core::ledger::{Entry, EntryState, VersionChange, Will, versions_changed};
use redrive_core::lifecycle::Effect;
use redrive_core::plan::StepFact;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{EffectOutcome, EffectView, PayloadOmitted, RawJson, StepStatus, StepView, Versions};
use rusqlite::{Connection, Row, params};

use crate::codec::decode;
use crate::error::{Error, Result};
use crate::model::NewStep;
use crate::sqlite::attempts::json;
use crate::sqlite::batch::Batch;
use crate::sqlite::life::{position, word};
use crate::sqlite::rows::RunRow;

/// An entry as its row holds it.
#[derive(Debug, Clone)]
pub(super) struct StepRow {
    pub(super) id: i64,
    /// None when the run is gone.
    pub(super) run: Option<i64>,
    pub(super) run_id: String,
    pub(super) attempt: u32,
    pub(super) epoch: u64,
    pub(super) key: String,
    pub(super) name: String,
    pub(super) effect: bool,
    pub(super) state: EntryState,
    pub(super) began_at: Option<Timestamp>,
    pub(super) at: Timestamp,
    pub(super) used_at: Timestamp,
    pub(super) used_epoch: u64,
    pub(super) settled_by: Option<String>,
    output: Option<Vec<u8>>,
    omitted: Option<PayloadOmitted>,
    check: Option<Vec<u8>>,
    versions: Option<String>,
}

/// In the order in which [`StepRow::read`] takes them.
pub(super) const COLUMNS: &str = "id, run, run_id, attempt, epoch, key, name, effect, status, outcome, began_at, at, \
     used_at, used_epoch, settled_by, output, omitted_bytes, omitted_sha256, verify, versions";

impl StepRow {
    pub(super) fn read(row: &Row<'_>) -> Result<Self> {
        let omitted_bytes: Option<u64> = row.get(16)?;
        let sha256: Option<String> = row.get(17)?;
        let status = word(StepStatus::ALL, row.get(8)?, "step status")?;
        let outcome: Option<i64> = row.get(9)?;
        let outcome = outcome.map(|outcome| word(EffectOutcome::ALL, outcome, "effect outcome")).transpose()?;
        Ok(Self {
            id: row.get(0)?,
            run: row.get(1)?,
            run_id: row.get(2)?,
            attempt: row.get(3)?,
            epoch: row.get::<_, i64>(4)?.cast_unsigned(),
            key: row.get(5)?,
            name: row.get(6)?,
            effect: row.get(7)?,
            state: EntryState::of(status, outcome).ok_or_else(|| damaged("outcome"))?,
            began_at: row.get::<_, Option<i64>>(10)?.map(Timestamp::from_millis),
            at: Timestamp::from_millis(row.get(11)?),
            used_at: Timestamp::from_millis(row.get(12)?),
            used_epoch: row.get::<_, i64>(13)?.cast_unsigned(),
            settled_by: row.get(14)?,
            output: row.get(15)?,
            omitted: omitted_bytes
                .map(|bytes| PayloadOmitted { bytes, sha256: Label::from(sha256.as_deref().unwrap_or_default()) }),
            check: row.get(18)?,
            versions: row.get(19)?,
        })
    }

    /// As the moves of a run see it.
    pub(super) fn entry(&self, run: i64) -> Entry {
        Entry { state: self.state, effect: self.effect, epoch: self.epoch, own: self.run == Some(run) }
    }

    pub(super) fn versions(&self) -> Result<Versions> {
        let parsed = self.versions.as_deref().map(serde_json::from_str).transpose();
        Ok(parsed.map_err(|_| damaged("versions"))?.unwrap_or_default())
    }

    fn output(&self) -> Result<Option<RawJson>> {
        let output = self.output.as_deref().map(decode).transpose()?;
        let token = output.map(String::from_utf8).transpose().map_err(|_| damaged("output"))?;
        token.map(serde_json::value::RawValue::from_string).transpose().map_err(|_| damaged("output"))
    }

    fn check(&self) -> Result<Option<Text>> {
        let Some(stored) = &self.check else { return Ok(None) };
        let token = String::from_utf8(decode(stored)?).map_err(|_| damaged("check"))?;
        Text::from_token(token).map(Some).ok_or_else(|| damaged("check"))
    }

    pub(super) fn view(&self, replayed: bool) -> Result<StepView> {
        Ok(StepView {
            name: Label::from(self.name.as_str()),
            key: self.key.parse().map_err(|_| damaged("key"))?,
            effect: self.effect,
            status: self.state.status(),
            outcome: self.state.outcome(),
            output: self.output()?,
            output_omitted: self.omitted.clone(),
            check: self.check()?,
            attempt: self.attempt,
            at: self.at,
            replayed,
        })
    }

    /// As far as a plan depends on it.
    pub(super) fn fact(&self) -> Result<StepFact> {
        Ok(StepFact {
            name: Label::from(self.name.as_str()),
            key: self.key.parse().map_err(|_| damaged("key"))?,
            effect: self.effect,
            state: self.state,
            output_omitted: self.omitted.is_some(),
        })
    }

    /// The whole entry, for those who look it up.
    pub(super) fn whole(&self, tenant: &str) -> Result<EffectView> {
        let step = self.view(false)?;
        Ok(EffectView {
            tenant: tenant.parse().map_err(|_| damaged("tenant"))?,
            run_id: self.run_id.parse().map_err(|_| damaged("run"))?,
            key: step.key,
            name: step.name,
            effect: step.effect,
            status: step.status,
            outcome: step.outcome,
            output: step.output,
            output_omitted: step.output_omitted,
            check: step.check,
            attempt: step.attempt,
            versions: self.versions()?,
            started_at: self.began_at,
            at: self.at,
            last_used_at: self.used_at,
            settled_by: self.settled_by.clone(),
        })
    }
}

fn damaged(what: &str) -> Error {
    Error::Unexpected(format!("a step's {what} can't be read"))
}

/// Every entry of a run, in the order in which they began.
pub(super) fn entries_of(conn: &Connection, run: i64) -> Result<Vec<StepRow>> {
    let mut find = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM steps WHERE run = ?1 ORDER BY id"))?;
    find.query_and_then([run], StepRow::read)?.collect()
}

pub(super) fn views(entries: &[StepRow]) -> Result<Vec<StepView>> {
    entries.iter().map(|entry| entry.view(false)).collect()
}

/// Where what would be skipped was recorded under other versions than `now`.
pub(super) fn changed(entries: &[StepRow], now: &Versions) -> Result<Vec<VersionChange>> {
    Ok(versions_changed(&recorded_versions(entries)?, now))
}

/// The versions of every attempt whose work a replay would skip.
pub(super) fn recorded_versions(entries: &[StepRow]) -> Result<Vec<Versions>> {
    let skipped = entries.iter().filter(|entry| entry.state.will() == Will::Skip);
    skipped.map(StepRow::versions).collect()
}

/// The effect of a tenant that holds its key.
pub(super) fn holder(conn: &Connection, tenant: i64, key: &str) -> Result<Option<StepRow>> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM steps WHERE tenant = ?1 AND key = ?2 AND effect = 1 AND named = 1 AND holds = 1"
    ))?;
    let mut rows = find.query(params![tenant, key])?;
    rows.next()?.map(StepRow::read).transpose()
}

pub(super) fn of_run(conn: &Connection, run: i64, key: &str) -> Result<Option<StepRow>> {
    let mut find = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM steps WHERE run = ?1 AND key = ?2"))?;
    let mut rows = find.query(params![run, key])?;
    rows.next()?.map(StepRow::read).transpose()
}

/// Who moves an entry: the attempt, and the lease it is under (0 without one).
#[derive(Debug, Clone, Copy)]
pub(super) struct Mover<'a> {
    pub(super) attempt: u32,
    pub(super) epoch: u64,
    pub(super) versions: &'a Versions,
}

impl Batch<'_> {
    /// The entry that a worker means: what the run itself has done, otherwise by an effect's own key over all runs of
    /// the tenant, otherwise within the run.
    pub(super) fn find_step(&mut self, row: &RunRow, step: &NewStep, key: &str) -> Result<Option<StepRow>> {
        let own = of_run(self.conn, row.id, key)?;
        let is_done = own.as_ref().is_some_and(|own| own.state.will() == Will::Skip);
        if is_done || !is_effect(step, own.as_ref()) || step.key.is_none() {
            return Ok(own);
        }
        Ok(holder(self.conn, row.tenant, key)?.or(own))
    }

    /// A new entry of the run. `holds`: its key is this run's from now on.
    pub(super) fn insert_step(
        &mut self,
        row: &RunRow,
        by: Mover<'_>,
        key: &str,
        step: &NewStep,
        state: EntryState,
        holds: bool,
    ) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO steps (tenant, run, run_id, attempt, epoch, key, named, name, effect, status, outcome, holds,
                 began_at, at, used_at, used_epoch, output, omitted_bytes, omitted_sha256, verify, versions)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, ?5, ?15, ?16, ?17, ?18, ?19)",
        )?;
        let now = self.now.as_millis();
        let began_at = (state == EntryState::Started).then_some(now);
        insert.execute(params![
            row.tenant,
            row.id,
            row.run_id.as_str(),
            by.attempt,
            by.epoch.cast_signed(),
            key,
            step.key.is_some(),
            step.name.as_str(),
            is_effect(step, None),
            position(StepStatus::ALL, &state.status()),
            outcome_column(state),
            holds && state.holds(),
            began_at,
            now,
            step.output,
            step.output_omitted.as_ref().map(|omitted| omitted.bytes),
            step.output_omitted.as_ref().map(|omitted| omitted.sha256.as_str()),
            step.check,
            versions_column(by.versions)?,
        ])?;
        Ok(())
    }

    /// Moves an entry on by a worker's word; the check stays unless another is declared.
    pub(super) fn move_step(
        &mut self,
        found: &StepRow,
        by: Mover<'_>,
        step: &NewStep,
        state: EntryState,
        holds: bool,
    ) -> Result<()> {
        let mut update = self.conn.prepare_cached(
            "UPDATE steps SET attempt = ?2, epoch = ?3, used_epoch = ?3, effect = ?4, status = ?5,
                 outcome = ?6, holds = ?7, began_at = CASE WHEN ?8 THEN ?9 ELSE began_at END, at = ?9, used_at = ?9,
                 output = ?10, omitted_bytes = ?11, omitted_sha256 = ?12, verify = coalesce(?13, verify),
                 versions = ?14, settled_by = ?15 WHERE id = ?1 AND status = ?16",
        )?;
        let changed = update.execute(params![
            found.id,
            by.attempt,
            by.epoch.cast_signed(),
            is_effect(step, Some(found)),
            position(StepStatus::ALL, &state.status()),
            outcome_column(state),
            holds && state.holds(),
            state == EntryState::Started,
            self.now.as_millis(),
            step.output,
            step.output_omitted.as_ref().map(|omitted| omitted.bytes),
            step.output_omitted.as_ref().map(|omitted| omitted.sha256.as_str()),
            step.check,
            versions_column(by.versions)?,
            state.outcome().map(|_| WORKER),
            position(StepStatus::ALL, &found.state.status()),
        ])?;
        exactly_one(changed)
    }

    /// What a person knows of an entry; who began it stays on record.
    pub(super) fn settle_step(
        &mut self,
        found: &StepRow,
        state: EntryState,
        output: (Option<&[u8]>, Option<&PayloadOmitted>),
        actor: &str,
    ) -> Result<()> {
        let mut update = self.conn.prepare_cached(
            "UPDATE steps SET status = ?2, outcome = ?3, holds = min(holds, ?4), at = ?5, used_at = ?5, output = ?6,
                 omitted_bytes = ?7, omitted_sha256 = ?8, settled_by = ?9 WHERE id = ?1 AND status = ?10",
        )?;
        let (output, omitted) = output;
        let changed = update.execute(params![
            found.id,
            position(StepStatus::ALL, &state.status()),
            outcome_column(state),
            state.holds(),
            self.now.as_millis(),
            output,
            omitted.map(|omitted| omitted.bytes),
            omitted.map(|omitted| omitted.sha256.as_str()),
            actor,
            position(StepStatus::ALL, &found.state.status()),
        ])?;
        exactly_one(changed)
    }

    /// An entry was given back, or met again: it is in use, and this attempt has had it.
    pub(super) fn touch_step(&mut self, found: &StepRow, epoch: u64) -> Result<()> {
        let mut update = self.conn.prepare_cached("UPDATE steps SET used_at = ?2, used_epoch = ?3 WHERE id = ?1")?;
        update.execute(params![found.id, self.now.as_millis(), epoch.cast_signed()])?;
        Ok(())
    }

    /// Does what a move asks beside keeping the run.
    pub(super) fn carry_out(&mut self, row: &RunRow, effects: &[Effect]) -> Result<()> {
        for effect in effects {
            match effect {
                Effect::DoubtOpenEffects => self.doubt_open_effects(row.id)?,
                Effect::Wake => self.wake = true,
                // Whoever ends an attempt keeps its record: only they have its body.
                Effect::AttemptEnded { .. } => {}
            }
        }
        Ok(())
    }

    fn doubt_open_effects(&mut self, run: i64) -> Result<()> {
        let mut update = self
            .conn
            .prepare_cached("UPDATE steps SET status = ?2, at = ?4 WHERE run = ?1 AND effect = 1 AND status = ?3")?;
        let number = |status| position(StepStatus::ALL, &status);
        update.execute([run, number(StepStatus::Unknown), number(StepStatus::Started), self.now.as_millis()])?;
        Ok(())
    }
}

/// Once an effect, always one; what does not say is what it was, and a new one is an effect.
pub(super) fn is_effect(step: &NewStep, recorded: Option<&StepRow>) -> bool {
    let before = recorded.map(|recorded| recorded.effect);
    before == Some(true) || step.effect.or(before).unwrap_or(true)
}

/// Who settles a doubt under a lease.
pub(super) const WORKER: &str = "worker";

fn outcome_column(state: EntryState) -> Option<i64> {
    state.outcome().map(|outcome| position(EffectOutcome::ALL, &outcome))
}

fn versions_column(versions: &Versions) -> Result<Option<String>> {
    if versions.is_empty() { Ok(None) } else { json(versions).map(Some) }
}

fn exactly_one(changed: usize) -> Result<()> {
    if changed == 1 { Ok(()) } else { Err(Error::Unexpected(format!("{changed} entries moved instead of one"))) }
}
