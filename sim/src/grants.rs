//! Leases as they are answered: one owner at a time (L1), and a late one is refused (L2).

use redrive_core::time::Timestamp;
use redrive_store::LeaseToken;

use crate::facts::{Grant, Key};
use crate::net::Heard;
use crate::runs::order_key;
use crate::world::World;

pub const DEADLINE_MS: u64 = 3_600_000;

pub fn epoch(token: &str) -> u64 {
    token.parse::<LeaseToken>().map_or(0, |token| token.epoch)
}

impl Grant {
    /// Whether it had surely not ended at that time.
    pub fn lives_at(&self, at: Timestamp) -> bool {
        !self.end_asked && self.granted_at <= at && at < self.expires_at && at < self.granted_at.plus_ms(DEADLINE_MS)
    }
}

impl World {
    /// Somebody was given a lease.
    pub fn granted(&self, key: &Key, mut new: Grant) {
        let (number, mut broken) = (epoch(&new.token), None);
        let mut facts = self.facts.borrow_mut();
        let run = facts.run(key);
        new.end_asked |= run.cancels > 0 || run.cancelled_until.is_some_and(|until| new.granted_at <= until);
        for (before, held) in &run.grants {
            if *before == number
                && (held.token != new.token || held.start_id.is_none() || held.start_id != new.start_id)
            {
                broken = Some(format!("{key:?}: {} was granted twice", new.token));
            } else if *before > number && held.granted_at < new.granted_at {
                broken = Some(format!("{key:?}: {} came after {}", new.token, held.token));
            } else if *before < number && held.lives_at(new.granted_at) {
                broken = Some(format!("{key:?}: {} was granted while {} was live", new.token, held.token));
            }
        }
        let in_line = order_key(&key.1).filter(|_| new.automatic);
        for (other, run) in
            facts.runs.iter().filter(|(other, _)| in_line.is_some() && other.0 == key.0 && *other != key)
        {
            let live = run.grants.values().find(|held| held.automatic && held.lives_at(new.granted_at));
            if let Some(live) = live.filter(|_| order_key(&other.1) == in_line) {
                broken =
                    Some(format!("{key:?} was handed out while {other:?} of its line was out under {}", live.token));
            }
        }
        let run = facts.run(key);
        let outlived = run.last_word().filter(|epoch| *epoch < number);
        let outlived = outlived.map(|epoch| format!("{key:?} succeeded under {epoch}, and {} was granted", new.token));
        run.grants.entry(number).or_insert(new);
        drop(facts);
        for (promise, how) in [("L1", broken), ("L4", outlived)] {
            if let Some(how) = how {
                self.broken(promise, how);
            }
        }
    }

    /// Its success was accepted. It is the last word, unless somebody has set out to open the run again since `before`:
    /// the commit may be older than its answer, and a failure that was reported in between is a new one.
    pub fn succeeded(&self, key: &Key, token: &str, before: Option<u32>) {
        let mut facts = self.facts.borrow_mut();
        let run = facts.run(key);
        run.sealed_by = before.filter(|_| run.quiet_since() == before).map(|_| epoch(token));
        let newest = run.grants.keys().next_back().copied().unwrap_or(0);
        let outlived = run.last_word().is_some_and(|epoch| epoch < newest);
        drop(facts);
        if outlived {
            self.broken("L4", format_args!("{key:?} succeeded under {token}, and epoch {newest} was granted"));
        }
    }

    /// The newest lease that anybody was told of.
    pub fn newest_grant(&self, key: &Key) -> u64 {
        self.facts.borrow_mut().run(key).grants.keys().next_back().copied().unwrap_or(0)
    }

    /// A word under a lease was accepted, though a newer one was known before it was said.
    pub fn fenced(&self, key: &Key, token: &str, newest_before: u64, what: &str, heard: &Heard) {
        if heard.is_ok() && newest_before > epoch(token) {
            self.broken("L2", format_args!("{key:?}: {what} under {token} counted, after epoch {newest_before}"));
        }
    }

    pub fn prolonged(&self, key: &Key, token: &str, until: Timestamp) {
        if let Some(grant) = self.facts.borrow_mut().run(key).grants.get_mut(&epoch(token)) {
            grant.expires_at = grant.expires_at.max(until);
        }
    }

    /// From here on nobody can be sure that it is live.
    pub fn end_asked(&self, key: &Key, token: &str) {
        if let Some(grant) = self.facts.borrow_mut().run(key).grants.get_mut(&epoch(token)) {
            grant.end_asked = true;
        }
    }

    /// Somebody ends whatever lease is live, also one whose owner has not heard of it yet.
    pub fn cancel_asked(&self, key: &Key) {
        let mut facts = self.facts.borrow_mut();
        let run = facts.run(key);
        run.cancels += 1;
        run.grants.values_mut().for_each(|grant| grant.end_asked = true);
    }

    pub fn cancel_over(&self, key: &Key) {
        let (now, mut facts) = (self.now(), self.facts.borrow_mut());
        let run = facts.run(key);
        run.cancels = run.cancels.saturating_sub(1);
        run.cancelled_until = run.cancelled_until.max(Some(now));
    }
}
