//! What has been tried already: each change and each target by its hash, since the last human replay, whatever the
//! reason was.

use crate::hash::Fnv;
use crate::strategy::Failure;
use crate::verdict::{Change, Target};

pub(super) fn of_change(change: &Change, failure: &Failure) -> u64 {
    let words = serde_json::to_string(change).unwrap_or_default();
    match change {
        // Another error is another thing to tell the model.
        Change::AddLastError { .. } => hash(&[words.as_bytes(), &failure.fingerprint.to_le_bytes()]),
        Change::CompressContext { .. }
        | Change::AddInstruction { .. }
        | Change::AddConstraint { .. }
        | Change::ScaleOutputBudget { .. }
        | Change::SetModel { .. } => hash(&[words.as_bytes()]),
    }
}

pub(super) fn of_agent(name: &str) -> u64 {
    hash(&[b"agent", name.as_bytes()])
}

pub(super) fn of_model(name: &str) -> u64 {
    hash(&[b"model", name.as_bytes()])
}

pub(super) fn of_queue(name: &str) -> u64 {
    hash(&[b"queue", name.as_bytes()])
}

/// Where a target goes, each place by its hash.
pub(super) fn of_target(target: &Target) -> impl Iterator<Item = u64> {
    let agent = target.agent.as_ref().map(|agent| of_agent(agent.as_str()));
    let model = target.model.as_ref().map(|model| of_model(model.as_str()));
    let queue = target.queue.as_ref().map(|queue| of_queue(queue.as_str()));
    [agent, model, queue].into_iter().flatten()
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hash = Fnv::new();
    for part in parts {
        hash.write(part);
        hash.write(&[0]);
    }
    hash.finish()
}
