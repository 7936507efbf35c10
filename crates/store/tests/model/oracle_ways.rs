//! The oracle's starts and people: how a run continues, and who settles a doubt.

use redrive_core::run::StateName;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{EffectOutcome, StepStatus};
use redrive_engine::{
    EffectRef, Error, Fit, NewRun, Reconcile, Replay, Result, RunRef, Start, StartHow, Triage, TriageAct, Triaged,
    UnderLease,
};

use crate::act::CALLS;
use crate::oracle::{Oracle, RUNS};
use crate::world::{LEASE_MS, lease_call, new_run, under};

impl Oracle {
    /// By whatever way the run can go on now; none while somebody has to decide first.
    pub async fn begin(&mut self, at: &RunRef) -> Option<UnderLease> {
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

    pub async fn triage(&self, at: &RunRef, triage: Triage) -> Result<Triaged> {
        let reason = Some(Text::from("go"));
        self.world.store.triage(TriageAct { at: at.clone(), triage, actor: "ops".into(), reason }).await
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

    /// People settle most doubts; the step's own check settles the rest.
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
}
