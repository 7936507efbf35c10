//! The committer's cache of breakers, and the one function that changes a breaker.

use std::collections::{BTreeSet, HashMap, HashSet};

use redrive_core::breaker::{
    BREAKERS_PER_TENANT_MAX, Breaker, BreakerContext, BreakerEvent, BreakerState, BreakerStateName, Key, Scope, apply,
};
use redrive_core::policy::BreakerSettings;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;

use crate::breakers::stored::{self, ReadBreakers};
use crate::error::Result;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// Beyond this many entries, those that are closed and unchanged are dropped.
const KNOWN_MAX: usize = 50_000;

/// Breakers with a row, and those that need none yet.
#[derive(Debug, Default)]
pub struct Breakers {
    pub loaded: bool,
    pub all: HashMap<Key, Breaker>,
    /// Keys that were looked up; one that is not in `all` has no row.
    asked: HashSet<Key>,
    /// By tenant: its number of rows, including those of this batch.
    pub counted: HashMap<i64, usize>,
    /// Those that are not closed.
    pub open: BTreeSet<Key>,
    /// The last generation.
    pub last: u64,
    /// The generation of a breaker without an entry. It may have been dropped after its last change, so results of attempts
    /// that began earlier do not count.
    pub blank: u64,
    pub last_changed: bool,
    /// Changed since the last commit.
    pub dirty: BTreeSet<Key>,
    /// Progress of releases, by the name of the breaker.
    pub releases: HashMap<Label, ReleaseProgress>,
}

/// How far the held runs of one breaker have been released.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReleaseProgress {
    /// The tenant served last.
    pub after: i64,
    /// When the last released run falls due.
    pub up_to: Timestamp,
    /// Of a half-open breaker.
    pub offer: Option<ProbeOffer>,
}

/// Runs that were made due so that one of them becomes the probe.
#[derive(Debug, Clone, Copy)]
pub struct ProbeOffer {
    /// The last of them, and how many there were.
    pub run: i64,
    pub runs: usize,
    pub at: Timestamp,
}

impl Breakers {
    /// Clears all but the progress of releases.
    pub fn forget(&mut self) {
        *self = Self { releases: std::mem::take(&mut self.releases), ..Self::default() };
    }

    /// Replaces the entries by what was read.
    fn load(&mut self, all: Vec<(Key, Breaker)>, last: u64) {
        self.open = all.iter().filter(|(_, breaker)| !breaker.is_closed()).map(|(key, _)| key.clone()).collect();
        let moved = std::mem::replace(&mut self.all, all.into_iter().collect());
        self.asked.clear();
        (self.last, self.loaded) = (last, true);
        // Changes of breakers without a row stay: they were made without the lock.
        self.dirty.retain(|key| !self.all.contains_key(key));
        self.all.extend(moved.into_iter().filter(|(key, _)| self.dirty.contains(key)));
    }

    fn make_room(&mut self) {
        if self.all.len() + self.asked.len() >= KNOWN_MAX {
            self.all.retain(|key, _| self.open.contains(key) || self.dirty.contains(key));
            self.asked.clear();
            self.blank = self.last;
        }
    }

    /// Whether it has counted no failure.
    pub fn is_blank(&self, key: &Key) -> bool {
        self.all.get(key).is_none_or(Breaker::is_blank)
    }
}

pub fn load_breakers(tx: &mut Tx<'_>) -> Result<()> {
    if tx.known.breakers.loaded { Ok(()) } else { read_breakers(tx) }
}

fn read_breakers(tx: &mut Tx<'_>) -> Result<()> {
    let (read, last) = tx.rows.breakers()?;
    let all = readable_breakers(tx, read)?;
    tx.known.breakers.load(all, last);
    tx.known.breakers.blank = tx.rows.blank_since(last);
    Ok(())
}

