//! What the committer knows of breakers, and the one way in which one of them moves.

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

/// Beyond this many, what has a row is let go of, and so is what has seen nothing but successes.
const KNOWN_MAX: usize = 50_000;

/// Copies of the rows, and those that need none yet.
#[derive(Debug, Default)]
pub struct Breakers {
    pub loaded: bool,
    pub all: HashMap<Key, Breaker>,
    /// Those that were asked for; what is not among `all` has no row.
    asked: HashSet<Key>,
    /// How many rows a tenant has, those included that this batch makes.
    pub counted: HashMap<i64, usize>,
    /// Those that are not closed.
    pub open: BTreeSet<Key>,
    /// The last generation that was given out.
    pub last: u64,
    /// Where a breaker begins that nothing is known of. It may have been forgotten since it last changed: results of
    /// attempts that began before this say nothing of it.
    pub blank: u64,
    pub last_changed: bool,
    /// Moved since the last commit.
    pub dirty: BTreeSet<Key>,
    /// Where letting go has come to, by the holder's name.
    pub releases: HashMap<Label, Releasing>,
}

/// How far the runs of one holder have been let go.
#[derive(Debug, Clone, Copy, Default)]
pub struct Releasing {
    /// The tenant served last.
    pub after: i64,
    /// When the last run that was let go comes up.
    pub up_to: Timestamp,
    /// What was let go to find out.
    pub offer: Option<Offer>,
}

/// Runs that were made due so that one of them finds out.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// The last of them, and how many there were.
    pub run: i64,
    pub runs: usize,
    pub at: Timestamp,
}

impl Breakers {
    /// All but where letting go has come to.
    pub fn forget(&mut self) {
        *self = Self { releases: std::mem::take(&mut self.releases), ..Self::default() };
    }

