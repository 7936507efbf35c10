//! Manual opening and closing of a breaker.

use redrive_core::breaker::{BreakerEvent, ByHand, Key, Scope};
use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{BreakerAction, BreakerView};

use crate::breakers::cache;
use crate::breakers::{stored, views};
use crate::error::{Error, Result};
use crate::tx::Tx;

/// Opens or closes one breaker: the tenant's own, or with a provider or a model the tenant's breaker for that. Without a
/// tenant it is the shared breaker of that provider and model.
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

/// `POST /v1/tenants/{tenant}/breaker`, `POST /v1/breakers`.
pub fn operate(tx: &mut Tx<'_>, act: &BreakerAct) -> Result<BreakerView> {
    if let Some(tenant) = &act.tenant {
        // Opening a breaker does not create a tenant.
        tx.find_tenant(tenant)?.ok_or(Error::NotFound("tenant"))?;
    }
    cache::lock_breakers(tx)?;
    let key = Key { environment: act.environment.clone(), scope: scope(act) };
    let settings = cache::settings_of(tx, &key);
    let event = match act.action {
        BreakerAction::Open => {
            let by = ByHand { actor: act.actor.clone(), reason: act.reason.clone() };
            BreakerEvent::OpenedByHand { by, until: act.until }
        }
        BreakerAction::Close | BreakerAction::Reset => BreakerEvent::Reset,
    };
    cache::move_breaker(tx, &key, &event, &settings)?;
    match act.action {
        // `move_breaker` records an opening.
        BreakerAction::Open => {}
        BreakerAction::Close => stored::note(tx, &key.name(), &act.actor, "closed", act.reason.as_ref())?,
        BreakerAction::Reset => stored::note(tx, &key.name(), &act.actor, "reset", act.reason.as_ref())?,
    }
    views::view(tx, &key)
}

fn scope(act: &BreakerAct) -> Scope {
    let named = |name: &Option<Label>| name.clone().unwrap_or_else(|| Label::from(""));
    let (provider, model) = (named(&act.provider), named(&act.model));
    match &act.tenant {
        None => Scope::Everywhere { provider, model },
        Some(tenant) if act.provider.is_none() && act.model.is_none() => Scope::Tenant { tenant: tenant.clone() },
        Some(tenant) => Scope::Model { tenant: tenant.clone(), provider, model },
    }
}
