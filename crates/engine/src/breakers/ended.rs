//! Counts the end of an attempt for its breakers, in the same commit.

use redrive_core::breaker::{BreakerEvent, BreakerStateName, Counts, Key, Probe, Scope, counts};
use redrive_core::policy::Policy;
use redrive_core::reason::Reason;

use crate::breakers::cache;
use crate::breakers::stored;
use crate::error::Result;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// Counts the end of the attempt under `epoch`; without a reason it was a success. Attempts without a lease are not
/// counted: their successes are not reported, so they would distort the failure rate.
pub fn attempt_ended(
    tx: &mut Tx<'_>,
    row: &RunRow,
    epoch: Option<u64>,
    failed: Option<&Reason>,
    policy: &Policy,
) -> Result<()> {
    let Some(epoch) = epoch.filter(|_| policy.breaker.on) else { return Ok(()) };
    let attempt = Probe { run: row.id, epoch };
    let generation = row.generation;
    let keys = keys_counted(tx, row, failed)?;
    for key in keys.iter().cloned() {
        if is_taken_over(tx, &key) {
            continue;
        }
        let counts = counts(&key.scope, failed);
        if counts == Counts::Nothing && !tx.known.breakers.open.contains(&key) {
            continue;
        }
        // A success of a breaker without failures needs no lock.
        if counts != Counts::Success || !tx.known.breakers.is_blank(&key) {
            cache::lock_breakers(tx)?;
            cache::know_breakers(tx, &keys)?;
        }
        if failed == Some(&Reason::Silent) && tx.known.breakers.open.contains(&key) {
            // A silent probe has no result; its slot becomes free.
            cache::move_breaker(tx, &key, &BreakerEvent::ProbeLost(attempt), &policy.breaker)?;
            continue;
        }
        let before = tx.known.breakers.all.get(&key).map_or(BreakerStateName::Closed, |breaker| breaker.name());
        let settings = if key.tenant().is_some() { policy.breaker } else { tx.policies.shared_breakers() };
        let event = BreakerEvent::Ended { attempt, voter: row.tenant, counts, generation };
        let after = cache::move_breaker(tx, &key, &event, &settings)?;
        if (before, after) == (BreakerStateName::Closed, BreakerStateName::Open) {
            take_over(tx, &key)?;
        }
    }
    Ok(())
}

/// The breakers that count the end of an attempt. A tenant has a limited number of breakers; further names share one,
/// which does not count for the shared breaker of all tenants.
fn keys_counted(tx: &mut Tx<'_>, row: &RunRow, failed: Option<&Reason>) -> Result<Vec<Key>> {
    let mut keys = cache::keys_of(tx, row)?;
    let others: Vec<Key> = keys.iter().filter_map(Key::other).collect();
    let all: Vec<Key> = keys.iter().chain(&others).cloned().collect();
    cache::know_breakers(tx, &all)?;
    let mut beyond = false;
    for key in &mut keys {
        let Some(other) = key.other().filter(|_| tx.known.breakers.is_blank(key)) else { continue };
        let is_new = counts(&key.scope, failed) == Counts::Failure;
        if !tx.known.breakers.is_blank(&other) || (is_new && cache::has_all_breakers(tx, row.tenant)?) {
            beyond |= key.is_of_a_model();
            *key = other;
        } else if is_new {
            *tx.known.breakers.counted.entry(row.tenant).or_default() += 1;
        }
    }
    if beyond {
        keys.retain(|key| key.tenant().is_some() || !tx.known.breakers.is_blank(key));
    }
    Ok(keys)
}

/// A tenant's breaker for a model does not count while the shared breaker of that model is open.
fn is_taken_over(tx: &Tx<'_>, key: &Key) -> bool {
    match &key.scope {
        Scope::Model { .. } if tx.known.breakers.open.is_empty() => false,
        Scope::Model { provider, model, .. } => {
            let scope = Scope::Everywhere { provider: provider.clone(), model: model.clone() };
            tx.known.breakers.open.contains(&Key { environment: key.environment.clone(), scope })
        }
        Scope::Tenant { .. } | Scope::Everywhere { .. } => false,
    }
}

/// The shared breaker opened: closes the tenants' own breakers of that model, except those opened manually.
fn take_over(tx: &mut Tx<'_>, wide: &Key) -> Result<()> {
    let Scope::Everywhere { provider, model } = &wide.scope else { return Ok(()) };
    let (settings, known) = (tx.policies.shared_breakers(), &tx.known.breakers);
    let is_part = |key: &&Key| match &key.scope {
        Scope::Model { provider: p, model: m, .. } => p == provider && m == model,
        Scope::Tenant { .. } | Scope::Everywhere { .. } => false,
    };
    let by_hand = |key: &Key| known.all.get(key).is_some_and(|breaker| breaker.is_by_hand());
    let parts = known.open.iter().filter(|key| key.environment == wide.environment).filter(is_part);
    for key in parts.filter(|key| !by_hand(key)).cloned().collect::<Vec<_>>() {
        cache::move_breaker(tx, &key, &BreakerEvent::Reset, &settings)?;
        stored::note(tx, &key.name(), "engine", "taken_over", None)?;
    }
    Ok(())
}
