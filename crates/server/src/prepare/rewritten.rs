//! One payload with its changes made, ready to be kept.

use redrive_core::policy::Policy;
use redrive_core::rewrite::rewrite;
use redrive_core::verdict::Change;
use redrive_core::wire::{HandedChange, RawJson};
use redrive_store::{NewSent, encode};
use serde_json::value::RawValue;

use crate::capture::encoded;
use crate::problem::{Problem, Result};

pub(super) struct Made {
    pub(super) payload: RawJson,
    pub(super) changes: Vec<HandedChange>,
    pub(super) keep: NewSent,
}

/// Makes the changes; none where the payload stays as it is.
pub(super) fn make(payload: &str, changes: &[HandedChange], policy: &Policy) -> Result<Option<Made>> {
    let asked: Vec<Change> = changes.iter().map(|handed| handed.change.clone()).collect();
    let rewritten = rewrite(payload, &policy.payload, &asked, None, &policy.models);
    if rewritten.payload == payload {
        return Ok(None);
    }
    let changes: Vec<HandedChange> =
        rewritten.changes.into_iter().map(|(change, done)| HandedChange { change, applied: done.is_ok() }).collect();
    let keep = NewSent { changes: encoded(&changes)?, body: encode(rewritten.payload.as_bytes()) };
    let payload = RawValue::from_string(rewritten.payload).map_err(|error| Problem::internal(&error.to_string()))?;
    Ok(Some(Made { payload, changes, keep }))
}
