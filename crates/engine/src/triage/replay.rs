//! Replays: planned, guarded, approved where the policy demands it, and applied with their changes in one commit.

use redrive_core::ids::StepKey;
use redrive_core::lifecycle::{Event, Moved, Refused, apply};
use redrive_core::plan::{Proposed, fixed};
use redrive_core::run::{Review, State};
use redrive_core::text::{Label, Text};
use redrive_core::verdict::DeadBecause;

use crate::error::{Error, Result};
use crate::ledger::steps;
use crate::model::triage::{Replay, TriageAct};
use crate::runs::revisions;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::triage::plans;
use crate::triage::plans::{Permitted, Planned};
use crate::triage::reviews;
use crate::triage::reviews::ReviewRequest;
use crate::triage::verbs;
use crate::triage::verbs::note_with;
use crate::tx::Tx;

/// `POST …/replay`.
pub fn replay(tx: &mut Tx<'_>, row: RunRow, act: &TriageAct, replay: &Replay) -> Result<RunRow> {
    if replay.fix.as_ref().is_some_and(|fix| fix.from_revision != row.run.revision) {
        return Err(Error::RevisionChanged);
    }
    let proposed = replay.proposed();
    if let Some(asked) = &replay.plan_hash {
        let hash = plans::plan_of(tx, &row, &proposed)?.plan.hash;
        if asked.as_str() != hash {
            return Err(Error::PlanChanged { hash });
        }
    }
    let permitted = plans::permit_of(tx, &row, &proposed)?;
    if !replay.force {
        guard(tx, &row, &permitted)?;
    }
    let moved = would_move(tx, &row, &proposed, &permitted)?;
    if permitted.permit.approval_needed {
        let planned = plans::plan_of(tx, &row, &proposed)?;
        return request_review(tx, row, act, Some(replay), &planned);
    }
    let event = if replay.force { "force_replay" } else { "replay" };
    carry_out(tx, &row, moved, act, replay, &permitted.again, event)
}

/// Refuses what only force may pass. A run that has used its replays is parked.
fn guard(tx: &mut Tx<'_>, row: &RunRow, permitted: &Permitted) -> Result<()> {
    let Some(refused) = &permitted.permit.refused else { return Ok(()) };
    let waits = matches!(row.run.state, State::Scheduled(_));
    let parked = matches!(row.run.state, State::Dead { because: DeadBecause::Exhausted });
    if matches!(refused, Refused::ReplaysUsed(_)) && !parked && !waits {
        let mut parked = row.clone();
        parked.run = row.ask(&Event::Park, &permitted.policy, tx.now)?.run;
        run_row::save(tx, row, &parked)?;
        reviews::forget_request(tx, row.id)?;
        verbs::note_move(tx, row, &parked, "engine", "parked", Some(&Text::from(refused.to_string().as_str())))?;
    }
    Err(refused.clone().into())
}

fn would_move(tx: &Tx<'_>, row: &RunRow, proposed: &Proposed, permitted: &Permitted) -> Result<Moved> {
    // The permit has checked everything that force overrides.
    let replay = Event::Replay { by_person: true, force: true };
    Ok(apply(&fixed(&row.run, proposed), &replay, &permitted.policy, tx.now)?)
}

/// `POST …/review`: proposes a replay without changes.
pub fn review(tx: &mut Tx<'_>, row: RunRow, act: &TriageAct) -> Result<RunRow> {
    let planned = plans::plan_of(tx, &row, &Replay::default().proposed())?;
    request_review(tx, row, act, None, &planned)
}

fn request_review(
    tx: &mut Tx<'_>,
    mut row: RunRow,
    act: &TriageAct,
    replay: Option<&Replay>,
    planned: &Planned,
) -> Result<RunRow> {
    let before = row.clone();
    let expires_at = tx.now.plus_ms(planned.policy.approval.expires_ms);
    let asked = Review {
        proposed: if replay.is_some() { "replay" } else { "look" }.to_owned(),
        plan_hash: planned.plan.hash.clone(),
        asked_at: tx.now,
        expires_at,
        absent_ms: 0,
        before: DeadBecause::Manual,
        reopens: None,
        force: replay.is_some_and(|replay| replay.force),
    };
    row.run = row.ask(&Event::Review(asked), &planned.policy, tx.now)?.run;
    run_row::save(tx, &before, &row)?;
    reviews::ask_for(tx, &row, replay, &act.actor, expires_at)?;
    match replay.map(|replay| asked_in_words(replay, row.run.revision + 1)) {
        Some(what) => note_with(tx, &before, &row, act, "review", &what)?,
        None => verbs::note_move(tx, &before, &row, &act.actor, "review", act.reason.as_ref())?,
    }
    Ok(row)
}

