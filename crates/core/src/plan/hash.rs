//! A plan's hash: the same for the same steps, revision, fix, target, versions and force, whenever and under whatever
//! breaker.

use std::fmt::Write;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::made::{GoesTo, Situation};
use crate::ledger::{VersionChange, Will};
use crate::text::Text;
use crate::wire::PlanStep;

/// Rises with whatever a plan is made of, so that no approval outlives a change of what it means.
const VERSION: u32 = 2;
const HASH_BYTES: usize = 16;

#[derive(Serialize)]
struct Hashed<'a> {
    version: u32,
    revision: u32,
    steps: Vec<(&'a str, bool, Will)>,
    payload: Option<&'a [u8]>,
    instruction: Option<&'a str>,
    target: GoesTo<'a>,
    from_step: Option<&'a str>,
    versions_changed: &'a [VersionChange],
    force: bool,
}

pub(super) fn hash(situation: &Situation<'_>, revision: u32, steps: &[PlanStep]) -> String {
    let proposed = situation.proposed;
    let hashed = Hashed {
        version: VERSION,
        revision,
        steps: steps.iter().map(|step| (step.key.as_str(), step.effect, step.will)).collect(),
        payload: proposed.payload.as_deref(),
        instruction: proposed.instruction.as_ref().map(Text::token),
        target: situation.target,
        from_step: proposed.from_step.as_ref().map(|step| step.as_str()),
        versions_changed: &situation.versions_changed,
        force: proposed.force,
    };
    // Plain strings and numbers always serialise.
    let bytes = serde_json::to_vec(&hashed).unwrap_or_default();
    Sha256::digest(bytes).iter().take(HASH_BYTES).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
