//! R1 with an oracle that counts: workers walk through the steps of their runs, do what they are told to do, crash, come
//! back late and are replayed, over every path by which a step can be offered. A step that was acknowledged as done is
//! never offered again, and what nobody knows the end of blocks its run until somebody says. A new path has to join.

use std::collections::BTreeMap;

use redrive_core::run::StateName;
use redrive_core::text::{Label, Text};
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{EffectOutcome, StepStatus};
use redrive_store::{
    Act, EffectRef, Error, FailedAttempt, Fit, NewRun, NewStep, Reconcile, Replay, Result, RunRef, Start, StartHow,
    Success, Triage, Triaged, UnderLease,
};

use crate::act::CALLS;
use crate::lot::Lot;
use crate::world::{LEASE_MS, World, at, failed, lease_call, new_run, step, success, under, unnamed};

const TENANTS: [&str; 2] = ["acme", "globex"];
const RUNS: [&str; 4] = ["r0", "r1", "c0", "c1"];
/// New steps that one attempt takes on, at most.
const NEW_STEPS_MAX: u64 = 3;

/// What the outside world knows of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Fact {
    effect: bool,
    /// How often a worker was told to do it and did.
    done: u32,
    /// The store has acknowledged that it is done.
    acknowledged: bool,
    /// It was begun and its end was not told.
    in_doubt: bool,
}

/// A step of a run's endless script.
#[derive(Debug, Clone)]
struct Scripted {
    step: NewStep,
    /// What the oracle knows it by: the tenant's for a shared effect, otherwise the run's own.
    fact: (String, String),
}

impl Scripted {
    fn is_effect(&self) -> bool {
        self.step.effect == Some(true)
    }
}

/// How often each path was taken.
pub type Paths = BTreeMap<&'static str, usize>;

pub struct Oracle {
    world: World,
    lot: Lot,
    facts: BTreeMap<(String, String), Fact>,
    /// Outcomes that their worker will tell too late.
    late: Vec<(UnderLease, Scripted)>,
    pub paths: Paths,
}

