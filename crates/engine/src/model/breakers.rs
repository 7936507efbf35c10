//! What a person does to a breaker.

use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::BreakerAction;

/// A person's word on one breaker of a tenant: its own, or with a provider or a model the one for that. Without a tenant it
/// is everybody's breaker for that provider and model.
#[derive(Debug, Clone)]
pub struct BreakerAct {
    pub tenant: Option<Tenant>,
    pub environment: Label,
    pub provider: Option<Label>,
    pub model: Option<Label>,
    pub action: BreakerAction,
    pub until: Option<Timestamp>,
    pub actor: String,
    pub reason: Option<Text>,
}
