//! The model of the ledger, written from the promises: done stays done, only those who can know settle a doubt, and each
//! effect of a tenant has one entry.

use redrive_core::run::StateName;
use redrive_core::wire::{EffectOutcome, EffectView, StepStatus, StepView};
use redrive_engine::{Error, LeaseToken, Result, RunRef};

use crate::act::is_effect;
use crate::reference::{Model, Run, key};
use crate::workers::lost;

/// What is known of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    Open,
    Done,
    NotDone,
    InDoubt,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub known: Known,
    /// Of the lease that began it, or recorded it.
    epoch: u64,
    reconciled: Option<EffectOutcome>,
    /// Of an effect: no other run may begin it.
    holds: bool,
    /// The call that began it.
    call: Option<&'static str>,
}

pub fn shown_step(step: &StepView) -> (&str, Known) {
    let known = match (step.status, step.outcome) {
        (StepStatus::Started, _) => Known::Open,
        (StepStatus::Committed, _) | (StepStatus::Reconciled, Some(EffectOutcome::Committed)) => Known::Done,
        (StepStatus::Failed, _) | (StepStatus::Reconciled, Some(EffectOutcome::NotDone)) => Known::NotDone,
        (StepStatus::Unknown, _) => Known::InDoubt,
        (StepStatus::Reconciled, None) => panic!("reconciled to nothing"),
    };
    (step.key.as_str(), known)
}

impl Run {
    fn effects(&self, known: Known) -> bool {
        self.steps.iter().any(|(key, step)| is_effect(key) && step.known == known)
    }

    /// The guard: an effect in doubt, or one done in a run that can't resume.
    pub fn is_unsafe(&self) -> bool {
        self.effects(Known::InDoubt) || self.effects(Known::Open) || (self.effects(Known::Done) && !self.resumable)
    }

    pub fn doubt_what_is_open(&mut self) {
        for (key, step) in &mut self.steps {
            if is_effect(key) && step.known == Known::Open {
                step.known = Known::InDoubt;
            }
        }
    }
}

impl Model {
    /// Another run of the tenant that holds an effect's key.
    fn holder(&self, at: &RunRef, effect: &str) -> Option<Known> {
        let of_another = |(name, _): &(&(String, String), &Run)| name.0 == at.tenant.as_str() && **name != key(at);
        let mut steps = self.runs.iter().filter(of_another).filter_map(|(_, run)| run.steps.get(effect));
        steps.find(|step| is_effect(effect) && step.holds).map(|step| step.known)
    }

