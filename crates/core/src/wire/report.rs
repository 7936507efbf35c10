//! What producers and workers report of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{IdempotencyKey, OrderKey, QueueName, RunId, StepKey, Tenant};
use crate::reason::{Category, Reason};
use crate::text::{Label, Text};
use crate::time::ClientTime;
use crate::wire::{RawJson, bounds};
use crate::words::words;

words! {
    pub enum Severity {
        Low = "low",
        Normal = "normal",
        High = "high",
        Critical = "critical",
    }
}

words! {
    /// The status of a step.
    pub enum StepStatus {
        Started = "started",
        Committed = "committed",
        Failed = "failed",
        /// Started, and the attempt ended without an outcome.
        Unknown = "unknown",
        /// It was unknown; a person or the step's own check has settled it.
        Reconciled = "reconciled",
    }
}

pub type Versions = BTreeMap<String, Label>;
pub type Links = BTreeMap<String, Text>;

/// A payload that was too large to send: what it was, so that it can be found again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PayloadOmitted {
    #[schemars(range(max = bounds::INTEGER_MAX))]
    pub bytes: u64,
    pub sha256: Label,
}

/// What was thrown, or what the service answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorReport {
    /// The exception class or the provider's code.
    #[serde(default, rename = "type")]
    #[schemars(extend("x-cut-bytes" = bounds::ERROR_TYPE_CUT_BYTES))]
    pub error_type: Option<Text>,
    #[schemars(extend("x-cut-bytes" = bounds::MESSAGE_CUT_BYTES))]
    pub message: Text,
    /// A traceback, or whatever else there is.
    #[serde(default)]
    #[schemars(extend("x-cut-bytes" = bounds::DETAIL_CUT_BYTES))]
    pub detail: Option<Text>,
    #[serde(default)]
    pub http_status: Option<u16>,
    #[serde(default)]
    #[schemars(schema_with = "bounds::evidence_headers")]
    pub headers: BTreeMap<String, Text>,
    /// The caller's own reason; outranks the built-in rules.
    #[serde(default)]
    pub reason: Option<Reason>,
    #[serde(default)]
    pub category: Option<Category>,
    /// Nothing more may be tried, whatever the reason.
    #[serde(default)]
    pub terminal: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResponseReport {
    #[serde(default)]
    pub status: Option<u16>,
    #[serde(default)]
    #[schemars(schema_with = "bounds::evidence_headers")]
    pub headers: BTreeMap<String, Text>,
    #[serde(default)]
    #[schemars(extend("x-cut-bytes" = bounds::RESPONSE_BODY_CUT_BYTES))]
    pub body: Option<Text>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    #[serde(default)]
    #[schemars(range(max = bounds::TOKENS_MAX))]
    pub input_tokens: Option<u64>,
    #[serde(default)]
    #[schemars(range(max = bounds::TOKENS_MAX))]
    pub output_tokens: Option<u64>,
    #[serde(default)]
    #[schemars(range(min = 0.0, max = bounds::COST_USD_MAX))]
    pub cost_usd: Option<f64>,
}

/// A step as a worker reports it with the end of its attempt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepReport {
    pub name: Label,
    #[serde(default)]
    pub key: Option<StepKey>,
    /// Does it change the outside world? A step that does not say counts as one that does.
    #[serde(default)]
    pub effect: Option<bool>,
    pub status: StepStatus,
    #[serde(default)]
    #[schemars(schema_with = "bounds::free")]
    pub output: Option<RawJson>,
    /// How to find out whether it happened; shown to the person who reconciles it.
    #[serde(default)]
    #[schemars(length(max = bounds::STEP_CHECK_MAX_BYTES))]
    pub check: Option<Text>,
}