/// `POST …/approve`: approves exactly the plan with this hash.
pub fn approve(tx: &mut Tx<'_>, mut row: RunRow, act: &TriageAct, plan_hash: &Label, own_too: bool) -> Result<RunRow> {
    let State::Review(review) = &row.run.state else {
        return Err(Refused::WrongState(row.run.state.name()).into());
    };
    let force = review.force;
    let asked = reviews::asked_for(tx, &row)?.ok_or_else(|| Error::Unexpected("a review has no request".into()))?;
    let ReviewRequest { actor, replay } = asked;
    if actor == act.actor && !own_too {
        return Err(Error::OwnRequest);
    }
    let planned = plans::plan_of(tx, &row, &replay.proposed())?;
    reviews::attend_review(tx, &mut row)?;
    let before = row.clone();
    if let State::Review(review) = &mut row.run.state {
        review.plan_hash.clone_from(&planned.plan.hash);
    }
    let fixed = RunRow { run: fixed(&row.run, &replay.proposed()), ..row.clone() };
    match fixed.ask(&Event::Approve { plan_hash: plan_hash.as_str() }, &planned.policy, tx.now) {
        Ok(moved) => {
            if !force && let Some(refused) = planned.plan.refused {
                return Err(refused.into());
            }
            carry_out(tx, &before, moved, act, &replay, &planned.plan.again, "approve")
        }
        Err(Refused::PlanChanged) => {
            reviews::ask_again(tx, &before, &mut row, planned.policy.approval.expires_ms)?;
            let note = format!("The approval was for plan {plan_hash}, and the plan is {}.", planned.plan.hash);
            verbs::note_move(tx, &before, &row, &act.actor, "plan_changed", Some(&Text::from(note.as_str())))?;
            Err(Error::PlanChanged { hash: planned.plan.hash })
        }
        Err(Refused::ReviewExpired) => {
            reviews::let_lapse(tx, before)?;
            Err(Refused::ReviewExpired.into())
        }
        Err(refused) => Err(refused.into()),
    }
}

/// Applies a permitted replay with its changes.
fn carry_out(
    tx: &mut Tx<'_>,
    before: &RunRow,
    moved: Moved,
    act: &TriageAct,
    replay: &Replay,
    again: &[StepKey],
    event: &str,
) -> Result<RunRow> {
    let mut row = before.clone();
    steps::carry_out(tx, &row, &moved.effects)?;
    row.run = moved.run;
    run_row::redirect(tx, &mut row, &replay.target())?;
    if let Some(fix) = &replay.fix {
        revisions::keep_revision(tx, &mut row, fix, &act.actor)?;
    }
    for key in again {
        tx.rows.do_step_again(row.id, key.as_str())?;
    }
    run_row::save(tx, before, &row)?;
    run_row::keep_place(tx, &row, &replay.target())?;
    if matches!(before.run.state, State::Review(_)) {
        reviews::forget_request(tx, row.id)?;
    }
    if let Some(what) = in_words(replay, row.run.revision) {
        verbs::note_move(tx, before, before, &act.actor, "fix", Some(&Text::from(what.as_str())))?;
    }
    verbs::note_move(tx, before, &row, &act.actor, event, act.reason.as_ref())?;
    Ok(row)
}

fn asked_in_words(replay: &Replay, revision: u32) -> String {
    let forced = if replay.force { "forced " } else { "" };
    let with = in_words(replay, revision).unwrap_or_default();
    format!("A {forced}replay waits for approval. {with}").trim_end().to_owned()
}

/// The changes of a replay, for the history.
fn in_words(replay: &Replay, revision: u32) -> Option<String> {
    let named = |what: &str, name: &Option<Label>| name.as_ref().map(|name| format!("{what} {name}"));
    let said: Vec<String> = [
        replay.fix.as_ref().map(|fix| {
            let how = if fix.patch.is_some() { "patched" } else { "given whole" };
            format!("payload {how}, now revision {revision}")
        }),
        replay.instruction.as_ref().map(|_| "an instruction".to_owned()),
        named("model", &replay.model),
        named("agent", &replay.agent),
        replay.queue.as_ref().map(|queue| format!("queue {queue}")),
        named("from step", &replay.from_step),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!said.is_empty()).then(|| format!("With {}.", said.join(", ")))
}
