//! Circuit breakers as a pure state machine. A breaker watches a tenant, or a model of a provider; when most attempts in
//! its window fail, it opens and holds retries until a probe succeeds. The store keeps breakers; every transition is here.

mod key;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::BreakerSettings;
use crate::reason::Reason;
use crate::text::Text;
use crate::time::Timestamp;
use crate::words::words;

pub use key::{BREAKERS_PER_TENANT_MAX, Key, PREFIX, Scope};

words! {
    /// The three states of a breaker, by name.
    pub enum BreakerStateName {
        Closed = "closed",
        Open = "open",
        HalfOpen = "half_open",
    }
}

/// The one attempt that tests a half-open breaker, identified by run number and lease epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    pub run: i64,
    pub epoch: u64,
}

/// Who opened it by hand, and why: a change freeze, a known outage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ByHand {
    pub actor: String,
    pub reason: Option<Text>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum BreakerState {
    Closed {
        window: Window,
    },
    Open {
        /// None: until somebody closes it.
        until: Option<Timestamp>,
        /// Openings in a row without a success between them.
        tries: u32,
        by_hand: Option<ByHand>,
    },
    HalfOpen {
        probe: Option<Probe>,
        tries: u32,
    },
}

/// A breaker. A result counts only if its attempt began in this generation or later: each change of state begins a new
/// generation, and numbers are never reused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Breaker {
    pub state: BreakerState,
    pub generation: u64,
    /// When it entered its state.
    pub since: Timestamp,
}

/// Who wants to begin an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// Automation, or a worker that leases due runs.
    Retry,
    /// A person asked for this attempt.
    Replay,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Pass,
    /// It may begin, as the probe.
    Probe,
    Hold,
}

impl Breaker {
    /// A closed breaker with an empty window.
    pub fn new(generation: u64, now: Timestamp) -> Self {
        Self { state: BreakerState::Closed { window: Window::default() }, generation, since: now }
    }

    pub fn name(&self) -> BreakerStateName {
        match self.state {
            BreakerState::Closed { .. } => BreakerStateName::Closed,
            BreakerState::Open { .. } => BreakerStateName::Open,
            BreakerState::HalfOpen { .. } => BreakerStateName::HalfOpen,
        }
    }

    pub fn is_closed(&self) -> bool {
        self.name() == BreakerStateName::Closed
    }

    /// Whether it is open and its time has passed.
    pub fn is_up(&self, now: Timestamp) -> bool {
        match &self.state {
            BreakerState::Open { until, .. } => until.is_some_and(|until| until <= now),
            BreakerState::Closed { .. } | BreakerState::HalfOpen { .. } => false,
        }
    }

    pub fn is_by_hand(&self) -> bool {
        match &self.state {
            BreakerState::Open { by_hand, .. } => by_hand.is_some(),
            BreakerState::Closed { .. } | BreakerState::HalfOpen { .. } => false,
        }
    }

    /// Whether it holds nothing worth storing.
    pub fn is_blank(&self) -> bool {
        match &self.state {
            BreakerState::Closed { window } => !window.has_failures(),
            BreakerState::Open { .. } | BreakerState::HalfOpen { .. } => false,
        }
    }

    /// The same with an empty window; none unless it is closed without recent failures.
    #[must_use]
    pub fn forgotten(&self, now: Timestamp) -> Option<Self> {
        match &self.state {
            BreakerState::Closed { window } if window.figures(now).1 == 0 => {
                Some(Self { state: BreakerState::Closed { window: Window::default() }, ..self.clone() })
            }
            BreakerState::Closed { .. } | BreakerState::Open { .. } | BreakerState::HalfOpen { .. } => None,
        }
    }

