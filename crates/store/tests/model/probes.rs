//! B1: a half-open breaker admits exactly one probe until it settles or its lease ends, and a crashed one frees the slot.
//! Many rounds on one store: several callers ask at once, by lease and by start, while the engine releases held runs; the
//! probe then ends in one of all possible ways, some of them late.

use std::collections::BTreeMap;

use redrive_core::breaker::BreakerStateName;
use redrive_core::policy::{BreakerLayer, Policies, PolicyLayer};
use redrive_core::text::Text;
use redrive_core::wire::BreakerView;
use redrive_engine::{Error, RunRef, Start, StartHow, TenantScope, Triage, TriageAct, UnderLease};

use crate::lot::Lot;
use crate::play::{at_once, world_under};
use crate::world::{LEASE_MS, World, at, failed, lease_call, start, success, under};

const TENANT: &str = "acme";
/// Longer than the longest opening, its jitter included.
const OPENING_MS: u64 = 700_000;
const TIMED_OUT: &str = "Request timed out";

/// What becomes of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    Succeeds,
    Fails,
    Crashes,
    /// Its lease runs out, another probe goes, and then it speaks.
    ComesLate,
    GivenBack,
    Cancelled,
    /// Heartbeats carry it past where its lease would have ended.
    TakesLong,
}

pub const FATES: [Fate; 7] =
    [Fate::Succeeds, Fate::Fails, Fate::Crashes, Fate::ComesLate, Fate::GivenBack, Fate::Cancelled, Fate::TakesLong];

pub struct Probing {
    world: Option<World>,
    lot: Lot,
    runs: usize,
    pub fates: BTreeMap<Fate, usize>,
}

impl Probing {
    pub async fn new(lot: Lot) -> Self {
        println!("world {}", lot.seed);
        let breaker = Some(BreakerLayer { min_attempts: Some(2), ..BreakerLayer::default() });
        let defaults = PolicyLayer { breaker, ..PolicyLayer::default() };
        let world = world_under(Policies { defaults, ..Policies::default() }).await;
        Self { world: Some(world), lot, runs: 0, fates: BTreeMap::new() }
    }

    fn world(&self) -> &World {
        self.world.as_ref().unwrap()
    }

    pub async fn rounds(&mut self, most: usize) {
        for _ in 0..most {
            self.comes_to_be_half_open().await;
            let probe = self.race().await;
            self.nobody_else().await;
            let fate = *self.lot.pick(&FATES);
            self.ends(&probe, fate).await;
            *self.fates.entry(fate).or_default() += 1;
        }
    }

    fn new_run(&mut self) -> String {
        self.runs += 1;
        format!("r{}", self.runs)
    }

    async fn breaker(&self) -> Option<BreakerView> {
        let all = self.world().store.breakers(&TenantScope::All).await.unwrap().breakers;
        all.into_iter().find(|breaker| breaker.tenant.is_some())
    }

    async fn stands(&self) -> (BreakerStateName, bool) {
        self.breaker().await.map_or((BreakerStateName::Closed, false), |breaker| (breaker.state, breaker.probing))
    }

    /// Whatever it stood at: two failures open what is closed, time passes over what is open.
    async fn comes_to_be_half_open(&mut self) {
        while self.stands().await.0 == BreakerStateName::Closed {
            let run = self.new_run();
            let (_, under) = self.world().start(&run).await;
            self.world().store.fail(under, failed(TIMED_OUT)).await.unwrap();
        }
        if self.stands().await.0 == BreakerStateName::Open {
            if self.lot.one_in(3) {
                self.ask_at_once(0).await;
            }
            self.world().wait(OPENING_MS);
        }
        self.world().store.release_held(500).await.unwrap();
        assert_eq!(self.stands().await, (BreakerStateName::HalfOpen, false));
    }

    /// All callers ask: exactly one is admitted.
    async fn race(&mut self) -> UnderLease {
        for _ in 0..1 + self.lot.below(3) {
            let run = self.new_run();
            self.world().enqueue(TENANT, &run).await;
        }
        let probe = self.ask_at_once(1).await.pop().unwrap();
        assert_eq!(self.stands().await, (BreakerStateName::HalfOpen, true));
        probe
    }

    /// While the probe runs, however long it takes of its lease, and through restarts.
    async fn nobody_else(&mut self) {
        self.world().wait(self.lot.below(LEASE_MS / 2));
        if self.lot.one_in(100) {
            let world = self.world.take().unwrap();
            self.world = Some(world.restarted().await);
        }
        if self.lot.one_in(2) {
            let run = self.new_run();
            self.world().enqueue(TENANT, &run).await;
        }
        self.ask_at_once(0).await;
        assert_eq!(self.stands().await, (BreakerStateName::HalfOpen, true));
    }

