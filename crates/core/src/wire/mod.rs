//! Request and response bodies of the API, shared by server and client. Strict: an unknown field is an error.
//! `docs/openapi.json` is generated from these types.

mod admin;
pub mod bounds;
mod operations;
mod patterns;
mod report;
mod runs;
mod triage;
mod worker;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use admin::{
    BreakerAction, BreakerEntry, BreakerRequest, BreakerScope, BreakerView, BreakersAnswer, ChangeEntry, ChangesAnswer,
    ClockJump, CreateKey, CreatedKey, HealthAnswer, KeyView, KeysAnswer, LimitsAnswer, QueueAlert, QueueSettings,
    QueueView, QueuesAnswer, Role, StatsAnswer, StatsPoint, TenantBreaker, TenantHealth, TenantLimits, TenantView,
    TenantsAnswer,
};
pub use operations::{
    Canary, CanaryState, CanaryView, ItemOutcome, Joined, NamedRun, OneOrMany, OperationAction, OperationFilter,
    OperationItem, OperationItemsPage, OperationRequest, OperationSample, OperationState, OperationView,
    OperationsPage,
};
pub use patterns::{
    AssignPattern, MergePattern, MergedPattern, MutePattern, PatternBody, PatternDetail, PatternEntry, PatternEvent,
    PatternHour, PatternSort, PatternState, PatternView, PatternsPage, ResolvePattern, UnmergePattern,
};
pub use report::{
    ErrorReport, FailureReport, Links, PayloadOmitted, ResponseReport, RunFields, Severity, StepReport, StepStatus,
    Usage, Versions,
};
pub use runs::{
    AttemptView, DlqAnswer, DlqMessage, DlqStatus, EffectOutcome, EffectView, FailureAnswer, HistoryEntry, PatternRef,
    ReconcileRequest, RunBody, RunDetail, RunSummary, RunsPage, Sort, StateAnswer, StepView,
};
pub use triage::{
    ApproveRequest, AssignRequest, DeferRequest, Duplicate, DuplicatesAnswer, Fix, Likeness, MergeRequest, PlanAnswer,
    PlanStep, PlanWarning, ReassignRequest, ReplayAnswer, ReplayRequest, ReviewView, RevisionView, TriageRequest,
    WarningCode,
};
pub use worker::{
    BeatAnswer, FailRequest, HandedChange, HeartbeatAnswer, HeartbeatRequest, HeartbeatsAnswer, HeartbeatsRequest,
    LeaseBeat, LeaseRequest, LeasedRun, LeasesAnswer, Mode, PreflightAnswer, PreflightBrief, PreflightRequest,
    ReleaseRequest, SentAnswer, StartAnswer, StartRequest, StepRequest, SucceedAnswer, SucceedRequest,
};

/// Any JSON, kept as the bytes it came in.
pub type RawJson = Box<serde_json::value::RawValue>;

/// `application/problem+json` with a stable `code` and, beside it, what the code's page in docs/errors names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub code: String,
    pub detail: String,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}