macro_rules! report_with_run_fields {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$fdoc:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            pub run_id: RunId,
            /// Needed with a key that spans tenants; otherwise the key's own.
            #[serde(default)]
            pub tenant: Option<Tenant>,
            #[serde(default)]
            pub queue: Option<QueueName>,
            #[serde(default)]
            pub agent: Option<Label>,
            #[serde(default)]
            pub task_type: Option<Label>,
            /// Any JSON; kept and given back byte for byte.
            #[serde(default)]
            #[schemars(schema_with = "bounds::free")]
            pub payload: Option<RawJson>,
            /// Bytes that are not JSON.
            #[serde(default)]
            #[schemars(schema_with = "bounds::free_text")]
            pub payload_base64: Option<String>,
            #[serde(default)]
            pub payload_omitted: Option<PayloadOmitted>,
            #[serde(default)]
            pub content_type: Option<Label>,
            #[serde(default)]
            #[schemars(schema_with = "bounds::headers")]
            pub headers: BTreeMap<String, Text>,
            #[serde(default)]
            pub idempotency_key: Option<IdempotencyKey>,
            /// Runs that share it are executed one at a time.
            #[serde(default)]
            pub order_key: Option<OrderKey>,
            #[serde(default)]
            pub environment: Option<Label>,
            #[serde(default)]
            pub customer: Option<Label>,
            #[serde(default)]
            pub severity: Option<Severity>,
            #[serde(default)]
            #[schemars(schema_with = "bounds::versions")]
            pub versions: Versions,
            #[serde(default)]
            pub model: Option<Label>,
            #[serde(default)]
            pub provider: Option<Label>,
            #[serde(default)]
            pub resumable: Option<bool>,
            #[serde(default)]
            #[schemars(schema_with = "bounds::links")]
            pub links: Links,
            #[serde(default)]
            pub destination: Option<Label>,
            $($(#[$fdoc])* pub $field: $type,)*
        }

        impl $name {
            /// Takes what describes the run out of the report.
            pub fn take_run_fields(&mut self) -> RunFields {
                RunFields {
                    run_id: self.run_id.clone(),
                    queue: self.queue.take(),
                    agent: self.agent.take(),
                    task_type: self.task_type.take(),
                    payload: self.payload.take(),
                    payload_base64: self.payload_base64.take(),
                    payload_omitted: self.payload_omitted.take(),
                    content_type: self.content_type.take(),
                    headers: std::mem::take(&mut self.headers),
                    idempotency_key: self.idempotency_key.take(),
                    order_key: self.order_key.take(),
                    environment: self.environment.take(),
                    customer: self.customer.take(),
                    severity: self.severity.take(),
                    versions: std::mem::take(&mut self.versions),
                    model: self.model.take(),
                    provider: self.provider.take(),
                    resumable: self.resumable.take(),
                    links: std::mem::take(&mut self.links),
                    destination: self.destination.take(),
                }
            }
        }
    };
}

pub(super) use report_with_run_fields;

/// What describes a run, in a report as in a start.
#[derive(Debug, Clone)]
pub struct RunFields {
    pub run_id: RunId,
    pub queue: Option<QueueName>,
    pub agent: Option<Label>,
    pub task_type: Option<Label>,
    pub payload: Option<RawJson>,
    pub payload_base64: Option<String>,
    pub payload_omitted: Option<PayloadOmitted>,
    pub content_type: Option<Label>,
    pub headers: BTreeMap<String, Text>,
    pub idempotency_key: Option<IdempotencyKey>,
    pub order_key: Option<OrderKey>,
    pub environment: Option<Label>,
    pub customer: Option<Label>,
    pub severity: Option<Severity>,
    pub versions: Versions,
    pub model: Option<Label>,
    pub provider: Option<Label>,
    pub resumable: Option<bool>,
    pub links: Links,
    pub destination: Option<Label>,
}

report_with_run_fields! {
    /// One failed attempt in one call: `POST /v1/failures`.
    pub struct FailureReport {
        /// Which execution failed, from 1; absent: the server works it out.
        #[serde(default)]
        #[schemars(range(min = 1, max = bounds::ATTEMPT_MAX))]
        pub attempt: Option<u32>,
        #[serde(default)]
        pub tool: Option<Label>,
        #[serde(default)]
        pub step: Option<Label>,
        pub error: ErrorReport,
        #[serde(default)]
        pub response: Option<ResponseReport>,
        #[serde(default)]
        #[schemars(extend("x-cut-bytes" = bounds::PARTIAL_OUTPUT_CUT_BYTES))]
        pub partial_output: Option<Text>,
        #[serde(default)]
        pub finish_reason: Option<Label>,
        #[serde(default)]
        pub usage: Option<Usage>,
        #[serde(default)]
        #[schemars(length(max = bounds::STEPS_MAX))]
        pub steps: Vec<StepReport>,
        #[serde(default)]
        #[schemars(extend("x-cut-bytes" = bounds::CLIENT_TIME_CUT_BYTES))]
        pub started_at: Option<ClientTime>,
        #[serde(default)]
        #[schemars(extend("x-cut-bytes" = bounds::CLIENT_TIME_CUT_BYTES))]
        pub ended_at: Option<ClientTime>,
    }
}
