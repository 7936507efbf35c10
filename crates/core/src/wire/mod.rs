//! The bodies of the API, as server and client both read and write them. Strict: an unknown field is an error.
//! What a field means is in `docs/openapi.json`, which is made from these types.

mod admin;
mod answers;
pub mod bounds;
mod breakers;
mod effects;
mod figures;
mod list;
mod operations;
mod patterns;
mod preflight;
mod problem;
mod report;
mod triage;
mod worker;

pub use admin::{CreateKey, CreatedKey, KeyView, KeysAnswer, QueueSettings, QueueView, QueuesAnswer, Role};
pub use answers::{
    AttemptView, FailureAnswer, HistoryEntry, PatternRef, RunBody, RunDetail, RunSummary, StateAnswer, StepView,
};
pub use breakers::{
    BreakerAction, BreakerEntry, BreakerRequest, BreakerScope, BreakerView, BreakersAnswer, TenantBreaker,
};
pub use effects::{EffectOutcome, EffectView, ReconcileRequest};
pub use figures::{
    ChangeEntry, ChangesAnswer, ClockJump, HealthAnswer, LimitsAnswer, QueueAlert, StatsAnswer, StatsPoint,
    TenantHealth, TenantLimits, TenantView, TenantsAnswer,
};
pub use list::{DlqAnswer, DlqMessage, DlqStatus, RunsPage, Sort};
pub use operations::{
    Canary, CanaryState, CanaryView, ItemOutcome, Joined, NamedRun, OneOrMany, OperationAction, OperationFilter,
    OperationItem, OperationItemsPage, OperationRequest, OperationSample, OperationState, OperationView,
    OperationsPage,
};
pub use patterns::{
    AssignPattern, MergePattern, MergedPattern, MutePattern, PatternBody, PatternDetail, PatternEntry, PatternEvent,
    PatternHour, PatternSort, PatternState, PatternView, PatternsPage, ResolvePattern, UnmergePattern,
};
pub use preflight::{PreflightAnswer, PreflightBrief, PreflightRequest, SentAnswer};
pub use problem::Problem;
pub use report::{
    ErrorReport, FailureReport, Links, PayloadOmitted, ResponseReport, RunFields, Severity, StepReport, StepStatus,
    Usage, Versions,
};
pub use triage::{
    ApproveRequest, AssignRequest, DeferRequest, Duplicate, DuplicatesAnswer, Fix, Likeness, MergeRequest, PlanAnswer,
    PlanStep, PlanWarning, ReassignRequest, ReplayAnswer, ReplayRequest, ReviewView, RevisionView, TriageRequest,
    WarningCode,
};
pub use worker::{
    BeatAnswer, FailRequest, HandedChange, HeartbeatAnswer, HeartbeatRequest, HeartbeatsAnswer, HeartbeatsRequest,
    LeaseBeat, LeaseRequest, LeasedRun, LeasesAnswer, Mode, ReleaseRequest, StartAnswer, StartRequest, StepRequest,
    SucceedAnswer, SucceedRequest,
};

/// Any JSON, kept as the bytes it came in.
pub type RawJson = Box<serde_json::value::RawValue>;