/// Sets unreadable breakers aside; they count as closed.
pub fn readable_breakers(tx: &mut Tx<'_>, read: ReadBreakers) -> Result<Vec<(Key, Breaker)>> {
    for corrupt in &read.corrupt {
        if tx.rows.set_breaker_aside(corrupt, tx.now)? {
            let (breaker, why) = (String::from_utf8_lossy(&corrupt.name), &corrupt.why);
            tracing::error!(%breaker, why, "breaker set aside: row unreadable");
        }
    }
    Ok(read.all)
}

/// Loads breakers that are not cached.
pub fn know_breakers(tx: &mut Tx<'_>, keys: &[Key]) -> Result<()> {
    load_breakers(tx)?;
    let known = &tx.known.breakers;
    let is_unknown = |key: &&Key| !known.all.contains_key(*key) && !known.asked.contains(*key);
    let unknown: Vec<Key> = keys.iter().filter(is_unknown).cloned().collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let found = tx.rows.breakers_named(&unknown)?;
    let found = readable_breakers(tx, found)?;
    let known = &mut tx.known.breakers;
    known.make_room();
    for (key, breaker) in found {
        known.all.entry(key).or_insert(breaker);
    }
    known.asked.extend(unknown);
    Ok(())
}

/// Loads all breakers of a tenant, or of all tenants.
pub fn know_breakers_in(tx: &mut Tx<'_>, tenant: Option<i64>) -> Result<()> {
    let found = tx.rows.breakers_in(tenant)?;
    for (key, breaker) in readable_breakers(tx, found)? {
        tx.known.breakers.all.entry(key).or_insert(breaker);
    }
    Ok(())
}

/// Whether the tenant has the maximum number of breakers.
pub fn has_all_breakers(tx: &mut Tx<'_>, tenant: i64) -> Result<bool> {
    let count = match tx.known.breakers.counted.get(&tenant) {
        Some(count) => *count,
        None => tx.rows.breaker_count(tenant)?,
    };
    tx.known.breakers.counted.insert(tenant, count);
    Ok(count >= BREAKERS_PER_TENANT_MAX)
}

/// Locks breakers until the commit, and reloads them if others may have changed them.
pub fn lock_breakers(tx: &mut Tx<'_>) -> Result<()> {
    if tx.rows.lock_breakers()? { read_breakers(tx) } else { load_breakers(tx) }
}

/// Whether any breaker is not closed.
pub fn any_breaker_open(tx: &mut Tx<'_>) -> Result<bool> {
    load_breakers(tx)?;
    Ok(!tx.known.breakers.open.is_empty())
}

/// The current generation.
pub fn generation(tx: &mut Tx<'_>) -> Result<u64> {
    load_breakers(tx)?;
    Ok(tx.known.breakers.last)
}

/// The breakers of a run, in the order in which they are checked.
pub fn keys_of(tx: &mut Tx<'_>, row: &RunRow) -> Result<Vec<Key>> {
    let tenant = tx.tenant_name(row.tenant)?;
    let key = |scope| Key { environment: row.environment.clone(), scope };
    let mut keys = vec![key(Scope::Tenant { tenant: tenant.clone() })];
    if row.provider.is_some() || row.model.is_some() {
        let named = |name: &Option<Label>| name.clone().unwrap_or_else(|| Label::from(""));
        let (provider, model) = (named(&row.provider), named(&row.model));
        keys.push(key(Scope::Everywhere { provider: provider.clone(), model: model.clone() }));
        keys.push(key(Scope::Model { tenant, provider, model }));
    }
    Ok(keys)
}

