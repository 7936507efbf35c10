//! Rows of breakers: written with the commit that changed them, deleted once they hold no information.

use redrive_core::breaker::{Breaker, Key};
use redrive_core::text::{Label, Text};
use redrive_core::time::{DAY_MS, MINUTE_MS};

use crate::breakers::cache;
use crate::error::Result;
use crate::model::Swept;
use crate::ports::rows::PutBreaker;
use crate::runs::attempts::json;
use crate::tx::Tx;

/// Per breaker, so that one that flaps does not displace the events of others.
const EVENTS_KEPT_MAX: usize = 1_000;
/// Also of deleted breakers.
const EVENTS_KEPT_MS: u64 = 90 * DAY_MS;

/// A closed breaker without an update for this long may be deleted.
const IDLE_MS: u64 = 10 * MINUTE_MS;

/// The readable and the unreadable rows of a query.
#[derive(Default)]
pub struct ReadBreakers {
    pub all: Vec<(Key, Breaker)>,
    pub corrupt: Vec<CorruptBreaker>,
}

pub struct CorruptBreaker {
    pub name: Vec<u8>,
    pub life: Vec<u8>,
    pub why: String,
}

/// Writes changed breakers at the end of the batch, before its counters.
pub fn fold(tx: &mut Tx<'_>) -> Result<()> {
    if tx.known.breakers.last_changed {
        tx.rows.put_generation(tx.known.breakers.last)?;
        tx.known.breakers.last_changed = false;
    }
    for key in std::mem::take(&mut tx.known.breakers.dirty) {
        let Some(breaker) = tx.known.breakers.all.get(&key).cloned() else { continue };
        if breaker.is_blank() {
            tx.rows.delete_breaker(&key, &breaker)?;
            continue;
        }
        let tenant = key.tenant().map(|tenant| tx.tenant(tenant)).transpose()?;
        let put = PutBreaker { life: &json(&breaker)?, open: !breaker.is_closed(), now: tx.now };
        tx.rows.put_breaker(&key, tenant, &put)?;
    }
    tx.known.breakers.counted.clear();
    Ok(())
}

/// Adds an entry to the history of a breaker.
pub(super) fn note(tx: &mut Tx<'_>, name: &Label, actor: &str, event: &str, note: Option<&Text>) -> Result<()> {
    tx.rows.insert_breaker_event(name, actor, event, note, tx.now)?;
    Ok(tx.rows.forget_breaker_events(name, EVENTS_KEPT_MAX)?)
}

/// Deletes old events, and idle breakers without information.
pub fn trim_events(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    let events = tx.rows.trim_breaker_events(tx.now.minus_ms(EVENTS_KEPT_MS), most)?;
    let quiet = delete_idle(tx, most)?;
    Ok(Swept {
        looked_at: events.looked_at + quiet.looked_at,
        moved: events.moved + quiet.moved,
        more: events.more || quiet.more,
    })
}

fn delete_idle(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    let now = tx.now;
    let idle = tx.rows.idle_breakers(now.minus_ms(IDLE_MS), most)?;
    let idle: Vec<Key> = cache::readable_breakers(tx, idle)?.into_iter().map(|(key, _)| key).collect();
    if idle.is_empty() {
        return Ok(Swept::default());
    }
    cache::lock_breakers(tx)?;
    cache::know_breakers(tx, &idle)?;
    let (looked_at, mut moved) = (idle.len(), 0);
    for key in idle {
        let known = &mut tx.known.breakers;
        let Some(breaker) = known.all.get_mut(&key) else { continue };
        if let Some(forgotten) = breaker.forgotten(now) {
            *breaker = forgotten;
            moved += 1;
        }
        // A breaker with a long window is written again, which postpones the next check.
        known.dirty.insert(key);
    }
    Ok(Swept { looked_at, moved, more: looked_at == most })
}
