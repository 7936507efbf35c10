//! The ledger's rows: steps begun, done, failed, or left without an outcome.

use redrive_core::lifecycle::Effect;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{PayloadOmitted, StepStatus, StepView};
use rusqlite::{OptionalExtension, Row, params};

use crate::codec::decode;
use crate::error::{Error, Result};
use crate::model::NewStep;
use crate::sqlite::batch::Batch;
use crate::sqlite::life::{position, word};
use crate::sqlite::rows::RunRow;

/// A step as its row holds it.
#[derive(Debug, Clone)]
pub(super) struct StepRow {
    pub(super) id: i64,
    pub(super) run: i64,
    pub(super) attempt: u32,
    pub(super) epoch: u64,
    pub(super) key: String,
    pub(super) name: String,
    pub(super) effect: bool,
    pub(super) status: StepStatus,
    pub(super) at: Timestamp,
    output: Option<Vec<u8>>,
    omitted: Option<PayloadOmitted>,
}

const COLUMNS: &str = "id, run, attempt, epoch, key, name, effect, status, at, output, omitted_bytes, omitted_sha256";

impl StepRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let omitted_bytes: Option<u64> = row.get("omitted_bytes")?;
        let sha256: Option<String> = row.get("omitted_sha256")?;
        Ok(Self {
            id: row.get("id")?,
            run: row.get("run")?,
            attempt: row.get("attempt")?,
            epoch: row.get::<_, i64>("epoch")?.cast_unsigned(),
            key: row.get("key")?,
            name: row.get("name")?,
            effect: row.get("effect")?,
            status: word(StepStatus::ALL, row.get("status")?, "step status")?,
            at: Timestamp::from_millis(row.get("at")?),
            output: row.get("output")?,
            omitted: omitted_bytes
                .map(|bytes| PayloadOmitted { bytes, sha256: Label::from(sha256.as_deref().unwrap_or_default()) }),
        })
    }

    pub(super) fn view(self, replayed: bool) -> Result<StepView> {
        let output = self.output.map(|stored| decode(&stored)).transpose()?;
        let token = output.map(String::from_utf8).transpose().map_err(|_| damaged("output"))?;
        let output = token.map(serde_json::value::RawValue::from_string).transpose().map_err(|_| damaged("output"))?;
        Ok(StepView {
            name: Label::from(self.name.as_str()),
            key: self.key.parse().map_err(|_| damaged("key"))?,
            effect: self.effect,
            status: self.status,
            output,
            output_omitted: self.omitted,
            attempt: self.attempt,
            at: self.at,
            replayed,
        })
    }
}

fn damaged(what: &str) -> Error {
    Error::Unexpected(format!("a step's {what} can't be read"))
}

impl Batch<'_> {
    /// The step that a worker means: by the effect's own key over all runs of the tenant, otherwise within the run.
    pub(super) fn find_step(&mut self, row: &RunRow, step: &NewStep, key: &str) -> Result<Option<StepRow>> {
        if step.effect && step.key.is_some() {
            let mut find = self.conn.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM steps WHERE tenant = ?1 AND key = ?2 AND effect = 1 AND named = 1"
            ))?;
            let mut rows = find.query(params![row.tenant, key])?;
            if let Some(found) = rows.next()? {
                return StepRow::read(found).map(Some);
            }
        }
        let mut find = self.conn.prepare_cached(&format!("SELECT {COLUMNS} FROM steps WHERE run = ?1 AND key = ?2"))?;
        let mut rows = find.query(params![row.id, key])?;
        rows.next()?.map(StepRow::read).transpose()
    }

    pub(super) fn insert_step(
        &mut self,
        row: &RunRow,
        attempt: u32,
        epoch: u64,
        key: &str,
        step: &NewStep,
    ) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO steps (tenant, run, attempt, epoch, key, named, name, effect, status, at, output, omitted_bytes,
                 omitted_sha256) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?;
        insert.execute(params![
            row.tenant,
            row.id,
            attempt,
            epoch.cast_signed(),
            key,
            step.key.is_some(),
            step.name.as_str(),
            step.effect,
            position(StepStatus::ALL, &step.status),
            self.now.as_millis(),
            step.output,
            step.output_omitted.as_ref().map(|omitted| omitted.bytes),
            step.output_omitted.as_ref().map(|omitted| omitted.sha256.as_str()),
        ])?;
        Ok(())
    }

    /// Moves a step on: begun anew by another attempt, or given its outcome.
    pub(super) fn update_step(&mut self, id: i64, attempt: u32, epoch: u64, step: &NewStep) -> Result<()> {
        let mut update = self.conn.prepare_cached(
            "UPDATE steps SET attempt = ?2, epoch = ?3, status = ?4, at = ?5, output = ?6, omitted_bytes = ?7,
                 omitted_sha256 = ?8 WHERE id = ?1",
        )?;
        update.execute(params![
            id,
            attempt,
            epoch.cast_signed(),
            position(StepStatus::ALL, &step.status),
            self.now.as_millis(),
            step.output,
            step.output_omitted.as_ref().map(|omitted| omitted.bytes),
            step.output_omitted.as_ref().map(|omitted| omitted.sha256.as_str()),
        ])?;
        Ok(())
    }

    pub(super) fn run_name(&mut self, run: i64) -> Result<String> {
        let mut find = self.conn.prepare_cached("SELECT run_id FROM runs WHERE id = ?1")?;
        Ok(find.query_row([run], |row| row.get(0)).optional()?.unwrap_or_default())
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
        let mut update =
            self.conn.prepare_cached("UPDATE steps SET status = ?2 WHERE run = ?1 AND effect = 1 AND status = ?3")?;
        let (unknown, started) = (StepStatus::Unknown, StepStatus::Started);
        update.execute(params![run, position(StepStatus::ALL, &unknown), position(StepStatus::ALL, &started)])?;
        Ok(())
    }
}