    /// Several workers, somebody with a run in hand, and the engine, in any order and all before any has its answer.
    async fn ask_at_once(&self, wanted: usize) -> Vec<UnderLease> {
        let newest = format!("r{}", self.runs);
        let asks = (0..4 + self.lot.upto(4)).map(|_| match self.lot.below(6) {
            0 => self.ask(Ask::LetGo),
            1 => self.ask(Ask::Start(newest.clone())),
            n => self.ask(Ask::Lease(u32::try_from(n).unwrap())),
        });
        // A worker always takes what is due.
        let asks = asks.chain([self.ask(Ask::Lease(10))]).collect();
        let given: Vec<UnderLease> = at_once(asks).await.into_iter().flatten().collect();
        assert_eq!(given.len(), wanted, "{given:?}");
        given
    }

    async fn ask(&self, ask: Ask) -> Vec<UnderLease> {
        let store = &self.world().store;
        match ask {
            Ask::LetGo => {
                store.release_held(500).await.unwrap();
                Vec::new()
            }
            Ask::Lease(max) => store.lease(lease_call(max)).await.unwrap().iter().map(under).collect(),
            Ask::Start(run) => match store.start(started_by_nobody(&run)).await {
                Ok(started) => {
                    let lease = started.answer.lease.map(|lease| lease.parse().unwrap());
                    lease.map(|lease| UnderLease { at: at(TENANT, &run), lease }).into_iter().collect()
                }
                Err(Error::Refused(_) | Error::DeadLettered(_)) => Vec::new(),
                Err(error) => panic!("{error}"),
            },
        }
    }

    async fn ends(&mut self, probe: &UnderLease, fate: Fate) {
        let after = match fate {
            Fate::Succeeds => self.succeeds(probe).await,
            Fate::Fails => self.fails(probe).await,
            Fate::Crashes => self.crashes().await,
            Fate::ComesLate => return self.comes_late(probe).await,
            Fate::GivenBack => {
                self.world().store.release(probe.clone()).await.unwrap();
                BreakerStateName::HalfOpen
            }
            Fate::Cancelled => {
                self.cancelled(&probe.at).await;
                BreakerStateName::HalfOpen
            }
            Fate::TakesLong => {
                for _ in 0..3 {
                    self.world().wait(LEASE_MS / 2 - 1);
                    self.world().store.heartbeat(probe.clone()).await.unwrap();
                    self.world().store.rescue_expired(100).await.unwrap();
                }
                self.ask_at_once(0).await;
                self.fails(probe).await
            }
        };
        self.world().store.release_held(0).await.unwrap();
        assert_eq!(self.stands().await, (after, false), "{fate:?}");
    }

    async fn succeeds(&self, probe: &UnderLease) -> BreakerStateName {
        self.world().store.succeed(success(probe, "\"ok\"")).await.unwrap();
        BreakerStateName::Closed
    }

    async fn fails(&self, probe: &UnderLease) -> BreakerStateName {
        self.world().store.fail(probe.clone(), failed(TIMED_OUT)).await.unwrap();
        BreakerStateName::Open
    }

    /// It goes silent. It keeps its slot until rescue runs.
    async fn crashes(&self) -> BreakerStateName {
        self.world().wait(LEASE_MS + 1);
        assert!(self.world().store.rescue_expired(100).await.unwrap().moved > 0);
        BreakerStateName::HalfOpen
    }

    async fn cancelled(&self, probe: &RunRef) {
        let reason = Some(Text::from("stop"));
        let act = TriageAct { at: probe.clone(), triage: Triage::Cancel, actor: "key:ops".into(), reason };
        self.world().store.triage(act).await.unwrap();
    }

    /// The word of a probe that was given up says nothing while the next one finds out.
    async fn comes_late(&mut self, first: &UnderLease) {
        self.crashes().await;
        let second = self.race().await;
        let late = if self.lot.one_in(2) {
            self.world().store.succeed(success(first, "\"ok\"")).await.map(|_| ())
        } else {
            self.world().store.fail(first.clone(), failed(TIMED_OUT)).await.map(|_| ())
        };
        assert!(matches!(late, Ok(()) | Err(Error::LeaseLost { .. })), "{late:?}");
        self.nobody_else().await;
        let wanted = if self.lot.one_in(2) { self.succeeds(&second).await } else { self.fails(&second).await };
        assert_eq!(self.stands().await, (wanted, false));
    }
}

/// Without an id of its own: who asks twice for what he has is refused, too.
fn started_by_nobody(run: &str) -> Start {
    Start { how: StartHow::Start { start_id: None, lease_ms: Some(LEASE_MS) }, ..start(run) }
}

enum Ask {
    LetGo,
    Lease(u32),
    Start(String),
}
