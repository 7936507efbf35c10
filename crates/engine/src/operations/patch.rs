//! Applies one fix to many payloads, beside the writer. Each result is bound to the revision it was made from.

use redrive_core::ids::{RunId, Tenant};
use redrive_core::json::{self, Tape};
use redrive_core::patch::{self, PatchOperation, Why};
use redrive_core::wire::{Fix, OperationSample, RawJson, ReplayRequest};
use sha2::{Digest as _, Sha256};

use crate::codec::encode;
use crate::error::Result;
use crate::model::operations::{Bulk, BulkReplay};
use crate::model::triage::{FixedPayload, Replay, Triage};
use crate::model::{Digest, Payload, PayloadKind};
use crate::operations::guard::UNREADABLE;
use crate::runs::attempts;
use crate::runs::payload::StoredPayload;

/// Payload bytes of one slice in memory.
pub const PIECE_MAX_BYTES: usize = 8 << 20;
/// Runs whose differences a preview shows, and the differences of each.
pub const SAMPLES_MAX: usize = 3;
const SAMPLE_MAX_CHANGES: usize = 20;

/// The result of a fix on one payload.
#[derive(Debug, Clone)]
pub enum Made {
    /// The operation has no patch.
    Nothing,
    Fixed(Box<FixedPayload>),
    /// The code of why the patch does not apply.
    Not(&'static str),
}

impl Made {
    pub fn bytes(&self) -> usize {
        match self {
            Self::Fixed(fixed) => fixed.payload.encoded.len(),
            Self::Nothing | Self::Not(_) => 0,
        }
    }
}

/// The patch and the largest payload; none for an operation that reads no payloads.
pub fn patch_of(bulk: &Bulk) -> Option<(&[PatchOperation], usize)> {
    match bulk {
        Bulk::Replay(replay) => {
            let operations = replay.fix.as_ref()?.json_patch.as_deref()?;
            Some((operations, replay.payload_max_bytes))
        }
        Bulk::Resolve
        | Bulk::Discard
        | Bulk::Assign { .. }
        | Bulk::Reassign { .. }
        | Bulk::Defer { .. }
        | Bulk::Merge { .. } => None,
    }
}

/// Patches the current payload of a run; with `show` also returns the differences.
pub fn patched(
    of: Patched,
    (operations, max_bytes): (&[PatchOperation], usize),
    show: bool,
) -> Result<(Made, Option<OperationSample>)> {
    let Patched { from_revision, run_id, tenant, payload } = of;
    let payload = match payload.and_then(StoredPayload::into_wire) {
        Ok((payload, _)) => payload,
        Err(error) if error.is_passing() => return Err(error),
        Err(_) => return Ok((Made::Not(UNREADABLE), None)),
    };
    let Some(before) = payload else { return Ok((Made::Not("not_json"), None)) };
    let after = match patch::apply(before.get(), operations, max_bytes) {
        Ok(after) => after,
        Err(bad) => return Ok((Made::Not(code_of(bad.why)), None)),
    };
    let sample = show.then(|| {
        let (changes, more) = differences(before.get(), &after);
        OperationSample { run_id, tenant, changes, more }
    });
    let patch = encode(attempts::json(&operations)?.as_bytes());
    let fixed = FixedPayload { from_revision, payload: json_payload(&after), patch: Some(patch) };
    Ok((Made::Fixed(Box::new(fixed)), sample))
}

/// A run to patch.
pub struct Patched {
    pub from_revision: u32,
    pub run_id: RunId,
    pub tenant: Tenant,
    /// An error if the stored payload is damaged.
    pub payload: Result<StoredPayload>,
}

fn code_of(why: Why) -> &'static str {
    match why {
        Why::TestFailed => "patch_test_failed",
        Why::TooCostly => "patch_too_costly",
        Why::BadPointer
        | Why::BadFrom
        | Why::NothingThere
        | Why::ValueMissing
        | Why::FromMissing
        | Why::WholeDocument
        | Why::IntoItself
        | Why::TooLarge
        | Why::TooMany => "bad_patch",
    }
}

fn differences(before: &str, after: &str) -> (Vec<json::DiffOperation>, bool) {
    let (Some(old), Some(new)) = (Tape::of(before), Tape::of(after)) else { return (Vec::new(), true) };
    let (mut changes, mut more) = json::diff(&old, &new);
    more |= changes.len() > SAMPLE_MAX_CHANGES;
    changes.truncate(SAMPLE_MAX_CHANGES);
    (changes, more)
}

fn json_payload(text: &str) -> Payload {
    let whole = Sha256::digest(text.as_bytes());
    let mut digest = Digest::default();
    digest.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
    Payload { kind: PayloadKind::Json, digest, encoded: encode(text.as_bytes()) }
}

/// The action on one run. A whole payload, the same for all runs, is encoded once.
pub fn verb(bulk: &Bulk) -> Result<Triage> {
    Ok(match bulk {
        Bulk::Replay(replay) => Triage::Replay(Box::new(replay_of(replay)?)),
        Bulk::Resolve => Triage::Resolve,
        Bulk::Discard => Triage::Discard,
        Bulk::Assign { to } => Triage::Assign { to: to.clone() },
        Bulk::Reassign { agent, queue } => Triage::Reassign { agent: agent.clone(), queue: queue.clone() },
        Bulk::Defer { until } => Triage::Defer { until: *until },
        Bulk::Merge { into } => Triage::Merge { into: into.clone() },
    })
}

fn replay_of(bulk: &BulkReplay) -> Result<Replay> {
    let BulkReplay { fix, instruction, model, agent, queue, payload_max_bytes: _ } = bulk.clone();
    let whole: Option<&RawJson> = fix.as_ref().and_then(|fix: &Fix| fix.payload.as_ref());
    let whole = whole.map(|raw| FixedPayload { from_revision: 0, payload: json_payload(raw.get()), patch: None });
    let request = ReplayRequest {
        fix,
        instruction: instruction.clone(),
        model: model.clone(),
        agent: agent.clone(),
        queue: queue.clone(),
        ..ReplayRequest::default()
    };
    let request = encode(attempts::json(&request)?.as_bytes());
    Ok(Replay { fix: whole, instruction, model, agent, queue, request, ..Replay::default() })
}

/// Binds the action to one run: with its own patched payload, or the common one and its revision.
pub fn bind(triage: &mut Triage, made: Made, revision: u32) {
    let Triage::Replay(replay) = triage else { return };
    match made {
        Made::Fixed(fixed) => replay.fix = Some(*fixed),
        Made::Nothing | Made::Not(_) => {
            if let Some(common) = &mut replay.fix {
                common.from_revision = revision;
            }
        }
    }
}
