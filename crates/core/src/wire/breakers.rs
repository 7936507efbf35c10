//! Breakers as people see them and work them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::breaker::StateName;
use crate::ids::Tenant;
use crate::text::{Label, Text};
use crate::time::Timestamp;
use crate::wire::bounds;
use crate::words::words;

words! {
    /// What a breaker watches.
    pub enum BreakerScope {
        /// All that one tenant does.
        Tenant = "tenant",
        /// What one tenant asks of a provider's model.
        Model = "model",
        /// What everybody asks of a provider's model.
        Everywhere = "everywhere",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakerView {
    /// As `held_by` says it.
    pub name: Label,
    pub scope: BreakerScope,
    pub environment: Label,
    pub tenant: Option<Tenant>,
    pub provider: Option<Label>,
    pub model: Option<Label>,
    pub state: StateName,
    /// Of everybody's breaker only for those who see all tenants.
    pub since: Option<Timestamp>,
    /// Open: when one attempt may find out; opened by hand: when it closes, or until somebody closes it.
    pub until: Option<Timestamp>,
    /// Somebody opened it: replays wait too.
    pub by_hand: bool,
    pub opened_by: Option<String>,
    pub reason: Option<Text>,
    /// Openings in a row.
    pub tries: u32,
    /// Half open: an attempt is under way that finds out.
    pub probing: bool,
    /// Closed: attempts within the window; of everybody's breaker only for those who see all tenants.
    pub attempts: Option<u64>,
    pub failed: Option<u64>,
    /// Runs that it holds, counted up to 10,000; for a tenant its own.
    pub held: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakersAnswer {
    pub breakers: Vec<BreakerView>,
}

/// Something that happened to a breaker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakerEntry {
    pub at: Timestamp,
    pub breaker: Label,
    pub actor: String,
    /// opened, half_open, closed, reset or taken_over.
    pub event: String,
    pub note: Option<Text>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantBreaker {
    pub tenant: Tenant,
    /// The worst of them.
    pub state: StateName,
    pub breakers: Vec<BreakerView>,
    /// The newest first, at most 50.
    pub history: Vec<BreakerEntry>,
}

words! {
    /// What a person does to a breaker.
    pub enum BreakerAction {
        Open = "open",
        Close = "close",
        /// Closed, and what was counted is forgotten.
        Reset = "reset",
    }
}

/// `POST /v1/tenants/{tenant}/breaker`: the tenant's own, or with a provider or a model the one for that.
/// `POST /v1/breakers`: everybody's for a provider and model, at least one of which is named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakerRequest {
    pub action: BreakerAction,
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Text,
    /// Only with open: when it closes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// production when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Label>,
}
