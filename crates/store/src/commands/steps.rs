//! Entries of the ledger: found, begun, moved on. What may move is decided in `core`; nothing here asks why.

use redrive_core::ids::CallId;
use redrive_core::ledger::{Call, Entry, EntryState, VersionChange, Will, versions_changed};
use redrive_core::lifecycle::Effect;
use redrive_core::plan::StepFact;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{EffectOutcome, EffectView, PayloadOmitted, RawJson, StepStatus, StepView, Versions};

use crate::codec::decode;
use crate::commands::attempts::json;
use crate::commands::batch::Batch;
use crate::commands::life::word;
use crate::commands::rows::MergedStep;
use crate::commands::run_row::RunRow;
use crate::error::{Error, Result};
use crate::kept::columns::{Columns, flag, label_or_none, number, owned, owned_or_none, time, time_or_none, whole};
use crate::model::NewStep;

/// An entry as its row holds it.
#[derive(Debug, Clone)]
pub(crate) struct StepRow {
    pub(crate) id: i64,
    /// None when the run is gone.
    pub(crate) run: Option<i64>,
    pub(crate) run_id: String,
    pub(crate) attempt: u32,
    pub(crate) epoch: u64,
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) effect: bool,
    pub(crate) state: EntryState,
    pub(crate) began_at: Option<Timestamp>,
    pub(crate) at: Timestamp,
    pub(crate) used_at: Timestamp,
    pub(crate) used_epoch: u64,
    pub(crate) settled_by: Option<String>,
    pub(crate) output: Option<Vec<u8>>,
    pub(crate) omitted: Option<PayloadOmitted>,
    pub(crate) check: Option<Vec<u8>>,
    pub(crate) versions: Option<String>,
    /// Of the call that began it.
    pub(crate) call_id: Option<String>,
}

/// The columns of [`StepRow::read`].
pub(crate) const COLUMNS: &str = "id, run, run_id, attempt, epoch, key, name, effect, status, outcome, began_at, at, \
     used_at, used_epoch, settled_by, output, omitted_bytes, omitted_sha256, verify, versions, call_id";

/// The same without outputs and checks, which may be large: what a plan is made from.
pub(crate) const FACTS: &str = "id, run, run_id, attempt, epoch, key, name, effect, status, outcome, began_at, at, \
     used_at, used_epoch, settled_by, CAST(NULL AS BYTEA), omitted_bytes, omitted_sha256, CAST(NULL AS BYTEA), versions, call_id";
/// Of what [`crate::kept::pages::sized`] reads; a condition follows.
pub(crate) const SIZES: &str = "SELECT id, CAST(length(output) AS BIGINT), substr(output, 1, 5) FROM steps";
/// Of what [`recorded`] reads; a condition follows, and so many at most.
pub(crate) const RECORDED: &str = "SELECT DISTINCT status, outcome, versions FROM steps";
pub(crate) const RECORDED_MAX: i64 = 1_000;

/// The versions under which work was recorded that a replay would skip.
pub(crate) fn recorded(row: &impl Columns) -> Result<Option<Versions>> {
    if state(row, 0, 1)?.will() != Will::Skip {
        return Ok(None);
    }
    let versions = owned(row, 2)?;
    serde_json::from_str(&versions).map(Some).map_err(|_| damaged("versions"))
}

fn state(row: &impl Columns, status: usize, outcome: usize) -> Result<EntryState> {
    let status = word(StepStatus::ALL, number(row, status)?, "step status")?;
    let outcome = row.number_or_none(outcome)?.map(|outcome| word(EffectOutcome::ALL, outcome, "effect outcome"));
    EntryState::of(status, outcome.transpose()?).ok_or_else(|| damaged("outcome"))
}

/// The columns of [`read_merged`].
pub(crate) const MERGED: &str =
    "SELECT step, run, from_run, at, own_status, own_outcome FROM merged_steps WHERE run = ";

pub(crate) fn read_merged(row: &impl Columns) -> Result<MergedStep> {
    let own = row.number_or_none(4)?.map(|_| state(row, 4, 5)).transpose()?;
    Ok(MergedStep { step: number(row, 0)?, run: number(row, 1)?, from: number(row, 2)?, at: time(row, 3)?, own })
}