/// Applies an event to a breaker. A change of state is recorded in its history.
pub fn move_breaker(
    tx: &mut Tx<'_>,
    key: &Key,
    event: &BreakerEvent,
    settings: &BreakerSettings,
) -> Result<BreakerStateName> {
    know_breakers(tx, std::slice::from_ref(key))?;
    let known = &mut tx.known.breakers;
    let (name, before) = match known.all.remove_entry(key) {
        Some(known) => known,
        None => {
            let quiet = tx.rows.quiet_breaker(key)?;
            (key.clone(), quiet.unwrap_or_else(|| Breaker::new(known.blank, tx.now)))
        }
    };
    let turn = BreakerContext {
        settings,
        shared: key.tenant().is_none(),
        now: tx.now,
        jitter: tx.dice.jitter(),
        next: known.last + 1,
    };
    let after = apply(&before, event, turn);
    let (state, changed) = (after.name(), after.generation != before.generation);
    if changed {
        known.last += 1;
        known.last_changed = true;
    }
    if after.is_closed() {
        known.open.remove(key);
    } else {
        known.open.insert(key.clone());
    }
    if after != before {
        known.dirty.insert(key.clone());
    }
    let note = if changed { note_of(&before, &after, event) } else { None };
    known.all.insert(name, after);
    if let Some(BreakerNote { actor, event, note }) = note {
        stored::note(tx, &key.name(), &actor, event, note.as_ref())?;
    }
    Ok(state)
}

/// Applies a transition that is due by time.
pub fn tick(tx: &mut Tx<'_>, key: &Key, settings: &BreakerSettings) -> Result<()> {
    if tx.known.breakers.all.get(key).is_some_and(|breaker| breaker.is_up(tx.now)) {
        move_breaker(tx, key, &BreakerEvent::Tick, settings)?;
    }
    Ok(())
}

/// Applies a transition that is due by time to the cached copy only, for reads.
pub fn tick_cached(tx: &mut Tx<'_>, key: &Key, settings: &BreakerSettings) {
    let known = &mut tx.known.breakers;
    let turn = BreakerContext {
        settings,
        shared: key.tenant().is_none(),
        now: tx.now,
        // Reads draw no jitter.
        jitter: 0.0,
        next: known.last + 1,
    };
    if let Some(breaker) = known.all.get_mut(key).filter(|breaker| breaker.is_up(tx.now)) {
        *breaker = apply(breaker, &BreakerEvent::Tick, turn);
    }
}

/// The settings of a breaker, without a run.
pub fn settings_of(tx: &mut Tx<'_>, key: &Key) -> BreakerSettings {
    match key.tenant() {
        Some(tenant) => tx.policies.resolve(Default::default(), &Default::default(), tenant).breaker,
        None => tx.policies.shared_breakers(),
    }
}

/// An entry of a breaker's history.
struct BreakerNote {
    actor: String,
    event: &'static str,
    note: Option<Text>,
}

impl BreakerNote {
    fn engine(event: &'static str, note: Option<&str>) -> Option<Self> {
        Some(Self { actor: "engine".to_owned(), event, note: note.map(Text::from) })
    }
}

/// The history entry of a change of state.
fn note_of(before: &Breaker, after: &Breaker, event: &BreakerEvent) -> Option<BreakerNote> {
    match (event, &after.state) {
        (BreakerEvent::OpenedByHand { by, .. }, _) => {
            Some(BreakerNote { actor: by.actor.clone(), event: "opened", note: by.reason.clone() })
        }
        // The caller records a reset with its actor.
        (BreakerEvent::Reset, _) => None,
        (BreakerEvent::Ended { .. }, BreakerState::Open { tries, .. }) => {
            let what = match &before.state {
                BreakerState::Closed { .. } => "Too many attempts failed.".to_owned(),
                BreakerState::Open { .. } | BreakerState::HalfOpen { .. } => {
                    format!("The probe failed: opening {tries} in a row.")
                }
            };
            BreakerNote::engine("opened", Some(&what))
        }
        (BreakerEvent::Ended { .. }, BreakerState::Closed { .. }) => {
            BreakerNote::engine("closed", Some("The probe succeeded."))
        }
        (BreakerEvent::Tick, BreakerState::Closed { .. }) => BreakerNote::engine("closed", Some("Its time was over.")),
        (BreakerEvent::Tick, BreakerState::HalfOpen { .. }) => BreakerNote::engine("half_open", None),
        (BreakerEvent::Ended { .. }, BreakerState::HalfOpen { .. })
        | (BreakerEvent::Tick, BreakerState::Open { .. })
        | (BreakerEvent::ProbeGranted(_) | BreakerEvent::ProbeLost(_), _) => None,
    }
}