    pub fn step(
        &mut self,
        at: &RunRef,
        lease: LeaseToken,
        (name, call): (&'static str, Option<&'static str>),
        status: StepStatus,
        checked: bool,
        said: Result<StepView>,
    ) {
        let holder = self.holder(at, name);
        let Some(run) = self.runs.get_mut(&key(at)) else {
            assert!(matches!(said, Err(Error::NotFound(_))), "{said:?}");
            return;
        };
        if run.live.is_none() || !run.is_last(lease) {
            let recorded = run.keeps_evidence(lease) && late(run, lease.epoch, (name, call), status, holder.is_none());
            return lost(&said, Some(recorded));
        }
        assert_eq!(run.state, StateName::Running);
        if run.steps.get(name).is_some_and(|step| step.known == Known::Done) {
            return assert!(said.unwrap().replayed, "R1: done is done");
        }
        match holder {
            Some(Known::Done) => return assert!(said.unwrap().replayed),
            Some(Known::Open) => return assert!(matches!(said, Err(Error::EffectInProgress { .. })), "{said:?}"),
            Some(Known::InDoubt) => return assert!(matches!(said, Err(Error::EffectUnknown)), "{said:?}"),
            Some(Known::NotDone) | None => {}
        }
        let before = run.steps.get(name).map(|step| step.known);
        let began = run.steps.get(name).and_then(|step| step.call);
        let same_lease = run.steps.get(name).is_some_and(|step| step.epoch == lease.epoch);
        let second_call = call.is_none() || call != began;
        let to = match (before, status) {
            (Some(Known::InDoubt), StepStatus::Started) => {
                return assert!(matches!(said, Err(Error::EffectUnknown)), "{said:?}");
            }
            (Some(Known::InDoubt), StepStatus::Failed) if !checked => {
                return assert!(matches!(said, Err(Error::EffectUnknown)), "{said:?}");
            }
            (Some(Known::Open), StepStatus::Started) if is_effect(name) && second_call => {
                return assert!(matches!(said, Err(Error::EffectInProgress { .. })), "{said:?}");
            }
            (Some(Known::Open), StepStatus::Failed) if is_effect(name) && call.is_some() && call != began => {
                return assert!(matches!(said, Err(Error::EffectInProgress { .. })), "{said:?}");
            }
            (_, StepStatus::Started) => Known::Open,
            (_, StepStatus::Committed) => Known::Done,
            (_, _) => Known::NotDone,
        };
        let said = said.unwrap();
        assert!(!said.replayed);
        assert_eq!(shown_step(&said), (name, to));
        // Repeating it keeps the first actor.
        if before != Some(to) || to == Known::Open {
            let settled = (before == Some(Known::InDoubt) && checked).then_some(match to {
                Known::Done => EffectOutcome::Committed,
                Known::Open | Known::NotDone | Known::InDoubt => EffectOutcome::NotDone,
            });
            assert_eq!(said.outcome, settled);
            let holds = to != Known::NotDone;
            // Starting a plain step that is open under the same lease changes nothing.
            let call = if to == Known::Open && (before != Some(to) || !same_lease) { call } else { began };
            run.steps.insert(name, Step { known: to, epoch: lease.epoch, reconciled: settled, holds, call });
        }
    }

    /// By a person, for the run's own entry.
    pub fn reconcile(&mut self, at: &RunRef, name: &'static str, outcome: EffectOutcome, said: Result<EffectView>) {
        let Some(step) = self.runs.get_mut(&key(at)).and_then(|run| run.steps.get_mut(name)) else {
            assert!(matches!(said, Err(Error::NotFound(_))), "{said:?}");
            return;
        };
        match (step.known, step.reconciled) {
            (Known::InDoubt, _) => {
                assert_eq!(said.unwrap().outcome, Some(outcome));
                step.reconciled = Some(outcome);
                step.known = if outcome == EffectOutcome::Committed { Known::Done } else { Known::NotDone };
                step.holds &= step.known == Known::Done;
                self.runs.get_mut(&key(at)).unwrap().triaged += 1;
            }
            (Known::Open, _) => assert!(matches!(said, Err(Error::Refused(_))), "{said:?}"),
            (_, Some(before)) if before == outcome => assert_eq!(said.unwrap().outcome, Some(outcome)),
            (_, _) => assert!(matches!(said, Err(Error::EffectSettled { .. })), "{said:?}"),
        }
    }
}

/// L2's exception: the outcome of what this epoch began, and nothing else. True when it stands as said.
fn late(
    run: &mut Run,
    epoch: u64,
    (name, call): (&str, Option<&'static str>),
    status: StepStatus,
    key_is_free: bool,
) -> bool {
    let Some(step) = run.steps.get_mut(name).filter(|step| step.epoch == epoch) else { return false };
    let said = match status {
        StepStatus::Committed => Known::Done,
        StepStatus::Failed => Known::NotDone,
        StepStatus::Started | StepStatus::Unknown | StepStatus::Reconciled => return false,
    };
    match (step.known, said) {
        (Known::Done, Known::NotDone) => false,
        (Known::Open | Known::InDoubt, Known::NotDone) if is_effect(name) && call.is_some() && call != step.call => {
            false
        }
        (before, said) => {
            if before != said {
                (step.known, step.reconciled) = (said, None);
                step.holds = said == Known::Done && key_is_free;
            }
            true
        }
    }
}
