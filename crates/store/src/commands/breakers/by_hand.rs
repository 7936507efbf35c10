//! A person opens or closes a breaker.

use redrive_core::breaker::{ByHand, Event, Key, Scope};
use redrive_core::text::Label;
use redrive_core::wire::{BreakerAction, BreakerView};

use crate::breaker_model::BreakerAct;
use crate::commands::batch::Batch;
use crate::commands::breakers::{kept, views};
use crate::error::{Error, Result};

/// `POST /v1/tenants/{tenant}/breaker`, `POST /v1/breakers`.
pub(crate) fn operate(batch: &mut Batch<'_>, act: &BreakerAct) -> Result<BreakerView> {
    if let Some(tenant) = &act.tenant {
        // Nobody makes a tenant by freezing it.
        batch.find_tenant(tenant)?.ok_or(Error::NotFound("tenant"))?;
    }
    batch.lock_breakers()?;
    let key = Key { environment: act.environment.clone(), scope: scope(act) };
    let settings = batch.settings_of(&key);
    let event = match act.action {
        BreakerAction::Open => {
            let by = ByHand { actor: act.actor.clone(), reason: act.reason.clone() };
            Event::OpenedByHand { by, until: act.until }
        }
        BreakerAction::Close | BreakerAction::Reset => Event::Reset,
    };
    batch.move_breaker(&key, &event, &settings)?;
    match act.action {
        // The opening has written itself down.
        BreakerAction::Open => {}
        BreakerAction::Close => kept::note(batch, &key.name(), &act.actor, "closed", act.reason.as_ref())?,
        BreakerAction::Reset => kept::note(batch, &key.name(), &act.actor, "reset", act.reason.as_ref())?,
    }
    views::view(batch, &key)
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
