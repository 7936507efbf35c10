//! What the committer knows of breakers, and the one way in which one of them moves.

use std::collections::{BTreeSet, HashMap};

use redrive_core::breaker::{Breaker, Event, Key, Scope, State, StateName, Turn, apply};
use redrive_core::policy::BreakerSettings;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;

use crate::error::Result;
use crate::sqlite::batch::Batch;
use crate::sqlite::breakers::kept;
use crate::sqlite::rows::RunRow;

/// Breakers that have seen nothing but successes are let go of beyond this many.
const KNOWN_MAX: usize = 20_000;

/// Copies of the rows, and those that need none yet.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Breakers {
    pub(super) loaded: bool,
    pub(super) all: HashMap<Key, Breaker>,
    /// Those that are not closed.
    pub(super) open: BTreeSet<Key>,
    /// The last generation that was given out.
    pub(super) last: u64,
    /// Where a breaker begins that nothing is known of. It may have been forgotten since it last changed: results of
    /// attempts that began before this say nothing of it.
    pub(super) blank: u64,
    pub(super) last_changed: bool,
    /// Moved since the last commit.
    pub(super) dirty: BTreeSet<Key>,
    /// Where letting go has come to, by the holder's name.
    pub(super) releases: HashMap<Label, Releasing>,
}

/// How far the runs of one holder have been let go.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Releasing {
    /// The tenant served last.
    pub(super) after: i64,
    /// When the last run that was let go comes up.
    pub(super) up_to: Timestamp,
    /// The run that was let go to find out.
    pub(super) offered: Option<i64>,
}

impl Batch<'_> {
    pub(super) fn load_breakers(&mut self) -> Result<()> {
        if self.known.breakers.loaded {
            return Ok(());
        }
        let (all, last) = kept::load(self)?;
        let known = &mut self.known.breakers;
        known.open = all.iter().filter(|(_, breaker)| !breaker.is_closed()).map(|(key, _)| key.clone()).collect();
        (known.all, known.last, known.blank, known.loaded) = (all, last, last, true);
        Ok(())
    }

    /// Whether anything is held back at all.
    pub(in crate::sqlite) fn any_breaker_open(&mut self) -> Result<bool> {
        self.load_breakers()?;
        Ok(!self.known.breakers.open.is_empty())
    }

    /// The generation in which an attempt begins now.
    pub(in crate::sqlite) fn generation(&mut self) -> Result<u64> {
        self.load_breakers()?;
        Ok(self.known.breakers.last)
    }

    /// The breakers that watch a run, in the order in which they are asked.
    pub(super) fn keys_of(&mut self, row: &RunRow) -> Result<Vec<Key>> {
        let tenant = self.tenant_name(row.tenant)?;
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
    pub(super) fn move_breaker(&mut self, key: &Key, event: &Event, settings: &BreakerSettings) -> Result<StateName> {
        let known = &mut self.known.breakers;
        let before = known.all.get(key).cloned().unwrap_or_else(|| Breaker::new(known.blank, self.now));
        let turn = Turn {
            settings,
            shared: key.tenant().is_none(),
            now: self.now,
            jitter: self.dice.jitter(),
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
        if known.all.len() >= KNOWN_MAX && !known.all.contains_key(key) {
            known.all.retain(|_, breaker| !breaker.is_blank());
            known.blank = known.last;
        }
        let said = in_words(&before, &after, event);
        known.all.insert(key.clone(), after);
        match (changed, said) {
            (true, Some((actor, event, note))) => {
                kept::note(self, &key.name(), &actor, event, note.as_ref()).map(|()| state)
            }
            (true | false, _) => Ok(state),
        }
    }

    /// What time alone has changed.
    pub(super) fn tick(&mut self, key: &Key, settings: &BreakerSettings) -> Result<()> {
        let due = match self.known.breakers.all.get(key).map(|breaker| &breaker.state) {
            Some(State::Open { until: Some(until), .. }) => *until <= self.now,
            Some(State::Open { until: None, .. } | State::Closed { .. } | State::HalfOpen { .. }) | None => false,
        };
        if due {
            self.move_breaker(key, &Event::Tick, settings)?;
        }
        Ok(())
    }

    /// What holds for a breaker that no run is at hand for.
    pub(super) fn settings_of(&mut self, key: &Key) -> BreakerSettings {
        match key.tenant() {
            Some(tenant) => self.policies.resolve(Default::default(), &Default::default(), tenant).breaker,
            None => self.policies.shared_breakers(),
        }
    }
}

type Said = (String, &'static str, Option<Text>);

/// A change of state as its record tells it.
fn in_words(before: &Breaker, after: &Breaker, event: &Event) -> Option<Said> {
    let engine = || "engine".to_owned();
    match (event, &after.state) {
        (Event::OpenedByHand { by, .. }, _) => Some((by.actor.clone(), "opened", by.reason.clone())),
        // Whoever closes it writes that down, with a name.
        (Event::Reset, _) => None,
        (Event::Ended { .. }, State::Open { tries, .. }) => {
            let what = match &before.state {
                State::Closed { .. } => "Too many attempts failed.".to_owned(),
                State::Open { .. } | State::HalfOpen { .. } => format!("The probe failed: opening {tries} in a row."),
            };
            Some((engine(), "opened", Some(Text::from(what.as_str()))))
        }
        (Event::Ended { .. }, State::Closed { .. }) => {
            Some((engine(), "closed", Some(Text::from("The probe succeeded."))))
        }
        (Event::Tick, State::Closed { .. }) => Some((engine(), "closed", Some(Text::from("Its time was over.")))),
        (Event::Tick, State::HalfOpen { .. }) => Some((engine(), "half_open", None)),
        (Event::Ended { .. }, State::HalfOpen { .. })
        | (Event::Tick, State::Open { .. })
        | (Event::ProbeGranted(_) | Event::ProbeLost(_), _) => None,
    }
}