    pub fn admits(&self, asker: Asker) -> Admission {
        match (&self.state, asker) {
            (BreakerState::Closed { .. }, _) => Admission::Pass,
            // Opened by hand, it holds replays by other people too.
            (BreakerState::Open { by_hand: Some(_), .. }, _) => Admission::Hold,
            (BreakerState::HalfOpen { probe: None, .. }, _) => Admission::Probe,
            (
                BreakerState::Open { by_hand: None, .. } | BreakerState::HalfOpen { probe: Some(_), .. },
                Asker::Replay,
            ) => Admission::Pass,
            (
                BreakerState::Open { by_hand: None, .. } | BreakerState::HalfOpen { probe: Some(_), .. },
                Asker::Retry,
            ) => Admission::Hold,
        }
    }
}

/// What can happen to a breaker.
#[derive(Debug, Clone, PartialEq)]
pub enum BreakerEvent {
    /// An attempt that began here ended. `voter`: the tenant's number; `generation`: when it began.
    Ended {
        attempt: Probe,
        voter: i64,
        counts: Counts,
        generation: u64,
    },
    /// This attempt begins, and is the probe.
    ProbeGranted(Probe),
    /// The probe ended without a result: its lease expired, or it was released or cancelled.
    ProbeLost(Probe),
    /// Time has passed.
    Tick,
    OpenedByHand {
        by: ByHand,
        until: Option<Timestamp>,
    },
    /// Closed by hand, or a wider breaker has taken over: counts are dropped.
    Reset,
}

/// Context of a transition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerContext<'a> {
    pub settings: &'a BreakerSettings,
    /// Shared by all tenants: no tenant opens it alone.
    pub shared: bool,
    pub now: Timestamp,
    /// In `0.0..1.0`.
    pub jitter: f64,
    /// The number of the generation that a change of state begins.
    pub next: u64,
}

pub fn apply(breaker: &Breaker, event: &BreakerEvent, turn: BreakerContext<'_>) -> Breaker {
    match event {
        BreakerEvent::Ended { attempt, voter, counts, generation } => {
            ended(breaker, *attempt, *voter, *counts, *generation, turn)
        }
        BreakerEvent::ProbeGranted(granted) => probe_granted(breaker, *granted),
        BreakerEvent::ProbeLost(lost) => probe_lost(breaker, *lost),
        BreakerEvent::Tick => tick(breaker, turn),
        BreakerEvent::OpenedByHand { by, until } => {
            in_state(BreakerState::Open { until: *until, tries: 0, by_hand: Some(by.clone()) }, turn)
        }
        BreakerEvent::Reset => closed(turn),
    }
}

fn in_state(state: BreakerState, turn: BreakerContext<'_>) -> Breaker {
    Breaker { state, generation: turn.next, since: turn.now }
}

fn closed(turn: BreakerContext<'_>) -> Breaker {
    in_state(BreakerState::Closed { window: Window::default() }, turn)
}

/// Doubles with each opening in a row, ± 10 %, so that breakers do not probe in one instant.
fn opened(tries: u32, turn: BreakerContext<'_>) -> Breaker {
    let settings = turn.settings;
    let doubled = settings.open_ms.saturating_mul(1 << (tries.saturating_sub(1)).min(20)).min(settings.open_max_ms);
    let spread = doubled / 10;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "milliseconds of hours, times at most two"
    )]
    let more = (spread as f64 * 2.0 * turn.jitter.clamp(0.0, 1.0)) as u64;
    let until = turn.now.plus_ms(doubled - spread + more);
    in_state(BreakerState::Open { until: Some(until), tries, by_hand: None }, turn)
}

