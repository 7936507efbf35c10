//! The model of breakers, written from the promises: what counts, what opens, what is admitted. A result counts
//! only if its attempt began after the breaker last changed (B2).

use std::collections::BTreeMap;

use redrive_core::breaker::BreakerStateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::BreakerView;

pub const MIN_ATTEMPTS: u64 = 4;
const SHARE: f64 = 0.8;
const BUCKET_MS: u64 = 30_000;
const BUCKETS: u64 = 10;
const OPEN_MS: u64 = 30_000;
const OPEN_MAX_MS: u64 = 600_000;

/// An attempt by its lease.
pub type Attempt = String;

/// How an attempt that began here ended, as far as breakers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Success,
    TimedOut,
    Bug,
    KeyRefused,
    Silent,
}

/// What is watched: environment, whose (none: everybody's), and which model of one provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watch {
    pub environment: &'static str,
    pub tenant: Option<&'static str>,
    pub model: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Ended {
    bucket: u64,
    tenant: &'static str,
    failed: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Now {
    Closed { ends: Vec<Ended> },
    Open { until: Option<Timestamp>, tries: u32, by_hand: bool, told: bool },
    HalfOpen { probe: Option<Attempt>, tries: u32 },
}

#[derive(Debug, Clone)]
struct Breaker {
    now: Now,
    changed: u64,
}

#[derive(Default)]
pub struct Breakers {
    all: BTreeMap<Watch, Breaker>,
    /// How often anything changed.
    changes: u64,
    /// How often when the store was opened: what it knew nothing of then begins there.
    opened_at: u64,
}

impl Watch {
    pub fn name(&self) -> String {
        let (environment, model) = (self.environment, self.model.unwrap_or_default());
        match (self.tenant, self.model) {
            (Some(tenant), None) => format!("breaker:tenant/{environment}/{tenant}"),
            (Some(tenant), Some(_)) => format!("breaker:model/{environment}/{tenant}/openai/{model}"),
            (None, _) => format!("breaker:everywhere/{environment}/openai/{model}"),
        }
    }

    /// All that watch an attempt: the tenant's, everybody's for the model, the tenant's for the model.
    pub fn of(environment: &'static str, tenant: &'static str, model: Option<&'static str>) -> Vec<Self> {
        let mut all = vec![Self { environment, tenant: Some(tenant), model: None }];
        if model.is_some() {
            all.push(Self { environment, tenant: None, model });
            all.push(Self { environment, tenant: Some(tenant), model });
        }
        all
    }

    /// Failed, worked, or nothing learnt.
    fn counts(&self, end: End) -> Option<bool> {
        match (end, self.model) {
            (End::Success, _) | (End::KeyRefused, Some(_)) => Some(false),
            (End::TimedOut, _) | (End::Bug | End::Silent | End::KeyRefused, None) => Some(true),
            (End::Bug | End::Silent, Some(_)) => None,
        }
    }
}

impl Breakers {
    fn known(&mut self, watch: &Watch) -> &mut Breaker {
        let blank = Breaker { now: Now::Closed { ends: Vec::new() }, changed: self.opened_at };
        self.all.entry(watch.clone()).or_insert(blank)
    }

    fn change(&mut self, watch: &Watch, now: Now) {
        self.changes += 1;
        let changed = self.changes;
        *self.known(watch) = Breaker { now, changed };
    }

    /// How the worst of them stands.
    pub fn worst(&self, watched_by: &[Watch]) -> BreakerStateName {
        let of = |watch: &Watch| match self.all.get(watch).map(|breaker| &breaker.now) {
            None | Some(Now::Closed { .. }) => (0, BreakerStateName::Closed),
            Some(Now::HalfOpen { .. }) => (1, BreakerStateName::HalfOpen),
            Some(Now::Open { .. }) => (2, BreakerStateName::Open),
        };
        watched_by.iter().map(of).max_by_key(|(badness, _)| *badness).unwrap().1
    }

    /// What an attempt that begins now carries.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub fn is_closed(&self, watch: &Watch) -> bool {
        self.all.get(watch).is_none_or(|breaker| matches!(breaker.now, Now::Closed { .. }))
    }

    /// Whether automation may begin; half open and free counts as yes.
    pub fn lets_through(&self, watch: &Watch) -> bool {
        match self.all.get(watch).map(|breaker| &breaker.now) {
            None | Some(Now::Closed { .. } | Now::HalfOpen { probe: None, .. }) => true,
            Some(Now::Open { .. } | Now::HalfOpen { probe: Some(_), .. }) => false,
        }
    }

    /// An attempt has begun: free slots of its breakers are taken.
    pub fn begun(&mut self, watched_by: &[Watch], attempt: &Attempt) {
        for watch in watched_by {
            if let Some(Breaker { now: Now::HalfOpen { probe: probe @ None, .. }, .. }) = self.all.get_mut(watch) {
                *probe = Some(attempt.clone());
            }
        }
    }

    /// It ended without a word on what it tried.
    pub fn lost(&mut self, attempt: &Attempt) {
        for breaker in self.all.values_mut() {
            if let Now::HalfOpen { probe, .. } = &mut breaker.now
                && probe.as_ref() == Some(attempt)
            {
                *probe = None;
            }
        }
    }

    pub fn ended(&mut self, watched_by: &[Watch], attempt: &Attempt, began: u64, end: End, now: Timestamp) {
        let voter = watched_by[0].tenant.unwrap();
        for watch in watched_by {
            let everybodys = Watch { tenant: None, ..watch.clone() };
            if watch.tenant.is_some() && watch.model.is_some() && !self.is_closed(&everybodys) {
                // It is down for everybody, and one breaker says so.
                continue;
            }
            let counts = watch.counts(end);
            match &self.known(watch).now {
                Now::Closed { .. } => self.count(watch, voter, counts, began, now),
                Now::HalfOpen { probe, tries } if probe.as_ref() == Some(attempt) => {
                    let tries = *tries;
                    match counts.filter(|_| end != End::Silent) {
                        Some(true) => self.opens(watch, tries + 1),
                        Some(false) => self.change(watch, Now::Closed { ends: Vec::new() }),
                        None => self.lost(attempt),
                    }
                }
                Now::Open { .. } | Now::HalfOpen { .. } => {}
            }
        }
        // A slot that it had of a breaker that did not listen is free.
        self.lost(attempt);
    }

    fn count(&mut self, watch: &Watch, tenant: &'static str, failed: Option<bool>, began: u64, now: Timestamp) {
        let breaker = self.known(watch);
        let is_late = began < breaker.changed;
        let (Now::Closed { ends }, Some(failed), false) = (&mut breaker.now, failed, is_late) else { return };
        let bucket = bucket_of(now);
        ends.retain(|end| end.bucket + BUCKETS > bucket);
        ends.push(Ended { bucket, tenant, failed });
        if trips(ends, watch.tenant.is_none()) {
            self.opens(watch, 1);
            self.takes_over(watch);
        }
    }

    fn opens(&mut self, watch: &Watch, tries: u32) {
        self.change(watch, Now::Open { until: None, tries, by_hand: false, told: false });
    }

    /// Tenants' own make way for everybody's; a person's word stays.
    fn takes_over(&mut self, wide: &Watch) {
        if wide.tenant.is_some() {
            return;
        }
        let is_part = |watch: &Watch| {
            watch.tenant.is_some() && watch.model == wide.model && watch.environment == wide.environment
        };
        let stands = |breaker: &Breaker| match breaker.now {
            Now::Closed { .. } => false,
            Now::Open { by_hand, .. } => !by_hand,
            Now::HalfOpen { .. } => true,
        };
        let parts: Vec<Watch> = self
            .all
            .iter()
            .filter(|(watch, it)| is_part(watch) && stands(it))
            .map(|(watch, _)| watch.clone())
            .collect();
        for part in parts {
            self.change(&part, Now::Closed { ends: Vec::new() });
        }
    }

    pub fn opened_by_hand(&mut self, watch: &Watch, until: Option<Timestamp>) {
        self.change(watch, Now::Open { until, tries: 0, by_hand: true, told: true });
    }

    pub fn closed_by_hand(&mut self, watch: &Watch) {
        self.change(watch, Now::Closed { ends: Vec::new() });
    }

    pub fn pass(&mut self, now: Timestamp) {
        for watch in self.all.keys().cloned().collect::<Vec<_>>() {
            let Now::Open { until: Some(until), tries, by_hand, .. } = self.all[&watch].now else { continue };
            if until > now {
                continue;
            }
            let next = if by_hand { Now::Closed { ends: Vec::new() } } else { Now::HalfOpen { probe: None, tries } };
            self.change(&watch, next);
        }
    }

    /// Of what has seen no failure nothing is kept: results of attempts from before count nowhere.
    pub fn restarted(&mut self) {
        let changes = self.changes;
        self.opened_at = changes;
        for breaker in self.all.values_mut() {
            if matches!(&breaker.now, Now::Closed { ends } if !ends.iter().any(|end| end.failed)) {
                *breaker = Breaker { now: Now::Closed { ends: Vec::new() }, changed: changes };
            }
        }
    }

    /// The store's own words. How long an opening lasts is a matter of chance, within bounds, and taken from there.
    pub fn compare(&mut self, shown: &[BreakerView], now: Timestamp) {
        let mut expected = BTreeMap::new();
        for (watch, breaker) in &mut self.all {
            let name = watch.name();
            let view = shown.iter().find(|view| view.name.as_str() == name);
            if let (Now::Open { until, tries, told: told @ false, .. }, Some(view)) = (&mut breaker.now, view) {
                let wait = view.until.expect("it ends by itself").since(now);
                let about = (OPEN_MS << (*tries - 1).min(10)).min(OPEN_MAX_MS);
                assert!((about - about / 10..=about + about / 10).contains(&wait), "{wait} ms, try {tries}");
                (*until, *told) = (view.until, true);
            }
            let figures = match &breaker.now {
                Now::Closed { ends } => {
                    let recent = || ends.iter().filter(|end| end.bucket + BUCKETS > bucket_of(now));
                    let (all, failed) = (recent().count() as u64, recent().filter(|end| end.failed).count() as u64);
                    if failed == 0 {
                        continue;
                    }
                    (BreakerStateName::Closed, None, false, false, Some((all, failed)))
                }
                Now::Open { until, by_hand, .. } => (BreakerStateName::Open, *until, *by_hand, false, None),
                Now::HalfOpen { probe, .. } => (BreakerStateName::HalfOpen, None, false, probe.is_some(), None),
            };
            expected.insert(name, figures);
        }
        let told: BTreeMap<String, _> = shown
            .iter()
            .map(|view| {
                let figures = view.attempts.zip(view.failed);
                (view.name.to_string(), (view.state, view.until, view.by_hand, view.probing, figures))
            })
            .collect();
        assert_eq!(told, expected);
    }
}

fn bucket_of(now: Timestamp) -> u64 {
    now.as_millis().unsigned_abs() / BUCKET_MS
}

/// Everybody's needs two tenants that fail, and counts none for more than half of the minimum.
fn trips(ends: &[Ended], shared: bool) -> bool {
    let mut failed: BTreeMap<&str, u64> = BTreeMap::new();
    for end in ends.iter().filter(|end| end.failed) {
        *failed.entry(end.tenant).or_default() += 1;
    }
    let most = if shared { MIN_ATTEMPTS / 2 } else { u64::MAX };
    let counted: u64 = failed.values().map(|n| (*n).min(most)).sum();
    let worked = ends.iter().filter(|end| !end.failed).count() as u64;
    let tenants = if shared { 2 } else { 1 };
    let attempts = counted + worked;
    failed.len() >= tenants && attempts >= MIN_ATTEMPTS && counted as f64 / attempts as f64 >= SHARE
}
