//! Breakers' rows: written with the commit that moved them, and forgotten once they have nothing to say.

use redrive_core::breaker::{Breaker, Key, Scope};
use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::time::{DAY_MS, MINUTE_MS};
use redrive_core::wire::BreakerEntry;

use crate::commands::attempts::json;
use crate::commands::batch::Batch;
use crate::commands::rows::PutBreaker;
use crate::error::{Error, Result};
use crate::kept::columns::{
    Columns, bytes, label, label_or_none, owned, packed_json, packed_note, parsed_or_none, time,
};
use crate::model::Swept;

/// Of one breaker; one that flaps for weeks pushes out nobody else's.
const EVENTS_KEPT_MAX: usize = 1_000;
/// Of all of them, also of those that are long gone.
const EVENTS_KEPT_MS: u64 = 90 * DAY_MS;

/// A closed breaker that nothing was counted for in so long may have nothing to say any more.
const IDLE_MS: u64 = 10 * MINUTE_MS;

/// The columns of [`ReadBreakers::read`]: of a breaker `b` and its tenant `t`.
pub(crate) const COLUMNS: &str = "b.environment, t.name, b.provider, b.model, b.life, b.name";

/// Breakers that were asked for, and those among them whose row can't be read.
#[derive(Default)]
pub(crate) struct ReadBreakers {
    pub(crate) all: Vec<(Key, Breaker)>,
    pub(crate) corrupt: Vec<CorruptBreaker>,
}

pub(crate) struct CorruptBreaker {
    pub(crate) name: Vec<u8>,
    pub(crate) life: Vec<u8>,
    why: String,
}

impl ReadBreakers {
    pub(crate) fn read(&mut self, row: &impl Columns) -> Result<()> {
        match read_breaker(row) {
            Ok(read) => self.all.push(read),
            Err(error) => {
                let (name, life) = (bytes(row, 5)?.to_vec(), bytes(row, 4)?.to_vec());
                self.corrupt.push(CorruptBreaker { name, life, why: error.to_string() });
            }
        }
        Ok(())
    }
}

impl CorruptBreaker {
    pub(crate) fn why(&self) -> &str {
        &self.why
    }
}

fn read_breaker(row: &impl Columns) -> Result<(Key, Breaker)> {
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
        let put = PutBreaker { life: &json(&breaker)?, open: !breaker.is_closed(), now: batch.now };
        batch.rows.put_breaker(&key, tenant, &put)?;
    }
    batch.known.breakers.counted.clear();
    Ok(())
}

/// Writes down what happened to a breaker, and who did it.
pub(super) fn note(batch: &mut Batch<'_>, name: &Label, actor: &str, event: &str, note: Option<&Text>) -> Result<()> {
    batch.rows.insert_breaker_event(name, actor, event, note, batch.now)?;
    batch.rows.forget_breaker_events(name, EVENTS_KEPT_MAX)
}

/// Forgets what happened to breakers long ago, the oldest first, and breakers that have nothing to say any more.
pub(crate) fn trim_events(batch: &mut Batch<'_>, most: usize) -> Result<Swept> {
    let events = batch.rows.trim_breaker_events(batch.now.minus_ms(EVENTS_KEPT_MS), most)?;
    let quiet = forget_quiet(batch, most)?;
    Ok(Swept {
        looked_at: events.looked_at + quiet.looked_at,
        moved: events.moved + quiet.moved,
        more: events.more || quiet.more,
    })
}

fn forget_quiet(batch: &mut Batch<'_>, most: usize) -> Result<Swept> {
    let now = batch.now;
    let idle = batch.rows.idle_breakers(now.minus_ms(IDLE_MS), most)?;
    let idle: Vec<Key> = batch.readable_breakers(idle)?.into_iter().map(|(key, _)| key).collect();
    if idle.is_empty() {
        return Ok(Swept::default());
    }
    batch.lock_breakers()?;
    batch.know_breakers(&idle)?;
    let (looked_at, mut moved) = (idle.len(), 0);
    for key in idle {
        let known = &mut batch.known.breakers;
        let Some(breaker) = known.all.get_mut(&key) else { continue };
        if let Some(forgotten) = breaker.forgotten(now) {
            *breaker = forgotten;
            moved += 1;
        }
        // One with a long window is written again, and looked at again as late.
        known.dirty.insert(key);
    }
    Ok(Swept { looked_at, moved, more: looked_at == most })
}
