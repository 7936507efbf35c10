//! Breakers' rows: written with the commit that moved them, and forgotten once they have nothing to say.

use redrive_core::breaker::{Breaker, Key};
use redrive_core::text::{Label, Text};
use redrive_core::time::{DAY_MS, MINUTE_MS};

use crate::breakers::cache;
use crate::error::Result;
use crate::model::Swept;
use crate::ports::rows::PutBreaker;
use crate::runs::attempts::json;
use crate::tx::Tx;

/// Of one breaker; one that flaps for weeks pushes out nobody else's.
const EVENTS_KEPT_MAX: usize = 1_000;
/// Of all of them, also of those that are long gone.
const EVENTS_KEPT_MS: u64 = 90 * DAY_MS;

/// A closed breaker that nothing was counted for in so long may have nothing to say any more.
const IDLE_MS: u64 = 10 * MINUTE_MS;

/// Breakers that were asked for, and those among them whose row can't be read.
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

/// Writes what moved; the batch's last act but for its counters.
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

/// Writes down what happened to a breaker, and who did it.
pub(super) fn note(tx: &mut Tx<'_>, name: &Label, actor: &str, event: &str, note: Option<&Text>) -> Result<()> {
    tx.rows.insert_breaker_event(name, actor, event, note, tx.now)?;
    Ok(tx.rows.forget_breaker_events(name, EVENTS_KEPT_MAX)?)
}

/// Forgets what happened to breakers long ago, the oldest first, and breakers that have nothing to say any more.
pub fn trim_events(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    let events = tx.rows.trim_breaker_events(tx.now.minus_ms(EVENTS_KEPT_MS), most)?;
    let quiet = forget_quiet(tx, most)?;
    Ok(Swept {
        looked_at: events.looked_at + quiet.looked_at,
        moved: events.moved + quiet.moved,
        more: events.more || quiet.more,
    })
}

fn forget_quiet(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
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
        // One with a long window is written again, and looked at again as late.
        known.dirty.insert(key);
    }
    Ok(Swept { looked_at, moved, more: looked_at == most })
}
