//! Breakers' rows: read whole, written with the commit that moved them.

use redrive_core::breaker::{Breaker, Key, Scope};
use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::time::DAY_MS;
use redrive_core::wire::BreakerEntry;

use crate::commands::attempts::json;
use crate::commands::batch::Batch;
use crate::error::{Error, Result};
use crate::kept::columns::{Columns, label, label_or_none, owned, packed_json, packed_note, parsed_or_none, time};
use crate::model::Swept;

/// Of one breaker; one that flaps for weeks pushes out nobody else's.
const EVENTS_KEPT_MAX: usize = 1_000;
/// Of all of them, also of those that are long gone.
const EVENTS_KEPT_MS: u64 = 90 * DAY_MS;

/// The columns of [`read_breaker`]: of a breaker `b` and its tenant `t`.
pub(crate) const COLUMNS: &str = "b.environment, t.name, b.provider, b.model, b.life";

pub(crate) fn read_breaker(row: &impl Columns) -> Result<(Key, Breaker)> {
    let unreadable = || Error::Unexpected("a breaker that watches nothing".into());
    let tenant: Option<Tenant> = parsed_or_none(row, 1, "tenant")?;
    let scope = match (tenant, label_or_none(row, 2)?, label_or_none(row, 3)?) {
        (Some(tenant), Some(provider), Some(model)) => Scope::Model { tenant, provider, model },
        (None, Some(provider), Some(model)) => Scope::Everywhere { provider, model },
        (Some(tenant), None, None) => Scope::Tenant { tenant },
        (_, None, Some(_)) | (_, Some(_), None) | (None, None, None) => return Err(unreadable()),
    };
    Ok((Key { environment: label(row, 0)?, scope }, packed_json(row, 4, "a breaker")?))
}

/// The columns of [`read_entry`].
pub(crate) const ENTRY: &str = "at, name, actor, event, note";

pub(crate) fn read_entry(row: &impl Columns) -> Result<BreakerEntry> {
    Ok(BreakerEntry {
        at: time(row, 0)?,
        breaker: label(row, 1)?,
        actor: owned(row, 2)?,
        event: owned(row, 3)?,
        note: packed_note(row, 4)?,
    })
}

/// Writes what moved; the batch's last act but for its counters.
pub(crate) fn fold(batch: &mut Batch<'_>) -> Result<()> {
    if batch.known.breakers.last_changed {
        batch.rows.put_generation(batch.known.breakers.last)?;
        batch.known.breakers.last_changed = false;
    }
    for key in std::mem::take(&mut batch.known.breakers.dirty) {
        let Some(breaker) = batch.known.breakers.all.get(&key).cloned() else { continue };
        if breaker.is_blank() {
            batch.rows.delete_breaker(&key, &breaker)?;
            continue;
        }
        let tenant = key.tenant().map(|tenant| batch.tenant(tenant)).transpose()?;
        batch.rows.put_breaker(&key, tenant, &json(&breaker)?)?;
    }
    Ok(())
}

/// Writes down what happened to a breaker, and who did it.
pub(super) fn note(batch: &mut Batch<'_>, name: &Label, actor: &str, event: &str, note: Option<&Text>) -> Result<()> {
    batch.rows.insert_breaker_event(name, actor, event, note, batch.now)?;
    batch.rows.forget_breaker_events(name, EVENTS_KEPT_MAX)
}

/// Forgets what happened to breakers long ago, the oldest first.
pub(crate) fn trim_events(batch: &mut Batch<'_>, most: usize) -> Result<Swept> {
    batch.rows.trim_breaker_events(batch.now.minus_ms(EVENTS_KEPT_MS), most)
}
