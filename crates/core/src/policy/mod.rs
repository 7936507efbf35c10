//! What a queue allows: budget, schedule, clocks. Layers say only what they change; resolving them gives one
//! [`Policy`] without gaps: defaults ← tier ← queue ← tenant.

mod agents;
mod approval;
mod breaker;
mod budgets;
mod detectors;
mod layer;
mod limits;
mod payload;
mod preset;
mod resolved;
mod strategies;

pub use agents::Agents;
pub use approval::{Approval, NoSuchApproval, ReplayApproval};
pub use breaker::{BreakerLayer, BreakerSettings};
pub use budgets::Budgets;
pub use detectors::{DetectLayer, Detectors};
pub use layer::{BadSetting, LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, PolicyLayer};
pub use limits::Limits;
pub use payload::{PayloadFormat, PayloadShape, Preflight};
pub use preset::{Preset, RetryBy, Schedule};
pub use resolved::{Policies, Policy, TenantPolicy};
pub use strategies::{StrategiesLayer, StrategyLayer, Towards};