fn ended(
    breaker: &Breaker,
    attempt: Probe,
    voter: i64,
    counts: Counts,
    generation: u64,
    turn: BreakerContext<'_>,
) -> Breaker {
    match (&breaker.state, counts) {
        // The attempt began in an older generation: its result is stale.
        (BreakerState::Closed { .. }, _) if generation < breaker.generation => breaker.clone(),
        (BreakerState::Closed { .. }, Counts::Nothing) => breaker.clone(),
        (BreakerState::Closed { window }, Counts::Failure | Counts::Success) => {
            let mut window = window.clone();
            window.add(voter, counts == Counts::Failure, turn.settings, turn.now);
            if window.trips(turn.shared, turn.settings) {
                return opened(1, turn);
            }
            Breaker { state: BreakerState::Closed { window }, ..breaker.clone() }
        }
        (BreakerState::HalfOpen { probe: Some(probe), tries }, _) if *probe == attempt => match counts {
            Counts::Success => closed(turn),
            Counts::Failure => opened(tries.saturating_add(1), turn),
            Counts::Nothing => probe_lost(breaker, attempt),
        },
        (BreakerState::Open { .. } | BreakerState::HalfOpen { .. }, _) => breaker.clone(),
    }
}

fn probe_granted(breaker: &Breaker, granted: Probe) -> Breaker {
    match &breaker.state {
        BreakerState::HalfOpen { probe: None, tries } => {
            Breaker { state: BreakerState::HalfOpen { probe: Some(granted), tries: *tries }, ..breaker.clone() }
        }
        BreakerState::HalfOpen { probe: Some(_), .. } | BreakerState::Closed { .. } | BreakerState::Open { .. } => {
            breaker.clone()
        }
    }
}

fn probe_lost(breaker: &Breaker, lost: Probe) -> Breaker {
    match &breaker.state {
        BreakerState::HalfOpen { probe: Some(probe), tries } if *probe == lost => {
            Breaker { state: BreakerState::HalfOpen { probe: None, tries: *tries }, ..breaker.clone() }
        }
        BreakerState::HalfOpen { .. } | BreakerState::Closed { .. } | BreakerState::Open { .. } => breaker.clone(),
    }
}

fn tick(breaker: &Breaker, turn: BreakerContext<'_>) -> Breaker {
    match &breaker.state {
        BreakerState::Closed { window } => {
            let mut window = window.clone();
            window.roll(turn.settings, turn.now);
            Breaker { state: BreakerState::Closed { window }, ..breaker.clone() }
        }
        BreakerState::Open { until: Some(until), tries, by_hand } if *until <= turn.now => match by_hand {
            // Opened by hand, nothing was broken.
            Some(_) => closed(turn),
            None => in_state(BreakerState::HalfOpen { probe: None, tries: *tries }, turn),
        },
        BreakerState::Open { .. } | BreakerState::HalfOpen { .. } => breaker.clone(),
    }
}

/// How the end of an attempt counts for a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    Failure,
    /// What the breaker watches worked, whatever else went wrong.
    Success,
    /// The result does not count.
    Nothing,
}

/// How the end of an attempt counts; without a reason it was a success.
pub fn counts(scope: &Scope, failed: Option<&Reason>) -> Counts {
    let Some(reason) = failed else { return Counts::Success };
    match scope {
        Scope::Tenant { .. } => for_the_tenant(reason),
        Scope::Model { .. } | Scope::Everywhere { .. } => for_the_model(reason),
    }
}

fn for_the_tenant(reason: &Reason) -> Counts {
    let a_persons = matches!(reason, Reason::Cancelled | Reason::ApprovalExpired);
    if a_persons { Counts::Nothing } else { Counts::Failure }
}

/// A bad answer is still an answer: the provider was available. A silent worker may never have asked.
fn for_the_model(reason: &Reason) -> Counts {
    match reason {
        Reason::Timeout
        | Reason::RateLimited
        | Reason::ProviderOverloaded
        | Reason::ProviderError
        | Reason::Network
        | Reason::DependencyUnavailable => Counts::Failure,
        Reason::Silent
        | Reason::Unclaimed
        | Reason::Unknown
        | Reason::Bug
        | Reason::Cancelled
        | Reason::ApprovalExpired
        | Reason::Custom(_) => Counts::Nothing,
        Reason::QuotaExhausted
        | Reason::ContextOverflow
        | Reason::TokenBudgetExceeded
        | Reason::OutputTruncated
        | Reason::MalformedOutput
        | Reason::SchemaMismatch
        | Reason::ContentFiltered
        | Reason::HallucinationLoop
        | Reason::MaxIterations
        | Reason::ToolError
        | Reason::ToolNotFound
        | Reason::AuthFailed
        | Reason::PermissionDenied
        | Reason::InvalidRequest
        | Reason::NotFound
        | Reason::ConflictDuplicate
        | Reason::ResourceExhausted
        | Reason::DataIntegrity
        | Reason::EmptyOutput
        | Reason::NoEffect => Counts::Success,
    }
}

