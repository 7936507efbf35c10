//! What a reported step does to the ledger: intent before effect, one owner, a done step's output for good.

use redrive_core::run::{Effects, Run};
use redrive_core::wire::{StepStatus, StepView};

use crate::error::{Error, Result};
use crate::model::{NewStep, UnderLease};
use crate::sqlite::batch::Batch;
use crate::sqlite::rows::RunRow;
use crate::sqlite::steps::StepRow;

/// Who reports a step: the attempt, and the lease it is under (0 without one).
#[derive(Debug, Clone, Copy)]
struct By {
    attempt: u32,
    epoch: u64,
}

/// `POST …/steps` under a live lease. The caller keeps the run afterwards.
pub(super) fn record(
    batch: &mut Batch<'_>,
    row: &mut RunRow,
    step: &NewStep,
    attempt: u32,
    epoch: u64,
) -> Result<StepView> {
    enter(batch, row, step, By { attempt, epoch }, &key_of(step, 1))
}

fn enter(batch: &mut Batch<'_>, row: &mut RunRow, step: &NewStep, by: By, key: &str) -> Result<StepView> {
    let Some(found) = batch.find_step(row, step, key)? else {
        batch.insert_step(row, by.attempt, by.epoch, key, step)?;
        count(&mut row.run, step.effect, None, step.status);
        return view(batch, row, step, key, false);
    };
    if step.status == StepStatus::Started {
        begin_again(batch, row, step, by, key, found)
    } else {
        give_outcome(batch, row, step, by, key, found)
    }
}

fn begin_again(
    batch: &mut Batch<'_>,
    row: &mut RunRow,
    step: &NewStep,
    by: By,
    key: &str,
    found: StepRow,
) -> Result<StepView> {
    match found.status {
        StepStatus::Committed | StepStatus::Reconciled => found.view(true),
        StepStatus::Unknown => Err(Error::EffectUnknown),
        StepStatus::Started if found.run != row.id => {
            Err(Error::EffectInProgress { run_id: batch.run_name(found.run)? })
        }
        // The same worker says it twice, or a plain step of an attempt that went away is begun anew.
        StepStatus::Started | StepStatus::Failed => {
            if found.run != row.id {
                return Err(Error::EffectInProgress { run_id: batch.run_name(found.run)? });
            }
            batch.update_step(found.id, by.attempt, by.epoch, step)?;
            count(&mut row.run, found.effect, Some(found.status), StepStatus::Started);
            view(batch, row, step, key, false)
        }
    }
}

fn give_outcome(
    batch: &mut Batch<'_>,
    row: &mut RunRow,
    step: &NewStep,
    by: By,
    key: &str,
    found: StepRow,
) -> Result<StepView> {
    match found.status {
        // Done is done: a second word on it changes nothing.
        StepStatus::Committed | StepStatus::Reconciled => found.view(true),
        StepStatus::Started | StepStatus::Failed | StepStatus::Unknown if found.run == row.id => {
            batch.update_step(found.id, by.attempt, by.epoch, step)?;
            count(&mut row.run, found.effect, Some(found.status), step.status);
            view(batch, row, step, key, false)
        }
        StepStatus::Started | StepStatus::Failed | StepStatus::Unknown => {
            Err(Error::EffectInProgress { run_id: batch.run_name(found.run)? })
        }
    }
}

/// The outcome of an entry that this epoch began is still recorded after its lease has ended: losing it would leave a
/// doubt that somebody could settle. True when it was.
pub(super) fn record_late(batch: &mut Batch<'_>, row: &mut RunRow, under: &UnderLease, step: &NewStep) -> Result<bool> {
    let is_outcome = matches!(step.status, StepStatus::Committed | StepStatus::Failed);
    let Some(found) = batch.find_step(row, step, &key_of(step, 1))?.filter(|found| {
        let unsettled = matches!(found.status, StepStatus::Started | StepStatus::Unknown);
        is_outcome && unsettled && found.run == row.id && found.epoch == under.lease.epoch
    }) else {
        return Ok(false);
    };
    batch.update_step(found.id, found.attempt, found.epoch, step)?;
    count(&mut row.run, found.effect, Some(found.status), step.status);
    batch.save_life(row)?;
    Ok(true)
}

impl Batch<'_> {
    /// Steps reported with the end of an attempt. What another run owns, or what is done already, stays as it is.
    pub(super) fn keep_steps(&mut self, row: &mut RunRow, attempt: u32, epoch: u64, steps: &[NewStep]) -> Result<()> {
        for (at, step) in steps.iter().enumerate() {
            let ordinal =
                1 + steps[..at].iter().filter(|earlier| earlier.key.is_none() && earlier.name == step.name).count();
            match enter(self, row, step, By { attempt, epoch }, &key_of(step, ordinal)) {
                Ok(_) | Err(Error::EffectUnknown | Error::EffectInProgress { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn view(batch: &mut Batch<'_>, row: &RunRow, step: &NewStep, key: &str, replayed: bool) -> Result<StepView> {
    let found = batch.find_step(row, step, key)?;
    found.ok_or_else(|| Error::Unexpected("a step vanished".into()))?.view(replayed)
}

/// A step without a key of its own is known by its name, and by which of that name it is.
fn key_of(step: &NewStep, ordinal: usize) -> String {
    const NAME_MAX_CHARS: usize = 180;
    let Some(key) = &step.key else {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = step.name.as_str().chars().map(plain).take(NAME_MAX_CHARS).collect();
        return if ordinal == 1 { format!("step:{name}") } else { format!("step:{name}:{ordinal}") };
    };
    key.as_str().to_owned()
}

/// Keeps the run's effect counts in step with the ledger.
fn count(run: &mut Run, effect: bool, from: Option<StepStatus>, to: StepStatus) {
    if !effect {
        return;
    }
    if let Some(slot) = from.and_then(|status| slot(&mut run.effects, status)) {
        *slot = slot.saturating_sub(1);
    }
    if let Some(slot) = slot(&mut run.effects, to) {
        *slot += 1;
    }
}

fn slot(effects: &mut Effects, status: StepStatus) -> Option<&mut u32> {
    match status {
        StepStatus::Started => Some(&mut effects.open),
        StepStatus::Unknown => Some(&mut effects.unknown),
        StepStatus::Committed | StepStatus::Reconciled => Some(&mut effects.done),
        StepStatus::Failed => None,
    }
}
