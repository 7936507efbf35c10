//! A reported success that a detector objects to: a failed attempt like any other, whose output is kept.

use redrive_core::classify::Evidence;
use redrive_core::detect::{Objection, OnRecord, judge};
use redrive_core::ledger::Known;
use redrive_core::lifecycle::Event;
use redrive_core::pattern::fingerprint;
use redrive_core::policy::Policy;
use redrive_core::strategy::Failure;
use redrive_core::text::Text;
use redrive_core::wire::{ErrorReport, StepStatus, SucceedAnswer, Versions};

use crate::breakers::ended;
use crate::codec::{decode, encode};
use crate::error::{Error, Result};
use crate::ingest::report::{Failed, settle};
use crate::ledger::record;
use crate::ledger::steps::is_effect;
use crate::model::{AttemptBody, NewStep, Success};
use crate::runs::attempts::json;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::surroundings;
use crate::tx::Tx;

/// Asks whether the success counts, with what the store knows beside the report.
pub fn objection(tx: &mut Tx<'_>, row: &RunRow, success: &Success, policy: &Policy) -> Result<Option<Objection>> {
    let committed = |step: &&NewStep| is_effect(step, None) && step.status == StepStatus::Committed;
    let reported = u32::try_from(success.steps.iter().filter(committed).count()).unwrap_or(u32::MAX);
    let steps_done = if policy.detect.expect_tools.is_empty() { Vec::new() } else { steps_done(tx, row.id)? };
    let refused = row.run.memory.refused.filter(|(output, _)| success.observed.output_hash == Some(*output));
    let on_record = OnRecord {
        effects_done: row.run.effects.done.saturating_add(reported),
        steps_done: &steps_done,
        same_output_before: refused.map_or(0, |(_, n)| n),
    };
    Ok(judge(&success.observed, &policy.detect, &on_record))
}

/// The names of what happened; a step that was reconciled may not have.
fn steps_done(tx: &mut Tx<'_>, run: i64) -> Result<Vec<String>> {
    let done = tx.rows.steps_of_run(run)?.into_iter().filter(|entry| entry.state.known() == Known::Done);
    Ok(done.map(|entry| entry.name).collect())
}

/// Records the attempt as failed, with a verdict, and says so.
pub fn refuse(
    tx: &mut Tx<'_>,
    mut row: RunRow,
    success: &Success,
    objection: &Objection,
    attempt: u32,
    epoch: Option<u64>,
) -> Result<SucceedAnswer> {
    let before = row.clone();
    record::keep_steps(tx, &mut row, attempt, epoch.unwrap_or(0), &before.versions, &success.steps)?;
    let rule = objection.detector.rule();
    let evidence = Evidence { error_type: Some(&rule), ..Evidence::of(&objection.message) };
    let fingerprint = fingerprint(&evidence, &objection.reason());
    let failure = Failure {
        spent: success.observed.spent,
        refused: success.observed.output_hash,
        ..Failure::objected(objection, &fingerprint)
    };
    let (queue, policy) = run_row::rules_of(tx, &row)?;
    ended::attempt_ended(tx, &row, epoch, Some(&failure.reason), &policy)?;
    surroundings::load_surroundings(tx, &mut row, (&queue, &policy), &failure, None)?;
    let event = Event::Fail { failure: &failure, attempt, jitter: tx.dice.jitter() };
    let moved = row.ask(&event, &policy, tx.now)?;
    let body = body_with_error(success, objection)?;
    let failed = Failed {
        attempt,
        failure: &failure,
        fingerprint: &fingerprint,
        digest: Some(&success.digest),
        body: &body,
        versions: &Versions::new(),
        took_ms: None,
        epoch,
        new: None,
    };
    let answer = settle(tx, &before, row, moved, &failed)?;
    Ok(SucceedAnswer { state: answer.state, late: false, verdict: Some(answer.verdict.into_verdict()) })
}

/// The attempt's body as it came, and in it what is wrong: the next attempt may be told.
pub fn body_with_error(success: &Success, objection: &Objection) -> Result<Vec<u8>> {
    let unreadable = |e: serde_json::Error| Error::Unexpected(format!("an attempt's body: {e}"));
    let mut body: AttemptBody = serde_json::from_slice(&decode(&success.body)?).map_err(unreadable)?;
    body.error = Some(ErrorReport {
        error_type: Some(Text::from(objection.detector.rule().as_str())),
        message: Text::from(objection.message.as_str()),
        detail: None,
        http_status: None,
        headers: Default::default(),
        reason: None,
        category: None,
        terminal: false,
    });
    Ok(encode(json(&body)?.as_bytes()))
}