    /// Takes over what the rows say.
    fn load(&mut self, all: Vec<(Key, Breaker)>, last: u64) {
        self.open = all.iter().filter(|(_, breaker)| !breaker.is_closed()).map(|(key, _)| key.clone()).collect();
        let moved = std::mem::replace(&mut self.all, all.into_iter().collect());
        self.asked.clear();
        (self.last, self.loaded) = (last, true);
        // Successes that nobody had to be kept from: they stay, unless there is a row by now.
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

    /// Whether it has counted no failure, as far as is known.
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

/// Those whose rows can be read. The others are set aside, and count as closed from here on.
pub fn readable_breakers(tx: &mut Tx<'_>, read: ReadBreakers) -> Result<Vec<(Key, Breaker)>> {
    for corrupt in &read.corrupt {
        if tx.rows.set_breaker_aside(corrupt, tx.now)? {
            let (breaker, why) = (String::from_utf8_lossy(&corrupt.name), &corrupt.why);
            tracing::error!(%breaker, why, "breaker set aside: its row can't be read");
        }
    }
    Ok(read.all)
}

/// Looks up those that are not known yet.
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

/// All that have a row: a tenant's, or everybody's.
pub fn know_breakers_in(tx: &mut Tx<'_>, tenant: Option<i64>) -> Result<()> {
    let found = tx.rows.breakers_in(tenant)?;
    for (key, breaker) in readable_breakers(tx, found)? {
        tx.known.breakers.all.entry(key).or_insert(breaker);
    }
    Ok(())
}

/// Whether a tenant has as many breakers as it may.
pub fn has_all_breakers(tx: &mut Tx<'_>, tenant: i64) -> Result<bool> {
    let count = match tx.known.breakers.counted.get(&tenant) {
        Some(count) => *count,
        None => tx.rows.breaker_count(tenant)?,
    };
    tx.known.breakers.counted.insert(tenant, count);
    Ok(count >= BREAKERS_PER_TENANT_MAX)
}

/// From here to the commit nobody else moves a breaker, and what is known of them is how they stand.
pub fn lock_breakers(tx: &mut Tx<'_>) -> Result<()> {
    if tx.rows.lock_breakers()? { read_breakers(tx) } else { load_breakers(tx) }
}

/// Whether anything is held back at all.
pub fn any_breaker_open(tx: &mut Tx<'_>) -> Result<bool> {
    load_breakers(tx)?;
    Ok(!tx.known.breakers.open.is_empty())
}

/// The generation in which an attempt begins now.
pub fn generation(tx: &mut Tx<'_>) -> Result<u64> {
    load_breakers(tx)?;
    Ok(tx.known.breakers.last)
}

/// The breakers that watch a run, in the order in which they are asked.
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

/// Moves a breaker; one that was not there has seen nothing yet. A change of state is written down.
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
    let said = if changed { in_words(&before, &after, event) } else { None };
    known.all.insert(name, after);
    if let Some((actor, event, note)) = said {
        stored::note(tx, &key.name(), &actor, event, note.as_ref())?;
    }
    Ok(state)
}

/// What time alone has changed.
pub fn tick(tx: &mut Tx<'_>, key: &Key, settings: &BreakerSettings) -> Result<()> {
    if tx.known.breakers.all.get(key).is_some_and(|breaker| breaker.is_up(tx.now)) {
        move_breaker(tx, key, &BreakerEvent::Tick, settings)?;
    }
    Ok(())
}

/// What time alone has changed, for whoever only looks: nothing of it is written.
pub fn look_ahead(tx: &mut Tx<'_>, key: &Key, settings: &BreakerSettings) {
    let known = &mut tx.known.breakers;
    let turn = BreakerContext {
        settings,
        shared: key.tenant().is_none(),
        now: tx.now,
        // No time is drawn: it only looks.
        jitter: 0.0,
        next: known.last + 1,
    };
    if let Some(breaker) = known.all.get_mut(key).filter(|breaker| breaker.is_up(tx.now)) {
        *breaker = apply(breaker, &BreakerEvent::Tick, turn);
    }
}

/// What holds for a breaker that no run is at hand for.
pub fn settings_of(tx: &mut Tx<'_>, key: &Key) -> BreakerSettings {
    match key.tenant() {
        Some(tenant) => tx.policies.resolve(Default::default(), &Default::default(), tenant).breaker,
        None => tx.policies.shared_breakers(),
    }
}

type Said = (String, &'static str, Option<Text>);

/// A change of state as its record tells it.
fn in_words(before: &Breaker, after: &Breaker, event: &BreakerEvent) -> Option<Said> {
    let engine = || "engine".to_owned();
    match (event, &after.state) {
        (BreakerEvent::OpenedByHand { by, .. }, _) => Some((by.actor.clone(), "opened", by.reason.clone())),
        // Whoever closes it writes that down, with a name.
        (BreakerEvent::Reset, _) => None,
        (BreakerEvent::Ended { .. }, BreakerState::Open { tries, .. }) => {
            let what = match &before.state {
                BreakerState::Closed { .. } => "Too many attempts failed.".to_owned(),
                BreakerState::Open { .. } | BreakerState::HalfOpen { .. } => {
                    format!("The probe failed: opening {tries} in a row.")
                }
            };
            Some((engine(), "opened", Some(Text::from(what.as_str()))))
        }
        (BreakerEvent::Ended { .. }, BreakerState::Closed { .. }) => {
            Some((engine(), "closed", Some(Text::from("The probe succeeded."))))
        }
        (BreakerEvent::Tick, BreakerState::Closed { .. }) => {
            Some((engine(), "closed", Some(Text::from("Its time was over."))))
        }
        (BreakerEvent::Tick, BreakerState::HalfOpen { .. }) => Some((engine(), "half_open", None)),
        (BreakerEvent::Ended { .. }, BreakerState::HalfOpen { .. })
        | (BreakerEvent::Tick, BreakerState::Open { .. })
        | (BreakerEvent::ProbeGranted(_) | BreakerEvent::ProbeLost(_), _) => None,
    }
}
