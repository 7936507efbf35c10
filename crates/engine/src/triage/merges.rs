//! Merged runs, and failures that are still reported for them.

use std::collections::HashMap;

use redrive_core::ids::RunId;
use redrive_core::ledger::Known;
use redrive_core::lifecycle::{Event, Refused, next_attempt};
use redrive_core::run::State;
use redrive_core::text::Text;

use crate::error::{Error, Result};
use crate::ingest::report::record;
use crate::ledger::output_budget;
use crate::ledger::record;
use crate::ledger::steps::StepRow;
use crate::model::FailedAttempt;
use crate::model::triage::TriageAct;
use crate::ports::rows::MergedStep;
use crate::runs::attempts::AttemptEnd;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::triage::verbs;
use crate::tx::Tx;

/// The longest chain of merges; each link is an action of a person.
const CHAIN_MAX: usize = 100;

/// The event that merges `row` into another run of its tenant, if that is possible.
pub fn merge<'a>(tx: &mut Tx<'_>, row: &RunRow, into: &RunId) -> Result<Event<'a>> {
    if row.run_id == *into {
        return Err(Error::MergeRefused("a run can't be merged into itself"));
    }
    let target = run_row::find_run_of(tx, row.tenant, into)?.ok_or(Error::NotFound("run to merge into"))?;
    match &target.run.state {
        State::Merged(merged) => Err(Refused::MergedInto(merged.into.clone()).into()),
        State::Scheduled(_)
        | State::Running(_)
        | State::Dead { .. }
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded => Ok(Event::Merge { into: into.clone() }),
    }
}

/// Records a failure of a merged run also for its target, unless that has a lease.
pub fn pass_on(tx: &mut Tx<'_>, part: &RunRow, into: &RunId, failed: &FailedAttempt) -> Result<()> {
    let Some(target) = final_target(tx, part.tenant, into)? else { return Ok(()) };
    if target.run.lease().is_some() {
        return Ok(());
    }
    let Ok(attempt) = next_attempt(&target.run) else { return Ok(()) };
    let (run, keys) = (target.id, record::keys_in_list(&failed.steps));
    let mut before = Vec::with_capacity(keys.len());
    for key in keys {
        before.push((tx.rows.step_of_run(run, &key)?, key));
    }
    record(tx, &target.clone(), target, failed, AttemptEnd::unleased(attempt), None)?;
    let noted = tx.rows.merged_steps(run)?.into_iter().map(|noted| (noted.step, noted.from)).collect();
    before.into_iter().try_for_each(|(own, key)| note_step(tx, (run, part.id), own, &key, &noted))
}

/// The run at the end of a chain of merges; none if it is gone.
fn final_target(tx: &mut Tx<'_>, tenant: i64, into: &RunId) -> Result<Option<RunRow>> {
    let mut into = into.clone();
    for _ in 0..CHAIN_MAX {
        let Some(target) = run_row::find_run_of(tx, tenant, &into)? else { return Ok(None) };
        match target.merged_into() {
            Some(further) => into = further.clone(),
            None => return Ok(Some(target)),
        }
    }
    Ok(None)
}

/// Records which merged run added an entry to the target's ledger, and its state before. An entry that was done before, or
/// that two runs have reported, stays for good.
fn note_step(
    tx: &mut Tx<'_>,
    (run, from): (i64, i64),
    own: Option<StepRow>,
    key: &str,
    noted: &HashMap<i64, i64>,
) -> Result<()> {
    let Some(entry) = tx.rows.step_of_run(run, key)? else { return Ok(()) };
    let is_done = |own: &StepRow| own.state.known() == Known::Done;
    if own.as_ref().is_some_and(|own| is_done(own) || (own.state, own.at) == (entry.state, entry.at)) {
        return Ok(());
    }
    if noted.get(&entry.id).is_some_and(|other| *other != from) {
        return Ok(tx.rows.forget_merged_step(entry.id)?);
    }
    let own = own.map(|own| own.state);
    Ok(tx.rows.put_merged_step(&MergedStep { step: entry.id, run, from, at: entry.at, own })?)
}

/// Removes the entries that an unmerged run and its parts have added to the target's ledger.
pub fn take_steps_back(tx: &mut Tx<'_>, part: &RunRow, into: &RunId, act: &TriageAct) -> Result<()> {
    let Some(before) = final_target(tx, part.tenant, into)? else { return Ok(()) };
    let merged = tx.rows.merged_steps(before.id)?;
    if merged.is_empty() {
        return Ok(());
    }
    let entries = tx.rows.steps_of_run(before.id)?;
    let (mut target, mut taken) = (before.clone(), 0);
    let mut still_parts = HashMap::new();
    for noted in merged {
        let is_part = match still_parts.get(&noted.from) {
            Some(is_part) => *is_part,
            None => is_part_of(tx, noted.from, &target)?,
        };
        still_parts.insert(noted.from, is_part);
        let Some(entry) = entries.iter().find(|entry| entry.id == noted.step).filter(|_| !is_part) else { continue };
        if entry.at != noted.at {
            tx.rows.forget_merged_step(noted.step)?;
            continue;
        }
        let own = tx.rows.step_of_run(target.id, &entry.key)?;
        output_budget::count(&mut target, own.as_ref(), None)?;
        let now = (entry.effect, entry.state);
        match noted.own {
            Some(own) => redrive_core::ledger::recount(&mut target.run.effects, Some(now), (entry.effect, own)),
            None => {
                redrive_core::ledger::uncount(&mut target.run.effects, now);
                target.step_count = target.step_count.saturating_sub(1);
            }
        }
        tx.rows.take_step_back(noted.step, noted.own, tx.now)?;
        taken += 1;
    }
    if taken > 0 {
        run_row::save(tx, &before, &target)?;
        let note = format!("{} is no part of it any more: {taken} of its steps are taken back.", part.run_id);
        verbs::note_move(tx, &before, &target, &act.actor, "unmerge", Some(&Text::from(note.as_str())))?;
    }
    Ok(())
}

fn is_part_of(tx: &mut Tx<'_>, run: i64, target: &RunRow) -> Result<bool> {
    let Some(row) = tx.rows.run_by_number(run)? else { return Ok(false) };
    let Some(into) = row.merged_into() else { return Ok(false) };
    Ok(final_target(tx, row.tenant, &into.clone())?.is_some_and(|into| into.id == target.id))
}
