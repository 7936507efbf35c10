//! What was recorded under other versions than those that would run now: a replay skips work that a newer prompt, tool
//! or worker might do otherwise, and says so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::Label;
use crate::wire::Versions;

/// A kind of version (prompt, tool, worker) that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct VersionChange {
    pub kind: String,
    /// Under which a step that would be skipped was recorded.
    pub recorded: Label,
    pub now: Label,
}

/// Each change once. A kind that either side does not name tells nothing.
pub fn versions_changed<'a>(recorded: impl IntoIterator<Item = &'a Versions>, now: &Versions) -> Vec<VersionChange> {
    let mut changes: Vec<VersionChange> = recorded
        .into_iter()
        .flatten()
        .filter_map(|(kind, recorded)| {
            let now = now.get(kind).filter(|now| *now != recorded)?;
            Some(VersionChange { kind: kind.clone(), recorded: recorded.clone(), now: now.clone() })
        })
        .collect();
    changes.sort();
    changes.dedup();
    changes
}
