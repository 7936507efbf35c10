//! Entries of the ledger: lookup, reconciliation, and trimming.

use redrive_core::ledger::Recorded;
use redrive_core::text::Text;
use redrive_core::time::DAY_MS;
use redrive_core::wire::EffectView;

use crate::error::{Error, Result};
use crate::ledger::output_budget;
use crate::ledger::record;
use crate::ledger::steps::StepRow;
use crate::model::{EffectRef, Reconcile, Swept};
use crate::ports::rows::{Rows, SettledEntry};
use crate::runs::run_row;
use crate::triage::verbs;
use crate::tx::Tx;

/// How long an entry outlives its run after its last use.
pub const KEPT_MS: u64 = 90 * DAY_MS;

const EFFECT: &str = "effect";

/// `GET /v1/effects/{key}`.
pub fn effect(rows: &mut dyn Rows, at: &EffectRef) -> Result<EffectView> {
    find(rows, at)?.whole(at.tenant.as_str())
}

/// By run, if one is named; otherwise the effect that holds the key, or the last one that released it.
fn find(rows: &mut dyn Rows, at: &EffectRef) -> Result<StepRow> {
    let missing = || Error::NotFound(EFFECT);
    let tenant = rows.tenant_number(&at.tenant)?.ok_or_else(missing)?;
    let key = at.key.as_str();
    if let Some(run_id) = &at.run_id {
        let found = match rows.find_run(tenant, run_id)? {
            Some(run) => rows.step_of_run(run.id, key)?,
            // Effects outlive their run.
            None => rows.step_holder(tenant, key)?.filter(|found| found.run_id == run_id.as_str()),
        };
        return found.ok_or_else(missing);
    }
    match rows.step_holder(tenant, key)? {
        Some(found) => Ok(found),
        None => rows.step_given_up(tenant, key)?.ok_or_else(missing),
    }
}

/// `POST /v1/effects/{key}/reconcile`. The run does not move; its guard and its plan change.
pub fn reconcile(tx: &mut Tx<'_>, act: &Reconcile) -> Result<EffectView> {
    let found = find(tx.rows, &act.at)?;
    if let Recorded::Now(state) = record::reconciled(&found, act.outcome)? {
        let mut run = found.run.map(|run| tx.rows.run_by_number(run)).transpose()?.flatten();
        let before = run.clone();
        let too_much = match &mut run {
            Some(row) => output_budget::count(row, Some(&found), act.output.as_deref())?,
            None => None,
        };
        let output = act.output.as_deref().filter(|_| too_much.is_none());
        let omitted = too_much.as_ref().or(act.output_omitted.as_ref());
        let settled = SettledEntry { found: &found, state, output, omitted, actor: &act.actor };
        tx.rows.settle_step(&settled, tx.now)?;
        if let (Some(before), Some(mut row)) = (before, run) {
            let (old, new) = ((found.effect, found.state), (found.effect, state));
            redrive_core::ledger::recount(&mut row.run.effects, Some(old), new);
            run_row::save(tx, &before, &row)?;
            verbs::note_move(tx, &before, &row, &act.actor, "reconcile", Some(&note(&found, act)))?;
        }
    }
    effect(tx.rows, &act.at)
}

/// The effect, its outcome, and the reason byte for byte.
fn note(found: &StepRow, act: &Reconcile) -> Text {
    let what = format!("{} {}", found.key, act.outcome);
    let Some(reason) = &act.reason else { return Text::from(what.as_str()) };
    // Keys and outcomes need no JSON escapes.
    let note = reason.token().strip_prefix('"').map(|rest| format!("\"{what}: {rest}"));
    note.and_then(Text::from_token).unwrap_or_else(|| Text::from(what.as_str()))
}

/// Deletes unused entries whose run is gone.
pub fn trim(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    Ok(tx.rows.trim_ledger(tx.now.minus_ms(KEPT_MS), most)?)
}
