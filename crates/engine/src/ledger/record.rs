//! Records reported steps. `core` decides; this module writes the entries and the run's counts.

use std::collections::BTreeSet;

use redrive_core::ledger::{self, By, EntryRefused, EntryReport, EntryState, Known, RUN_STEPS_MAX, Recorded, Unnamed};
use redrive_core::text::Text;
use redrive_core::wire::{StepView, Versions};

use crate::error::{Error, Result};
use crate::ledger::output_budget;
use crate::ledger::steps;
use crate::ledger::steps::{Mover, StepRow, WORKER, is_effect};
use crate::model::{NewStep, UnderLease};
use crate::ports::rows::{MovedEntry, NewEntry};
use crate::runs::attempts::AttemptEnd;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::triage::verbs;
use crate::tx::Tx;

/// `POST …/steps` under a live lease. The caller saves the run afterwards.
pub fn record(tx: &mut Tx<'_>, row: &mut RunRow, step: &NewStep, attempt: u32, epoch: u64) -> Result<StepView> {
    let report = report_of(step)?;
    let key = key_of(tx, row, step, report, epoch)?;
    let versions = row.versions.clone();
    let by = Mover { attempt, epoch, versions: &versions };
    let found = steps::find_step(tx, row, step, &key)?;
    let entry = found.as_ref().map(|found| found.entry(row.id, step));
    let recorded = ledger::apply(entry.as_ref(), report, By::Live { epoch })
        .map_err(|refused| as_error(refused, found.as_ref()))?;
    if let (Recorded::Now(EntryState::Reconciled(_)), Some(found)) = (recorded, &found) {
        let note = format!("{} {}, found by its check", found.key, step.status);
        verbs::note_move(tx, row, row, WORKER, "reconcile", Some(&Text::from(note.as_str())))?;
    }
    match keep(tx, row, step, by, &key, found, recorded)? {
        StoredStep::Recorded(view) => Ok(*view),
        StoredStep::NoRoom(state) => {
            // A refused intent was not begun; any other status has happened.
            if state.known() != Known::Open {
                ledger::count_unrecorded(&mut row.run.effects, (is_effect(step, None), state));
                run_row::save_life(tx, row)?;
            }
            Err(Error::TooManySteps { most: RUN_STEPS_MAX })
        }
    }
}

/// The result of recording a step.
enum StoredStep {
    Recorded(Box<StepView>),
    /// The run has the maximum number of steps; the state that the step would have.
    NoRoom(EntryState),
}

/// Writes the decision and returns the entry.
fn keep(
    tx: &mut Tx<'_>,
    row: &mut RunRow,
    step: &NewStep,
    by: Mover<'_>,
    key: &str,
    found: Option<StepRow>,
    recorded: Recorded,
) -> Result<StoredStep> {
    let view = |entry: &StepRow, replayed| Ok(StoredStep::Recorded(Box::new(entry.view(replayed)?)));
    let (state, holds) = match (recorded, &found) {
        (Recorded::Replayed | Recorded::Same, Some(found)) => {
            tx.rows.touch_step(found, by.epoch, tx.now)?;
            return view(found, recorded == Recorded::Replayed);
        }
        (Recorded::Now(state), _) => (state, true),
        (Recorded::Beside(state), _) => (state, false),
        (Recorded::Replayed | Recorded::Same, None) => return Err(missing_step()),
    };
    let own = found.filter(|found| found.run == Some(row.id));
    let own = if own.is_some() { own } else { tx.rows.step_of_run(row.id, key)? };
    if own.is_none() && row.step_count >= RUN_STEPS_MAX {
        return Ok(StoredStep::NoRoom(state));
    }
    let step = &*output_budget::fit(row, own.as_ref(), step)?;
    match &own {
        Some(own) => move_step(tx, own, by, step, state, holds)?,
        None => {
            let effect = is_effect(step, None);
            let new = NewEntry { row, by, key, step, effect, state, holds: holds && state.holds() };
            tx.rows.insert_step(&new, tx.now)?;
            row.step_count += 1;
        }
    }
    let before = own.as_ref().map(|own| (own.effect, own.state));
    ledger::recount(&mut row.run.effects, before, (is_effect(step, own.as_ref()), state));
    view(&tx.rows.step_of_run(row.id, key)?.ok_or_else(missing_step)?, false)
}

fn missing_step() -> Error {
    Error::Unexpected("a recorded step is missing".into())
}

fn as_error(refused: EntryRefused, found: Option<&StepRow>) -> Error {
    match refused {
        EntryRefused::InProgress => Error::EffectInProgress {
            run_id: found.map(|found| found.run_id.clone()).unwrap_or_default(),
            call_id: found.and_then(|found| found.call_id.clone()),
        },
        EntryRefused::InDoubt => Error::EffectUnknown,
        EntryRefused::StillOpen => redrive_core::lifecycle::Refused::InFlight.into(),
        EntryRefused::Settled(status) => Error::EffectSettled { status },
        EntryRefused::Fenced => Error::LeaseLost { recorded: false },
    }
}

/// Reconciles an entry; refusals become the same errors as for a worker.
pub fn reconciled(found: &StepRow, outcome: redrive_core::wire::EffectOutcome) -> Result<Recorded> {
    ledger::reconcile(found.state, outcome).map_err(|refused| as_error(refused, Some(found)))
}

