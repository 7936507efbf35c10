//! A reported success that a detector refuses: recorded as a failed attempt with its output.

use redrive_core::classify::Evidence;
use redrive_core::detect::{Objection, OnRecord, judge};
use redrive_core::ledger::Known;
use redrive_core::lifecycle::Event;
use redrive_core::pattern::fingerprint;
use redrive_core::policy::Policy;
use redrive_core::strategy::Failure;
use redrive_core::wire::{StepStatus, SucceedAnswer};

use crate::breakers::ended;
use crate::codec::{decode, encode};
use crate::error::{Error, Result};
use crate::ingest::report::settle;
use crate::ledger::record;
use crate::ledger::steps::is_effect;
use crate::model::{AttemptBody, FailedAttempt, NewStep, Success};
use crate::runs::attempts::{AttemptEnd, found_error, json};
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// The objection of a detector to the success, if there is one.
pub fn objection(tx: &mut Tx<'_>, row: &RunRow, success: &Success, policy: &Policy) -> Result<Option<Objection>> {
    let committed = |step: &&NewStep| is_effect(step, None) && step.status == StepStatus::Committed;
    let reported = success.steps.iter().filter(committed).fold(0, |n: u32, _| n.saturating_add(1));
    let steps_done = if policy.detect.expect_tools.is_empty() { Vec::new() } else { steps_done(tx, row.id)? };
    let refused = row.run.memory.refused.filter(|(output, _)| success.observed.output_hash == Some(*output));
    let on_record = OnRecord {
        effects_done: row.run.effects.done.saturating_add(reported),
        steps_done: &steps_done,
        same_output_before: refused.map_or(0, |(_, n)| n),
    };
    Ok(judge(&success.observed, &policy.detect, &on_record))
}

/// The names of steps that have happened; a reconciled one may not have.
fn steps_done(tx: &mut Tx<'_>, run: i64) -> Result<Vec<String>> {
    let done = tx.rows.steps_of_run(run)?.into_iter().filter(|entry| entry.state.known() == Known::Done);
    Ok(done.map(|entry| entry.name).collect())
}

/// Records the attempt as failed and answers with the verdict.
pub fn refuse(
    tx: &mut Tx<'_>,
    mut row: RunRow,
    success: &Success,
    objection: &Objection,
    ended: AttemptEnd,
) -> Result<SucceedAnswer> {
    let before = row.clone();
    record::keep_steps(tx, &mut row, ended, &before.versions, &success.steps)?;
    let rule = objection.detector.rule();
    let evidence = Evidence { error_type: Some(&rule), ..Evidence::of(&objection.message) };
    let fingerprint = fingerprint(&evidence, &objection.reason());
    let failure = Failure {
        spent: success.observed.spent,
        refused: success.observed.output_hash,
        ..Failure::objected(objection, &fingerprint)
    };
    let (queue, policy) = run_row::rules_of(tx, &row)?;
    ended::attempt_ended(tx, &row, ended.epoch, Some(&failure.reason), &policy)?;
    run_row::load_surroundings(tx, &mut row, (&queue, &policy), &failure, None)?;
    let event = Event::Fail { failure: &failure, attempt: ended.number, jitter: tx.dice.jitter() };
    let moved = row.ask(&event, &policy, tx.now)?;
    let body = body_with_error(success, objection)?;
    let failed = FailedAttempt { digest: Some(success.digest), ..FailedAttempt::found(failure, fingerprint, body) };
    let answer = settle(tx, &before, row, moved, &failed, ended, None)?;
    Ok(SucceedAnswer { state: answer.state, late: false, verdict: Some(answer.verdict.into_verdict()) })
}

/// The attempt's body with the objection as its error, which the next attempt may get.
pub fn body_with_error(success: &Success, objection: &Objection) -> Result<Vec<u8>> {
    let unreadable = |e: serde_json::Error| Error::Unexpected(format!("an attempt's body: {e}"));
    let mut body: AttemptBody = serde_json::from_slice(&decode(&success.body)?).map_err(unreadable)?;
    body.error = Some(found_error(Some(&objection.detector.rule()), &objection.message));
    Ok(encode(json(&body)?.as_bytes()))
}
