//! A run that no attempt could ever do: kept as a dead letter from the beginning, so that nobody fails at it three times.

use redrive_core::lifecycle::Event;
use redrive_core::pattern::{FINGERPRINT_VERSION, Fingerprint};
use redrive_core::policy::Policy;
use redrive_core::reason::Reason;
use redrive_core::strategy::Failure;
use redrive_core::text::Text;
use redrive_core::wire::{ErrorReport, Versions};

use crate::attempt::start::{CommittedStart, answer};
use crate::codec::encode;
use crate::error::{Error, Result};
use crate::ingest::report::{Failed, settle};
use crate::model::{AttemptBody, Start, StartHow};
use crate::runs::attempts::json;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// What all of them have in common, whatever their size.
const TEMPLATE: &str = "the payload will not fit the model's context";

/// Keeps the run with its verdict. Whoever starts it hears that it is dead-lettered; whoever enqueues it sees its state.
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
    let error = ErrorReport {
        error_type: None,
        message: Text::from(why),
        detail: None,
        http_status: None,
        headers: Default::default(),
        reason: None,
        category: None,
        terminal: false,
    };
    let body = AttemptBody { error: Some(error), model: start.run.model.clone(), ..AttemptBody::default() };
    let failed = Failed {
        attempt: run.attempt,
        failure: &failure,
        fingerprint: &fingerprint,
        digest: None,
        body: &encode(json(&body)?.as_bytes()),
        versions: &Versions::new(),
        took_ms: None,
        epoch: None,
        new: Some(&start.run),
    };
    let stands = RunRow { run, ..row.clone() };
    settle(tx, &row.clone(), row, moved, &failed)?;
    match &start.how {
        StartHow::Start { .. } => Err(Error::DeadLettered(Box::new(verdict))),
        StartHow::Enqueue { .. } => answer(tx, &stands, true, false),
    }
}
