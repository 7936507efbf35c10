//! Breakers' rows: written with the commit that moved them.

use redrive_core::text::{Label, Text};

use crate::commands::attempts::json;
use crate::commands::batch::Batch;
use crate::error::Result;

/// Writes what moved; the batch's last act but for its counters.
pub(crate) fn fold(batch: &mut Batch<'_>) -> Result<()> {
    if batch.known.breakers.last_changed {
        batch.rows.put_generation(batch.known.breakers.last)?;
        batch.known.breakers.last_changed = false;
    }
    for key in std::mem::take(&mut batch.known.breakers.dirty) {
        let known = batch.known.breakers.all.get(&key).filter(|breaker| !breaker.is_blank());
        let life = known.map(json).transpose()?;
        let tenant = match (key.tenant().cloned(), &life) {
            (Some(tenant), Some(_)) => Some(batch.tenant(&tenant)?),
            (Some(_) | None, _) => None,
        };
        batch.rows.put_breaker(&key, tenant, life.as_deref())?;
    }
    Ok(())
}

/// Writes down what happened to a breaker, and who did it.
pub(super) fn note(batch: &mut Batch<'_>, name: &Label, actor: &str, event: &str, note: Option<&Text>) -> Result<()> {
    batch.rows.insert_breaker_event(name, actor, event, note, batch.now)
}
