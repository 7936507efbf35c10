//! A run that fits no context window: a dead letter from the start, so that no attempt is wasted on it.

use redrive_core::lifecycle::Event;
use redrive_core::pattern::{FINGERPRINT_VERSION, Fingerprint};
use redrive_core::policy::Policy;
use redrive_core::reason::Reason;
use redrive_core::strategy::Failure;

use crate::attempt::start::{CommittedStart, answer};
use crate::codec::encode;
use crate::error::{Error, Result};
use crate::ingest::report::settle;
use crate::model::{AttemptBody, FailedAttempt, Start, StartHow};
use crate::runs::attempts::{AttemptEnd, found_error, json};
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// One template for all of them, whatever their size.
const TEMPLATE: &str = "the payload will not fit the model's context";

/// Records the run with its verdict. A start is answered with `dead_lettered`, an enqueue with the state.
pub fn never_fits(
    tx: &mut Tx<'_>,
    row: RunRow,
    policy: &Policy,
    start: &Start,
    rule: &str,
    why: &str,
) -> Result<CommittedStart> {
    let failure = Failure::found(Reason::ContextOverflow, rule);
    let moved = row.ask(&Event::WillNotFit { failure: &failure, why }, policy, tx.now)?;
    let (run, verdict) = (moved.run.clone(), moved.verdict.clone());
    let fingerprint =
        Fingerprint { version: FINGERPRINT_VERSION, hash: failure.fingerprint, template: TEMPLATE.to_owned() };
    let error = Some(found_error(None, why));
    let body = AttemptBody { error, model: start.run.model.clone(), ..AttemptBody::default() };
    let failed = FailedAttempt::found(failure, fingerprint, encode(json(&body)?.as_bytes()));
    let ended = AttemptEnd::unleased(run.attempt);
    let rejected = RunRow { run, ..row.clone() };
    settle(tx, &row.clone(), row, moved, &failed, ended, Some(&start.run))?;
    match &start.how {
        StartHow::Start { .. } => Err(Error::DeadLettered(Box::new(verdict))),
        StartHow::Enqueue { .. } => answer(tx, &rejected, true, false),
    }
}