/// Resolution of the window.
const BUCKETS: u64 = 10;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct WindowBucket {
    /// Bucket number since the epoch, at the window's width.
    at: u64,
    ok: u64,
    /// Failures by tenant.
    failed: BTreeMap<i64, u64>,
}

/// Recent successes and failures in rolling buckets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    width_ms: u64,
    buckets: Vec<WindowBucket>,
}

impl Window {
    fn add(&mut self, voter: i64, failed: bool, settings: &BreakerSettings, now: Timestamp) {
        self.roll(settings, now);
        let at = self.bucket_of(now);
        let last = match self.buckets.last() {
            Some(last) if last.at >= at => self.buckets.len() - 1,
            Some(_) | None => {
                self.buckets.push(WindowBucket { at, ..WindowBucket::default() });
                self.buckets.len() - 1
            }
        };
        let bucket = &mut self.buckets[last];
        if failed {
            *bucket.failed.entry(voter).or_default() += 1;
        } else {
            bucket.ok += 1;
        }
    }

    /// Drops buckets before the window. Another width resets it.
    fn roll(&mut self, settings: &BreakerSettings, now: Timestamp) {
        let width_ms = (settings.window_ms / BUCKETS).max(1);
        if self.width_ms != width_ms {
            *self = Self { width_ms, buckets: Vec::new() };
        }
        let newest = self.bucket_of(now);
        self.buckets.retain(|bucket| bucket.at + BUCKETS > newest);
    }

    fn bucket_of(&self, now: Timestamp) -> u64 {
        now.as_millis().unsigned_abs() / self.width_ms.max(1)
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    pub fn has_failures(&self) -> bool {
        self.buckets.iter().any(|bucket| !bucket.failed.is_empty())
    }

    /// Attempts and failures within the window.
    pub fn figures(&self, now: Timestamp) -> (u64, u64) {
        let newest = self.bucket_of(now);
        let recent = self.buckets.iter().filter(|bucket| bucket.at + BUCKETS > newest);
        recent.fold((0, 0), |(attempts, failed), bucket| {
            let failures: u64 = bucket.failed.values().sum();
            (attempts + bucket.ok + failures, failed + failures)
        })
    }

    fn successes(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.ok).sum()
    }

    /// Whether the breaker has to open. A shared one needs two failing tenants and counts each for at most half of the
    /// minimum; successes count in full, so that two failing tenants do not stop the others.
    fn trips(&self, shared: bool, settings: &BreakerSettings) -> bool {
        let mut by_voter: BTreeMap<i64, u64> = BTreeMap::new();
        for (voter, n) in self.buckets.iter().flat_map(|bucket| &bucket.failed) {
            *by_voter.entry(*voter).or_default() += n;
        }
        let most = if shared { u64::from(settings.min_attempts).div_ceil(2) } else { u64::MAX };
        let failed: u64 = by_voter.values().map(|n| (*n).min(most)).sum();
        let attempts = failed + self.successes();
        let voters = if shared { 2 } else { 1 };
        by_voter.len() >= voters
            && attempts >= u64::from(settings.min_attempts)
            && share(failed, attempts) >= settings.failure_share
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share of counts needs no more than an f64 holds")]
fn share(failed: u64, attempts: u64) -> f64 {
    if attempts == 0 { 0.0 } else { failed as f64 / attempts as f64 }
}
