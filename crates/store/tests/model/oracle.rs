//! R1 with a counting oracle: workers execute the offered steps, crash, come back late and are replayed, over every path by
//! which a step can be offered. A step acknowledged as done is never offered again, and an unknown effect blocks its run
//! until it is reconciled. New paths must be added here.

use std::collections::BTreeMap;

use redrive_core::run::StateName;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{EffectOutcome, StepStatus};
use redrive_engine::{NewStep, RunRef, UnderLease};

use crate::act::CALLS;
use crate::lot::Lot;
use crate::world::{World, at, step, unnamed};

const TENANTS: [&str; 2] = ["acme", "globex"];
pub const RUNS: [&str; 4] = ["r0", "r1", "c0", "c1"];

/// What the outside world knows of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fact {
    pub effect: bool,
    /// How often a worker was told to do it and did.
    pub done: u32,
    /// The store has acknowledged that it is done.
    pub acknowledged: bool,
    /// It was begun and its end was not told.
    pub in_doubt: bool,
}

/// A step of a run's endless script.
#[derive(Debug, Clone)]
pub struct Scripted {
    pub step: NewStep,
    /// What the oracle knows it by: the tenant's for a shared effect, otherwise the run's own.
    pub fact: (String, String),
}

impl Scripted {
    pub fn is_effect(&self) -> bool {
        self.step.effect == Some(true)
    }
}

/// How often each path was taken.
pub type Paths = BTreeMap<&'static str, usize>;

pub struct Oracle {
    pub world: World,
    pub lot: Lot,
    pub facts: BTreeMap<(String, String), Fact>,
    /// Outcomes that their worker will tell too late.
    pub late: Vec<(UnderLease, Scripted)>,
    pub paths: Paths,
}

pub fn scripted(at: &RunRef, n: u64) -> Scripted {
    let own = format!("{}/{}", at.tenant, at.run_id);
    let (step, scope) = match n % 5 {
        0 => (step(&format!("plain-{n}"), false, StepStatus::Started), own),
        1 => (step(&format!("{}-charge-{n}", at.run_id), true, StepStatus::Started), own),
        // Each of them the next one of its name.
        2 => (unnamed("send mail", StepStatus::Started), own),
        3 => (NewStep { effect: Some(false), ..unnamed("read", StepStatus::Started) }, own),
        _ => (step(&format!("shared-{n}"), true, StepStatus::Started), at.tenant.to_string()),
    };
    Scripted { step, fact: (scope, format!("step {n}")) }
}

impl Oracle {
    pub async fn new(lot: Lot) -> Self {
        let world = crate::play::world().await;
        world.retried_by_caller(CALLS).await;
        Self { world, lot, facts: BTreeMap::new(), late: Vec::new(), paths: Paths::new() }
    }

    pub async fn replays(&mut self, most: usize) {
        for _ in 0..most {
            let at = at(TENANTS[self.lot.upto(2)], RUNS[self.lot.upto(4)]);
            if let Some(under) = self.begin(&at).await {
                self.attempt(&at, under).await;
            }
            self.check(&at).await;
            if self.lot.one_in(3) {
                self.tell_late().await;
            }
        }
    }

    pub fn took(&mut self, path: &'static str) {
        *self.paths.entry(path).or_default() += 1;
    }

    /// Which step of the script a key on record stands for.
    pub fn fact_of(&self, at: &RunRef, key: &str) -> (String, String) {
        let mut of_name: BTreeMap<String, u32> = BTreeMap::new();
        for n in 0.. {
            let scripted = scripted(at, n);
            let known = match &scripted.step.key {
                Some(key) => key.as_str().to_owned(),
                None => {
                    let stem = format!("step:{}", scripted.step.name.as_str().replace(' ', "@20"));
                    let nth = of_name.entry(stem.clone()).or_default();
                    *nth += 1;
                    if *nth == 1 { stem } else { format!("{stem}:{nth}") }
                }
            };
            if known == key {
                return scripted.fact;
            }
        }
        unreachable!()
    }

    /// What the store shows is what the oracle knows; an automatic path never goes past a doubt.
    async fn check(&mut self, at: &RunRef) {
        let shown = self.world.store.run(at).await.unwrap();
        let mut doubts = 0;
        for step in &shown.body.steps {
            // Another run may know more of what all of them share.
            if step.key.as_str().starts_with("shared-") {
                continue;
            }
            let fact = self.facts[&self.fact_of(at, step.key.as_str())];
            let done = match step.status {
                StepStatus::Committed => true,
                StepStatus::Reconciled => step.outcome == Some(EffectOutcome::Committed),
                StepStatus::Started | StepStatus::Failed | StepStatus::Unknown => false,
            };
            assert_eq!(
                (done, step.status == StepStatus::Unknown),
                (fact.acknowledged, fact.in_doubt),
                "{at:?} {step:?}"
            );
            doubts += usize::from(fact.in_doubt);
        }
        if doubts > 0 {
            assert_ne!(shown.summary.state, StateName::Scheduled);
        }
        if doubts > 0 && shown.summary.state == StateName::Dead {
            let because = shown.summary.dead_because;
            assert!(matches!(because, Some(DeadBecause::Unsafe | DeadBecause::Manual)), "{at:?}: {because:?}");
        }
    }

    /// Effects that are known to be done and were not done exactly once.
    pub fn done_more_than_once(&self) -> usize {
        self.facts.values().filter(|fact| fact.effect && fact.acknowledged && fact.done != 1).count()
    }

    pub fn done(&self) -> usize {
        self.facts.values().filter(|fact| fact.acknowledged).count()
    }
}
