//! The ledger, looked into and settled: `/v1/effects/{key}`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{RunId, StepKey, Tenant};
use crate::text::{Label, Text};
use crate::time::Timestamp;
use crate::wire::report::{PayloadOmitted, StepStatus, Versions};
use crate::wire::{RawJson, bounds};
use crate::words::words;

words! {
    /// What turned out about an effect in doubt.
    pub enum EffectOutcome {
        /// It happened.
        Committed = "committed",
        /// Nothing happened: it may be begun anew.
        NotDone = "not_done",
    }
}

/// An entry of the ledger: a step or effect with the run that it belongs to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EffectView {
    pub tenant: Tenant,
    pub run_id: RunId,
    pub key: StepKey,
    pub name: Label,
    pub effect: bool,
    pub status: StepStatus,
    /// With `reconciled`: what it was reconciled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EffectOutcome>,
    #[schemars(with = "Option<serde_json::Value>")]
    pub output: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_omitted: Option<PayloadOmitted>,
    /// How to find out whether it happened, as the step declared.
    pub check: Option<Text>,
    /// The attempt that began it.
    pub attempt: u32,
    /// What that attempt ran with.
    pub versions: Versions,
    /// When the intent was recorded; none where only the outcome was.
    pub started_at: Option<Timestamp>,
    /// When it came to stand as it does.
    pub at: Timestamp,
    /// When it was last recorded or given back; it is kept for 90 days after that, and as long as its run.
    pub last_used_at: Timestamp,
    /// Who reconciled it.
    pub settled_by: Option<String>,
}

/// Settle an effect in doubt: `POST /v1/effects/{key}/reconcile`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReconcileRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    pub outcome: EffectOutcome,
    /// With `committed`: what it gave; a replay gets it back.
    #[serde(default)]
    #[schemars(schema_with = "bounds::free")]
    pub output: Option<RawJson>,
    #[serde(default)]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
}