fn scripted(at: &RunRef, n: u64) -> Scripted {
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

    fn took(&mut self, path: &'static str) {
        *self.paths.entry(path).or_default() += 1;
    }

    /// By whatever way the run can go on now; none while somebody has to decide first.
    async fn begin(&mut self, at: &RunRef) -> Option<UnderLease> {
        let shown = match self.world.store.run(at).await {
            Ok(shown) => shown,
            Err(Error::NotFound(_)) => {
                self.took("first start");
                return self.start(at).await;
            }
            Err(error) => panic!("{error}"),
        };
        match shown.summary.state {
            StateName::Scheduled => self.merge_and_back(at).await,
            StateName::Dead => {
                self.settle_doubts(at).await;
                self.merge_and_back(at).await;
                if !self.approved(at).await {
                    self.replay(at).await;
                }
            }
            StateName::Succeeded | StateName::Recovered => {
                self.took("replay of a closed run");
                self.replay(at).await;
            }
            other => panic!("{at:?} is {other}"),
        }
        self.world.wait(600_000);
        if at.run_id.as_str().starts_with('c') {
            self.took("the caller's retry");
            return self.start(at).await;
        }
        if self.lot.one_in(4) {
            self.took("start of a scheduled run");
            return self.start(at).await;
        }
        self.took("lease");
        // Whatever else is due goes back at once: this is about one run.
        let mut mine = None;
        for leased in self.world.store.lease(lease_call(100)).await.unwrap() {
            let lease = under(&leased);
            if lease.at == *at {
                mine = Some(lease);
            } else {
                self.world.store.release(lease).await.unwrap();
            }
        }
        Some(mine.expect("it was due"))
    }

    async fn start(&mut self, at: &RunRef) -> Option<UnderLease> {
        let queue = if at.run_id.as_str().starts_with('c') { CALLS } else { "default" };
        let resumable = Some(at.run_id.as_str().ends_with('0'));
        let (tenant, queue) = (at.tenant.clone(), queue.parse().unwrap());
        let run = NewRun { tenant, queue, resumable, ..new_run(at.run_id.as_str()) };
        let start_id = Some(Label::from(format!("{}", self.lot.below(u64::MAX)).as_str()));
        let how = StartHow::Start { start_id, lease_ms: Some(LEASE_MS) };
        let start =
            Start { run, how, versions: Default::default(), idle_ms: None, deadline_ms: None, fit: Fit::AsItIs };
        let lease = self.world.store.start(start).await.unwrap().answer.lease.expect("a lease");
        Some(UnderLease { at: at.clone(), lease: lease.parse().unwrap() })
    }

    async fn triage(&self, at: &RunRef, triage: Triage) -> Result<Triaged> {
        let reason = Some(Text::from("go"));
        self.world.store.triage(Act { at: at.clone(), triage, actor: "ops".into(), reason }).await
    }

    /// A person's replay: by the guard where it lets it through, by force where it does not.
    async fn replay(&mut self, at: &RunRef) {
        let from_step = self.a_plain_step(at).await;
        for force in [false, true] {
            let replay = Replay { force, from_step: from_step.clone(), ..Replay::default() };
            match self.triage(at, Triage::Replay(Box::new(replay))).await {
                Ok(_) if from_step.is_some() => return self.go_on_from_there(at).await,
                Ok(_) => return self.took(if force { "forced replay" } else { "replay" }),
                Err(Error::Refused(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("force was refused");
    }

    /// Now and then the replay is to go on from a step in the middle.
    async fn a_plain_step(&self, at: &RunRef) -> Option<Label> {
        let steps = self.world.store.run(at).await.unwrap().body.steps;
        let plain: Vec<Label> = steps.into_iter().filter(|step| !step.effect).map(|step| step.name).collect();
        (!plain.is_empty() && self.lot.one_in(5)).then(|| self.lot.pick(&plain).clone())
    }

    /// What is to be done again is no longer done. Effects are not among it: that is checked like everything else.
    async fn go_on_from_there(&mut self, at: &RunRef) {
        for step in self.world.store.run(at).await.unwrap().body.steps {
            if !step.effect && step.status != StepStatus::Committed {
                self.facts.get_mut(&self.fact_of(at, step.key.as_str())).unwrap().acknowledged = false;
            }
        }
        self.took("replay from a step");
    }

    /// A merge that is taken back leaves everything where it was.
    async fn merge_and_back(&mut self, at: &RunRef) {
        let into = RunRef { run_id: RUNS[self.lot.upto(4)].parse().unwrap(), ..at.clone() };
        if into == *at || !self.lot.one_in(4) || self.world.store.run(&into).await.is_err() {
            return;
        }
        let before = self.world.store.run(at).await.unwrap().summary.state;
        if self.triage(at, Triage::Merge { into: into.run_id }).await.is_ok() {
            assert_eq!(self.triage(at, Triage::Unmerge).await.unwrap().answer.state, before);
            self.took("merge and unmerge");
        }
    }

    /// Put aside, planned, approved; what the guard refuses is not approved either, and waits for force.
    async fn approved(&mut self, at: &RunRef) -> bool {
        if !self.lot.one_in(4) {
            return false;
        }
        self.triage(at, Triage::Review).await.unwrap();
        let plan = self.world.store.plan(at, Replay::default()).await.unwrap();
        let approve = Triage::Approve { plan_hash: Label::from(plan.hash.as_str()), own_too: true };
        match self.triage(at, approve).await {
            Ok(done) => {
                assert_eq!(done.answer.state, StateName::Scheduled);
                self.took("approve");
                true
            }
            Err(Error::Refused(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Most doubts are settled by somebody who went and looked; some are left to the step's own check.
    async fn settle_doubts(&mut self, at: &RunRef) {
        for shown in self.world.store.run(at).await.unwrap().body.steps {
            if shown.status != StepStatus::Unknown || self.lot.one_in(4) {
                continue;
            }
            let fact = self.fact_of(at, shown.key.as_str());
            let happened = self.facts[&fact].done > 0;
            let outcome = if happened { EffectOutcome::Committed } else { EffectOutcome::NotDone };
            let (tenant, run_id) = (at.tenant.clone(), Some(at.run_id.clone()));
            let at = EffectRef { tenant, key: shown.key, run_id };
            let (actor, reason) = ("ops".to_owned(), None);
            let act = Reconcile { at, outcome, output: None, output_omitted: None, actor, reason };
            self.world.store.reconcile(act).await.unwrap();
            let fact = self.facts.get_mut(&fact).unwrap();
            (fact.in_doubt, fact.acknowledged) = (false, happened);
            self.took("reconcile");
        }
    }

    /// Which step of the script a key on record stands for.
    fn fact_of(&self, at: &RunRef, key: &str) -> (String, String) {
        let mut of_name: BTreeMap<String, u32> = BTreeMap::new();
        for n in 0.. {
            let scripted = scripted(at, n);
            let known = match &scripted.step.key {
                Some(key) => key.as_str().to_owned(),
                None => {
                    let stem = format!("step:{}", scripted.step.name.as_str().replace(' ', "_"));
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

    /// Walks the script from its beginning: what is done comes back, what is new is done.
    async fn attempt(&mut self, at: &RunRef, under: UnderLease) {
        let mut new = 1 + self.lot.below(NEW_STEPS_MAX);
        for n in 0.. {
            let scripted = scripted(at, n);
            let said = self.world.store.step(under.clone(), scripted.step.clone()).await;
            let fact = self.facts.entry(scripted.fact.clone()).or_default();
            fact.effect = scripted.is_effect();
            match said {
                Ok(view) if view.replayed => {
                    assert!(fact.acknowledged, "{at:?} {n} was skipped, and nobody has done it");
                    continue;
                }
                Ok(_) => assert!(!fact.acknowledged && !fact.in_doubt, "{at:?} {n} was offered again: {fact:?}"),
                Err(Error::EffectUnknown) => {
                    assert!(fact.in_doubt, "{at:?} {n}: nobody is in doubt about it");
                    if !self.check_it(at, &under, &scripted).await {
                        return self.end(at, &under, None).await;
                    }
                    continue;
                }
                Err(error) => panic!("{at:?} {n}: {error}"),
            }
            let goes_on = self.execute(&under, &scripted).await;
            new -= 1;
            if !goes_on || new == 0 {
                return self.end(at, &under, Some(scripted).filter(|_| !goes_on)).await;
            }
        }
    }

    /// The worker asks the outside world, as the step declared. Not of another run's effect: that is not its to settle.
    async fn check_it(&mut self, at: &RunRef, under: &UnderLease, scripted: &Scripted) -> bool {
        let fact = self.facts[&scripted.fact];
        let status = if fact.done > 0 { StepStatus::Committed } else { StepStatus::Failed };
        let checked = NewStep { status, checked: true, ..scripted.step.clone() };
        match self.world.store.step(under.clone(), checked).await {
            Ok(view) => assert_eq!(view.status, StepStatus::Reconciled),
            Err(Error::EffectUnknown) => {
                assert!(scripted.fact.0 == at.tenant.as_str(), "its own doubt may be settled");
                return false;
            }
            Err(error) => panic!("{error}"),
        }
        let known = self.facts.get_mut(&scripted.fact).unwrap();
        (known.in_doubt, known.acknowledged) = (false, fact.done > 0);
        self.took("check");
        // Done: it is skipped from here on. Not done: the next attempt takes it up.
        fact.done > 0
    }

    /// Does one step, or fails at it, or dies at it. True while the attempt goes on.
    async fn execute(&mut self, under: &UnderLease, scripted: &Scripted) -> bool {
        let done = NewStep { status: StepStatus::Committed, ..scripted.step.clone() };
        let fact = self.facts.get_mut(&scripted.fact).unwrap();
        match self.lot.below(10) {
            0..=5 => {
                fact.done += 1;
                let view = self.world.store.step(under.clone(), done).await.unwrap();
                assert_eq!(view.status, StepStatus::Committed);
                self.facts.get_mut(&scripted.fact).unwrap().acknowledged = true;
                true
            }
            6 => {
                let failed = NewStep { status: StepStatus::Failed, ..scripted.step.clone() };
                self.world.store.step(under.clone(), failed).await.unwrap();
                false
            }
            // Gone before it was done, or after.
            chance => {
                fact.done += u32::from(chance > 7);
                // A plain step may be done anew; an effect may not.
                fact.in_doubt = scripted.is_effect();
                if chance == 9 && scripted.is_effect() {
                    self.late.push((under.clone(), Scripted { step: done, fact: scripted.fact.clone() }));
                }
                false
            }
        }
    }

    /// The attempt ends in one of the ways there are. `last` was begun and not told of.
    async fn end(&mut self, at: &RunRef, under: &UnderLease, last: Option<Scripted>) {
        let in_doubt = last.is_some_and(|last| self.facts[&last.fact].in_doubt);
        let store = &self.world.store;
        let (path, state) = match self.lot.below(6) {
            0 => ("fail", store.fail(under.clone(), failed("Request timed out")).await.unwrap().state),
            1 => ("release", store.release(under.clone()).await.unwrap().state),
            2 => ("cancel", self.triage(at, Triage::Cancel).await.unwrap().answer.state),
            3 => {
                let told = Success { steps: Vec::new(), ..success(under, "1") };
                ("succeed", store.succeed(told).await.unwrap().state)
            }
            4 => {
                let told = FailedAttempt { steps: Vec::new(), ..failed("KeyError: 'invoice'") };
                ("fail for good", store.fail(under.clone(), told).await.unwrap().state)
            }
            _ => {
                self.world.wait(LEASE_MS + 1);
                store.rescue_expired(100).await.unwrap();
                ("rescue", store.run(at).await.unwrap().summary.state)
            }
        };
        self.took(path);
        if in_doubt {
            assert_ne!(state, StateName::Scheduled, "{at:?} after {path}: a doubt went on by itself");
        }
    }

    /// A worker that everybody thought dead tells what it did.
    async fn tell_late(&mut self) {
        let Some((under, scripted)) = self.late.pop() else { return };
        match self.world.store.step(under, scripted.step.clone()).await {
            Err(Error::LeaseLost { recorded: true } | Error::Cancelled { recorded: true }) => {
                let fact = self.facts.get_mut(&scripted.fact).unwrap();
                (fact.in_doubt, fact.acknowledged) = (false, true);
                self.took("late outcome");
            }
            // Somebody has settled it meanwhile, and another attempt has taken it up or found it done.
            Err(Error::LeaseLost { recorded: false } | Error::Cancelled { recorded: false }) => {
                assert!(!self.facts[&scripted.fact].in_doubt, "the truth was lost: {scripted:?}");
            }
            other => panic!("{other:?}"),
        }
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
