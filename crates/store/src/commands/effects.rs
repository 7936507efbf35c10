//! The ledger looked into, settled by people, and trimmed.

use redrive_core::ledger::Recorded;
use redrive_core::text::Text;
use redrive_core::time::DAY_MS;
use redrive_core::wire::EffectView;

use crate::commands::batch::Batch;
use crate::commands::ledger;
use crate::commands::rows::{Rows, SettledEntry};
use crate::commands::step_room;
use crate::commands::steps::StepRow;
use crate::error::{Error, Result};
use crate::model::{EffectRef, Reconcile, Swept};

/// How long an entry whose run is gone is kept after its last use.
pub(crate) const KEPT_MS: u64 = 90 * DAY_MS;

const EFFECT: &str = "effect";

/// `GET /v1/effects/{key}`.
pub(crate) fn effect(rows: &mut dyn Rows, at: &EffectRef) -> Result<EffectView> {
    find(rows, at)?.whole(at.tenant.as_str())
}

/// By its run, where one is named; otherwise the effect that holds the key, or the last one that gave it up.
fn find(rows: &mut dyn Rows, at: &EffectRef) -> Result<StepRow> {
    let missing = || Error::NotFound(EFFECT);
    let tenant = rows.tenant_number(&at.tenant)?.ok_or_else(missing)?;
    let key = at.key.as_str();
    if let Some(run_id) = &at.run_id {
        let found = match rows.find_run(tenant, run_id)? {
            Some(run) => rows.step_of_run(run.id, key)?,
            // The run may be gone, and what it did is still known.
            None => rows.step_holder(tenant, key)?.filter(|found| found.run_id == run_id.as_str()),
        };
        return found.ok_or_else(missing);
    }
    match rows.step_holder(tenant, key)? {
        Some(found) => Ok(found),
        None => rows.step_given_up(tenant, key)?.ok_or_else(missing),
    }
}

/// `POST /v1/effects/{key}/reconcile`. The run stays where it is; its guard, and what a replay would do, change.
pub(crate) fn reconcile(batch: &mut Batch<'_>, act: &Reconcile) -> Result<EffectView> {
    let found = find(batch.rows, &act.at)?;
    if let Recorded::Now(state) = ledger::reconciled(&found, act.outcome)? {
        let mut run = found.run.map(|run| batch.rows.run_by_number(run)).transpose()?.flatten();
        let before = run.clone();
        let too_much = match &mut run {
            Some(row) => step_room::count(row, Some(&found), act.output.as_deref())?,
            None => None,
        };
        let output = act.output.as_deref().filter(|_| too_much.is_none());
        let omitted = too_much.as_ref().or(act.output_omitted.as_ref());
        let settled = SettledEntry { found: &found, state, output, omitted, actor: &act.actor };
        batch.rows.settle_step(&settled, batch.now)?;
        if let (Some(before), Some(mut row)) = (before, run) {
            let (old, new) = ((found.effect, found.state), (found.effect, state));
            redrive_core::ledger::recount(&mut row.run.effects, Some(old), new);
            batch.save(&before, &row)?;
            batch.note_move(&before, &row, &act.actor, "reconcile", Some(&note(&found, act)))?;
        }
    }
    effect(batch.rows, &act.at)
}

/// Which effect, to what, and the reason's own bytes.
fn note(found: &StepRow, act: &Reconcile) -> Text {
    let what = format!("{} {}", found.key, act.outcome);
    let Some(reason) = &act.reason else { return Text::from(what.as_str()) };
    // Neither a key nor an outcome holds anything that JSON would escape.
    let said = reason.token().strip_prefix('"').map(|rest| format!("\"{what}: {rest}"));
    said.and_then(Text::from_token).unwrap_or_else(|| Text::from(what.as_str()))
}

/// Forgets entries that nobody has used for long and whose run is gone: only those are looked at.
pub(crate) fn trim(batch: &mut Batch<'_>, most: usize) -> Result<Swept> {
    batch.rows.trim_ledger(batch.now.minus_ms(KEPT_MS), most)
}
