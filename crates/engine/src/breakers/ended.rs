//! An attempt that began here has ended: each breaker that watches it counts it, in the same commit.

use redrive_core::breaker::{Counts, Event, Key, Probe, Scope, StateName, counts};
use redrive_core::policy::Policy;
use redrive_core::reason::Reason;

use crate::breakers::stored;
use crate::error::Result;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

impl Tx<'_> {
    /// Counts the end of the attempt under `epoch`; without a reason it was a success. Whoever was not begun here says
    /// nothing of beside how many successes it stands, and is not counted.
    pub fn attempt_ended(
        &mut self,
        row: &RunRow,
        epoch: Option<u64>,
        failed: Option<&Reason>,
        policy: &Policy,
    ) -> Result<()> {
        let Some(epoch) = epoch.filter(|_| policy.breaker.on) else { return Ok(()) };
        let attempt = Probe { run: row.id, epoch };
        let generation = row.generation;
        let keys = self.keys_counted(row, failed)?;
        for key in keys.iter().cloned() {
            if self.is_taken_over(&key) {
                continue;
            }
            let counts = counts(&key.scope, failed);
            if counts == Counts::Nothing && !self.known.breakers.open.contains(&key) {
                continue;
            }
            // A success beside nothing but successes keeps nobody waiting.
            if counts != Counts::Success || !self.known.breakers.is_blank(&key) {
                self.lock_breakers()?;
                self.know_breakers(&keys)?;
            }
            if failed == Some(&Reason::Silent) && self.known.breakers.open.contains(&key) {
                // A worker that went quiet has found nothing out: the slot is free for the next.
                self.move_breaker(&key, &Event::ProbeLost(attempt), &policy.breaker)?;
                continue;
            }
            let before = self.known.breakers.all.get(&key).map_or(StateName::Closed, |breaker| breaker.name());
            let settings = if key.tenant().is_some() { policy.breaker } else { self.policies.shared_breakers() };
            let event = Event::Ended { attempt, voter: row.tenant, counts, generation };
            let after = self.move_breaker(&key, &event, &settings)?;
            if (before, after) == (StateName::Closed, StateName::Open) {
                self.take_over(&key)?;
            }
        }
        Ok(())
    }

    /// The breakers that the end of an attempt is counted for. A tenant has a bounded number of its own; what fails under
    /// further names is counted for one that they share, and says nothing of what others see.
    fn keys_counted(&mut self, row: &RunRow, failed: Option<&Reason>) -> Result<Vec<Key>> {
        let mut keys = self.keys_of(row)?;
        let others: Vec<Key> = keys.iter().filter_map(Key::other).collect();
        let all: Vec<Key> = keys.iter().chain(&others).cloned().collect();
        self.know_breakers(&all)?;
        let mut beyond = false;
        for key in &mut keys {
            let Some(other) = key.other().filter(|_| self.known.breakers.is_blank(key)) else { continue };
            let is_new = counts(&key.scope, failed) == Counts::Failure;
            if !self.known.breakers.is_blank(&other) || (is_new && self.has_all_breakers(row.tenant)?) {
                beyond |= key.is_of_a_model();
                *key = other;
            } else if is_new {
                *self.known.breakers.counted.entry(row.tenant).or_default() += 1;
            }
        }
        if beyond {
            keys.retain(|key| key.tenant().is_some() || !self.known.breakers.is_blank(key));
        }
        Ok(keys)
    }

    /// A tenant's own breaker for a model says nothing while everybody's does.
    fn is_taken_over(&self, key: &Key) -> bool {
        match &key.scope {
            Scope::Model { .. } if self.known.breakers.open.is_empty() => false,
            Scope::Model { provider, model, .. } => {
                let scope = Scope::Everywhere { provider: provider.clone(), model: model.clone() };
                self.known.breakers.open.contains(&Key { environment: key.environment.clone(), scope })
            }
            Scope::Tenant { .. } | Scope::Everywhere { .. } => false,
        }
    }

    /// It is down for everybody: one breaker says so, and the tenants' own make way. A person's word stays.
    fn take_over(&mut self, wide: &Key) -> Result<()> {
        let Scope::Everywhere { provider, model } = &wide.scope else { return Ok(()) };
        let (settings, known) = (self.policies.shared_breakers(), &self.known.breakers);
        let is_part = |key: &&Key| match &key.scope {
            Scope::Model { provider: p, model: m, .. } => p == provider && m == model,
            Scope::Tenant { .. } | Scope::Everywhere { .. } => false,
        };
        let by_hand = |key: &Key| known.all.get(key).is_some_and(|breaker| breaker.is_by_hand());
        let parts = known.open.iter().filter(|key| key.environment == wide.environment).filter(is_part);
        for key in parts.filter(|key| !by_hand(key)).cloned().collect::<Vec<_>>() {
            self.move_breaker(&key, &Event::Reset, &settings)?;
            stored::note(self, &key.name(), "engine", "taken_over", None)?;
        }
        Ok(())
    }
}
