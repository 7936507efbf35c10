//! Rows of the ledger and their views.

use redrive_core::ids::CallId;
use redrive_core::ledger::{CallMatch, Entry, EntryState, VersionChange, Will, versions_changed};
use redrive_core::lifecycle::Effect;
use redrive_core::plan::StepFact;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{EffectView, PayloadOmitted, RawJson, StepView, Versions};

use crate::codec::decode;
use crate::error::{Error, Result};
use crate::model::NewStep;
use crate::runs::attempts::json;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// A row of the ledger.
#[derive(Debug, Clone)]
pub struct StepRow {
    pub id: i64,
    /// None when the run is gone.
    pub run: Option<i64>,
    pub run_id: String,
    pub attempt: u32,
    pub epoch: u64,
    pub key: String,
    pub name: String,
    pub effect: bool,
    pub state: EntryState,
    pub began_at: Option<Timestamp>,
    pub at: Timestamp,
    pub used_at: Timestamp,
    pub used_epoch: u64,
    pub settled_by: Option<String>,
    pub output: Option<Vec<u8>>,
    pub omitted: Option<PayloadOmitted>,
    pub check: Option<Vec<u8>>,
    pub versions: Option<String>,
    /// Of the call that began it.
    pub call_id: Option<String>,
}

impl StepRow {
    /// The entry that `core` decides on when run `run` reports `step`.
    pub fn entry(&self, run: i64, step: &NewStep) -> Entry {
        let call = match &step.call_id {
            None => CallMatch::Unnamed,
            Some(_) if self.is_of(step.call_id.as_ref()) => CallMatch::Same,
            Some(_) => CallMatch::Other,
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

    pub fn is_of(&self, call: Option<&CallId>) -> bool {
        call.is_some_and(|call| self.call_id.as_deref() == Some(call.as_str()))
    }

    pub fn versions(&self) -> Result<Versions> {
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

    pub fn view(&self, replayed: bool) -> Result<StepView> {
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

    /// The parts that a plan depends on.
    pub fn fact(&self) -> Result<StepFact> {
        Ok(StepFact {
            name: Label::from(self.name.as_str()),
            key: self.key.parse().map_err(|_| damaged("key"))?,
            effect: self.effect,
            state: self.state,
            output_omitted: self.omitted.is_some(),
        })
    }

    /// The entry with its tenant and run.
    pub fn whole(&self, tenant: &str) -> Result<EffectView> {
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
    Error::Unexpected(format!("a step has an unreadable {what}"))
}

pub fn views(entries: &[StepRow]) -> Result<Vec<StepView>> {
    entries.iter().map(|entry| entry.view(false)).collect()
}

/// The versions under which skipped work was recorded, where they differ from `now`.
pub fn changed(entries: &[StepRow], now: &Versions) -> Result<Vec<VersionChange>> {
    Ok(versions_changed(&recorded_versions(entries)?, now))
}

/// The versions of every attempt whose work a replay would skip.
pub fn recorded_versions(entries: &[StepRow]) -> Result<Vec<Versions>> {
    let skipped = entries.iter().filter(|entry| entry.state.will() == Will::Skip);
    skipped.map(StepRow::versions).collect()
}

/// The attempt that reports a step. `epoch` is 0 without a lease.
#[derive(Debug, Clone, Copy)]
pub struct Mover<'a> {
    pub attempt: u32,
    pub epoch: u64,
    pub versions: &'a Versions,
}

/// The entry that a report is about: the run's own if it is done, otherwise for an effect with its own key the tenant's
/// holder of the key, otherwise the run's own.
pub fn find_step(tx: &mut Tx<'_>, row: &RunRow, step: &NewStep, key: &str) -> Result<Option<StepRow>> {
    let own = tx.rows.step_of_run(row.id, key)?;
    let is_done = own.as_ref().is_some_and(|own| own.state.will() == Will::Skip);
    if is_done || !is_effect(step, own.as_ref()) || !step.has_own_key() {
        return Ok(own);
    }
    Ok(tx.rows.step_holder(row.tenant, key)?.or(own))
}

/// Carries out the effects of a transition.
pub fn carry_out(tx: &mut Tx<'_>, row: &RunRow, effects: &[Effect]) -> Result<()> {
    for effect in effects {
        match effect {
            Effect::DoubtOpenEffects => tx.rows.doubt_open_effects(row.id, tx.now)?,
            Effect::Wake => tx.wake = true,
            // The caller that ends the attempt records it with its body.
            Effect::AttemptEnded { .. } => {}
        }
    }
    Ok(())
}

/// An effect stays an effect. Without a statement a step is what it was, and a new one is an effect.
pub fn is_effect(step: &NewStep, recorded: Option<&StepRow>) -> bool {
    let before = recorded.map(|recorded| recorded.effect);
    before == Some(true) || step.effect.or(before).unwrap_or(true)
}

/// The actor of outcomes that are reported under a lease.
pub const WORKER: &str = "worker";

/// None without versions.
pub fn versions_column(versions: &Versions) -> Result<Option<String>> {
    if versions.is_empty() { Ok(None) } else { json(versions).map(Some) }
}
