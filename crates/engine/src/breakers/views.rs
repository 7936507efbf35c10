//! Breakers in answers of the API.

use redrive_core::breaker::{Breaker, BreakerState, BreakerStateName, Key, Scope};
use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::wire::{BreakerEntry, BreakerScope, BreakerView, BreakersAnswer, TenantBreaker};

use crate::breakers::cache;
use crate::breakers::gate::worst;
use crate::error::{Error, Result};
use crate::model::TenantScope;
use crate::tx::Tx;

const HELD_COUNT_MAX: u64 = 10_000;
const HISTORY_MAX: usize = 50;

/// `GET /v1/breakers`: breakers that are not closed or have recent failures.
pub fn breakers(tx: &mut Tx<'_>, scope: &TenantScope) -> Result<BreakersAnswer> {
    let tenant = match scope {
        TenantScope::All => None,
        TenantScope::One(tenant) => Some(tenant),
    };
    let keys = shown_keys(tx, tenant, |key| match scope {
        TenantScope::All => true,
        TenantScope::One(tenant) => key.tenant().is_none_or(|whose| whose == tenant),
    })?;
    let mut shown = Vec::new();
    for key in &keys {
        match scope {
            TenantScope::One(tenant) if key.tenant().is_none() => shown.extend(as_held(tx, key, tenant)?),
            TenantScope::One(_) | TenantScope::All => shown.push(view(tx, key)?),
        }
    }
    // All counted failures are older than the window.
    shown.retain(|view| view.failed != Some(0));
    Ok(BreakersAnswer { breakers: shown })
}

/// The shared breaker as a tenant sees it: only that it holds the tenant's runs, and until when. The rest is about other
/// tenants.
fn as_held(tx: &mut Tx<'_>, key: &Key, tenant: &Tenant) -> Result<Option<BreakerView>> {
    let Some(tenant) = tx.find_tenant(tenant)? else { return Ok(None) };
    let held = tx.rows.held_count(&key.name(), Some(tenant), HELD_COUNT_MAX)?;
    if held == 0 {
        return Ok(None);
    }
    let whole = view(tx, key)?;
    Ok(Some(BreakerView {
        state: BreakerStateName::Open,
        since: None,
        opened_by: None,
        reason: None,
        tries: 0,
        probing: false,
        attempts: None,
        failed: None,
        held,
        ..whole
    }))
}

/// `GET /v1/tenants/{tenant}/breaker`.
pub fn tenant_breaker(tx: &mut Tx<'_>, tenant: &Tenant) -> Result<TenantBreaker> {
    tx.find_tenant(tenant)?.ok_or(Error::NotFound("tenant"))?;
    let breakers = breakers(tx, &TenantScope::One(tenant.clone()))?.breakers;
    let history = history(tx, tenant)?;
    let state = worst(breakers.iter().map(|breaker| breaker.state));
    Ok(TenantBreaker { tenant: tenant.clone(), state, breakers, history })
}

/// The breakers to show, by name, with transitions due by time applied.
fn shown_keys(tx: &mut Tx<'_>, tenant: Option<&Tenant>, wanted: impl Fn(&Key) -> bool) -> Result<Vec<Key>> {
    cache::load_breakers(tx)?;
    match tenant {
        None => cache::know_breakers_in(tx, None)?,
        Some(tenant) => {
            if let Some(number) = tx.find_tenant(tenant)? {
                cache::know_breakers_in(tx, Some(number))?;
            }
        }
    }
    let known = &tx.known.breakers.all;
    let mut keys: Vec<Key> =
        known.iter().filter(|(key, breaker)| wanted(key) && !breaker.is_blank()).map(|(key, _)| key.clone()).collect();
    keys.sort();
    for key in &keys {
        let settings = cache::settings_of(tx, key);
        cache::tick_cached(tx, key, &settings);
    }
    Ok(keys)
}

pub(super) fn view(tx: &mut Tx<'_>, key: &Key) -> Result<BreakerView> {
    let name = key.name();
    let held = tx.rows.held_count(&name, None, HELD_COUNT_MAX)?;
    let breaker = tx.known.breakers.all.get(key).cloned().unwrap_or_else(|| Breaker::new(0, tx.now));
    let (scope, named) = match &key.scope {
        Scope::Tenant { .. } => (BreakerScope::Tenant, None),
        Scope::Model { provider, model, .. } => (BreakerScope::Model, Some((provider, model))),
        Scope::Everywhere { provider, model } => (BreakerScope::Everywhere, Some((provider, model))),
    };
    let unless_empty = |name: &Label| (!name.as_str().is_empty()).then(|| name.clone());
    let mut view = BreakerView {
        name,
        scope,
        environment: key.environment.clone(),
        tenant: key.tenant().cloned(),
        provider: named.and_then(|(provider, _)| unless_empty(provider)),
        model: named.and_then(|(_, model)| unless_empty(model)),
        state: breaker.name(),
        since: Some(breaker.since),
        until: None,
        by_hand: breaker.is_by_hand(),
        opened_by: None,
        reason: None,
        tries: 0,
        probing: false,
        attempts: None,
        failed: None,
        held,
    };
    match breaker.state {
        BreakerState::Closed { window } => {
            let (attempts, failed) = window.figures(tx.now);
            (view.attempts, view.failed) = (Some(attempts), Some(failed));
        }
        BreakerState::Open { until, tries, by_hand } => {
            (view.until, view.tries) = (until, tries);
            if let Some(by) = by_hand {
                (view.opened_by, view.reason) = (Some(by.actor), by.reason);
            }
        }
        BreakerState::HalfOpen { probe, tries } => (view.probing, view.tries) = (probe.is_some(), tries),
    }
    Ok(view)
}

/// The history of the tenant's own breakers.
fn history(tx: &mut Tx<'_>, tenant: &Tenant) -> Result<Vec<BreakerEntry>> {
    let names: Vec<Label> = {
        let own = tx.known.breakers.all.keys().filter(|key| key.tenant() == Some(tenant));
        let default = Key { environment: Label::from("production"), scope: Scope::Tenant { tenant: tenant.clone() } };
        let mut names: Vec<Label> = own.map(Key::name).chain([default.name()]).collect();
        names.sort();
        names.dedup();
        names
    };
    let mut entries = Vec::new();
    for name in &names {
        entries.extend(tx.rows.breaker_events(name, HISTORY_MAX)?);
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.at));
    entries.truncate(HISTORY_MAX);
    Ok(entries)
}