/// Records outcomes after their lease has ended, if that lease began the entry. True if any was recorded. The run does not
/// move; its plan changes.
pub fn record_late(tx: &mut Tx<'_>, row: &mut RunRow, under: &UnderLease, steps: &[NewStep]) -> Result<bool> {
    let epoch = under.lease.epoch;
    let mut any = false;
    for step in steps {
        let report = report_of(step)?;
        let key = key_of(tx, row, step, report, epoch)?;
        let Some(found) = tx.rows.step_of_run(row.id, &key)? else { continue };
        let Ok(recorded) = ledger::apply(Some(&found.entry(row.id, step)), report, By::Late { epoch }) else {
            continue;
        };
        any = true;
        if let Recorded::Now(state) = recorded {
            let holds = tx.rows.step_holder(row.tenant, &key)?.is_none_or(|holder| holder.id == found.id);
            let versions = found.versions()?;
            let by = Mover { attempt: found.attempt, epoch, versions: &versions };
            let step = &*output_budget::fit(row, Some(&found), step)?;
            move_step(tx, &found, by, step, state, holds)?;
            let after = (is_effect(step, Some(&found)), state);
            ledger::recount(&mut row.run.effects, Some((found.effect, found.state)), after);
            let note = format!("{} {}", found.key, step.status);
            verbs::note_move(tx, row, row, WORKER, "late_outcome", Some(&Text::from(note.as_str())))?;
        }
    }
    if any {
        run_row::save_life(tx, row)?;
    }
    Ok(any)
}

/// Updates an entry from a report; its check stays unless the report has one.
fn move_step(
    tx: &mut Tx<'_>,
    found: &StepRow,
    by: Mover<'_>,
    step: &NewStep,
    state: EntryState,
    holds: bool,
) -> Result<()> {
    let moved = MovedEntry {
        found,
        by,
        step,
        effect: is_effect(step, Some(found)),
        state,
        holds: holds && state.holds(),
        settled_by: state.outcome().map(|_| WORKER),
    };
    Ok(tx.rows.move_step(&moved, tx.now)?)
}

/// Records the steps that come with the end of an attempt. The list is complete, so a step without a key is identified by
/// its position.
pub fn keep_steps(
    tx: &mut Tx<'_>,
    row: &mut RunRow,
    ended: AttemptEnd,
    versions: &Versions,
    steps: &[NewStep],
) -> Result<()> {
    let (attempt, epoch) = (ended.number, ended.epoch.unwrap_or(0));
    let by = Mover { attempt, epoch, versions };
    let mut dropped = 0;
    for (at, step) in steps.iter().enumerate() {
        let key = key_in_list(steps, at);
        let found = steps::find_step(tx, row, step, &key)?;
        let entry = found.as_ref().map(|found| found.entry(row.id, step));
        let recorded = ledger::apply(entry.as_ref(), report_of(step)?, By::End { epoch })
            .map_err(|refused| as_error(refused, found.as_ref()))?;
        if recorded != Recorded::Same || found.is_some() {
            // Too many steps do not refuse the end of an attempt.
            if let StoredStep::NoRoom(state) = keep(tx, row, step, by, &key, found, recorded)? {
                ledger::count_unrecorded(&mut row.run.effects, (is_effect(step, None), state));
                dropped += 1;
            }
        }
    }
    if dropped > 0 {
        let note = format!("{dropped} steps of attempt {attempt} are not kept: the run has {RUN_STEPS_MAX} already.");
        verbs::note_move(tx, row, row, "engine", "step_limit", Some(&Text::from(note.as_str())))?;
    }
    Ok(())
}

fn report_of(step: &NewStep) -> Result<EntryReport> {
    EntryReport::of(step.status, step.checked)
        .ok_or_else(|| Error::Unexpected(format!("a step was reported as {}", step.status)))
}

/// The keys of all steps of a list.
pub(crate) fn keys_in_list(steps: &[NewStep]) -> Vec<String> {
    (0..steps.len()).map(|at| key_in_list(steps, at)).collect()
}

/// Steps without a key are numbered in order; numbers that other steps use as their key are skipped.
fn key_in_list(steps: &[NewStep], at: usize) -> String {
    let step = &steps[at];
    if let Some(key) = &step.key {
        return key.as_str().to_owned();
    }
    let stem = ledger::unnamed_stem(step.name.as_str());
    let given = |other: &NewStep| other.key.as_ref().and_then(|key| ledger::ordinal_of_key(key.as_str(), &stem));
    let taken: BTreeSet<u32> = steps.iter().filter_map(given).collect();
    let same = |other: &&NewStep| other.key.is_none() && ledger::unnamed_stem(other.name.as_str()) == stem;
    let earlier = steps[..at].iter().filter(same).count();
    ledger::unnamed_key(step.name.as_str(), ledger::free_ordinal(&taken, earlier))
}

/// The key of a step, or a generated one.
fn key_of(tx: &mut Tx<'_>, row: &RunRow, step: &NewStep, report: EntryReport, epoch: u64) -> Result<String> {
    if let Some(key) = &step.key {
        return Ok(key.as_str().to_owned());
    }
    let stem = ledger::unnamed_stem(step.name.as_str());
    // `;` follows `:` in ASCII, so that all keys of the name lie in this range.
    let mut of_name = Vec::new();
    for found in tx.rows.steps_between(row.id, &stem, &format!("{stem};"))? {
        of_name.extend(ledger::ordinal_of_key(&found.key, &stem).map(|ordinal| Unnamed {
            ordinal,
            state: found.state,
            met: found.used_epoch == epoch,
            intended: found.began_at.is_some(),
            same_call: found.is_of(step.call_id.as_ref()),
        }));
    }
    Ok(ledger::unnamed_key(step.name.as_str(), ledger::ordinal(&of_name, report)))
}
