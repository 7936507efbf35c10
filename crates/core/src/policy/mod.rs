//! What a queue allows: budget, schedule, clocks. Layers say only what they change; resolving them gives one
//! [`Policy`] without gaps: defaults ← tier ← queue ← tenant.

mod approval;
mod layer;
mod preset;
mod resolved;

pub use approval::{Approval, NoSuchApproval, ReplayApproval};
pub use layer::{BadSetting, LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, PolicyLayer};
pub use preset::{Preset, RetryBy, Schedule};
pub use resolved::{Policies, Policy, TenantPolicy};
