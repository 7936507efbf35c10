//! What a queue allows: budget, schedule, clocks. Layers say only what they change; resolving them gives one
//! [`Policy`] without gaps: defaults ← tier ← queue ← tenant.

mod approval;
mod detectors;
mod layer;
mod resolved;
mod sections;

pub use approval::{Approval, NoSuchApproval, ReplayApproval};
pub use detectors::{DetectLayer, Detectors};
pub use layer::{BadSetting, LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, PolicyLayer, Preset, RetryBy, Schedule};
pub use resolved::{Agents, Policies, Policy, TenantPolicy};
pub use sections::{
    BreakerLayer, BreakerSettings, Budgets, Limits, PayloadFormat, PayloadShape, Preflight, StrategiesLayer,
    StrategyLayer, Towards,
};