impl StepRow {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        let sha256 = label_or_none(row, 17)?;
        let omitted = row.number_or_none(16)?.map(|bytes| PayloadOmitted {
            bytes: bytes.cast_unsigned(),
            sha256: sha256.unwrap_or_else(|| Label::from("")),
        });
        let kept = |at| Ok::<_, Error>(row.bytes_or_none(at)?.map(<[u8]>::to_vec));
        Ok(Self {
            id: number(row, 0)?,
            run: row.number_or_none(1)?,
            run_id: owned(row, 2)?,
            attempt: whole(row, 3, "attempt")?,
            epoch: number(row, 4)?.cast_unsigned(),
            key: owned(row, 5)?,
            name: owned(row, 6)?,
            effect: flag(row, 7)?,
            state: state(row, 8, 9)?,
            began_at: time_or_none(row, 10)?,
            at: time(row, 11)?,
            used_at: time(row, 12)?,
            used_epoch: number(row, 13)?.cast_unsigned(),
            settled_by: owned_or_none(row, 14)?,
            output: kept(15)?,
            omitted,
            check: kept(18)?,
            versions: owned_or_none(row, 19)?,
            call_id: owned_or_none(row, 20)?,
        })
    }

    /// As the moves of a run see it, when `step` is reported.
    pub(crate) fn entry(&self, run: i64, step: &NewStep) -> Entry {
        let call = match &step.call_id {
            None => Call::Unnamed,
            Some(_) if self.is_of(step.call_id.as_ref()) => Call::Same,
            Some(_) => Call::Other,
        };
        Entry {
            state: self.state,
            effect: self.effect,
            epoch: self.epoch,
            own: self.run == Some(run),
            call,
            becomes_effect: !self.effect && step.effect == Some(true),
        }
    }

    pub(crate) fn is_of(&self, call: Option<&CallId>) -> bool {
        call.is_some_and(|call| self.call_id.as_deref() == Some(call.as_str()))
    }

    pub(crate) fn versions(&self) -> Result<Versions> {
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

    pub(crate) fn view(&self, replayed: bool) -> Result<StepView> {
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
    pub(crate) fn fact(&self) -> Result<StepFact> {
        Ok(StepFact {
            name: Label::from(self.name.as_str()),
            key: self.key.parse().map_err(|_| damaged("key"))?,
            effect: self.effect,
            state: self.state,
            output_omitted: self.omitted.is_some(),
        })
    }

    /// The whole entry, for those who look it up.
    pub(crate) fn whole(&self, tenant: &str) -> Result<EffectView> {
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

pub(crate) fn views(entries: &[StepRow]) -> Result<Vec<StepView>> {
    entries.iter().map(|entry| entry.view(false)).collect()
}

/// Where what would be skipped was recorded under other versions than `now`.
pub(crate) fn changed(entries: &[StepRow], now: &Versions) -> Result<Vec<VersionChange>> {
    Ok(versions_changed(&recorded_versions(entries)?, now))
}

/// The versions of every attempt whose work a replay would skip.
pub(crate) fn recorded_versions(entries: &[StepRow]) -> Result<Vec<Versions>> {
    let skipped = entries.iter().filter(|entry| entry.state.will() == Will::Skip);
    skipped.map(StepRow::versions).collect()
}

/// Who moves an entry: the attempt, and the lease it is under (0 without one).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mover<'a> {
    pub(crate) attempt: u32,
    pub(crate) epoch: u64,
    pub(crate) versions: &'a Versions,
}

impl Batch<'_> {
    /// The entry that a worker means: what the run itself has done, otherwise by an effect's own key over all runs of
    /// the tenant, otherwise within the run.
    pub(crate) fn find_step(&mut self, row: &RunRow, step: &NewStep, key: &str) -> Result<Option<StepRow>> {
        let own = self.rows.step_of_run(row.id, key)?;
        let is_done = own.as_ref().is_some_and(|own| own.state.will() == Will::Skip);
        if is_done || !is_effect(step, own.as_ref()) || !step.has_own_key() {
            return Ok(own);
        }
        Ok(self.rows.step_holder(row.tenant, key)?.or(own))
    }

    /// Does what a move asks beside keeping the run.
    pub(crate) fn carry_out(&mut self, row: &RunRow, effects: &[Effect]) -> Result<()> {
        for effect in effects {
            match effect {
                Effect::DoubtOpenEffects => self.rows.doubt_open_effects(row.id, self.now)?,
                Effect::Wake => self.wake = true,
                // Whoever ends an attempt keeps its record: only they have its body.
                Effect::AttemptEnded { .. } => {}
            }
        }
        Ok(())
    }
}

/// Once an effect, always one; what does not say is what it was, and a new one is an effect.
pub(crate) fn is_effect(step: &NewStep, recorded: Option<&StepRow>) -> bool {
    let before = recorded.map(|recorded| recorded.effect);
    before == Some(true) || step.effect.or(before).unwrap_or(true)
}

/// Who settles a doubt under a lease.
pub(crate) const WORKER: &str = "worker";

/// None where nobody said.
pub(crate) fn versions_column(versions: &Versions) -> Result<Option<String>> {
    if versions.is_empty() { Ok(None) } else { json(versions).map(Some) }
}
