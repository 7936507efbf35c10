//! The oracle's workers: they execute steps, fail, die, and come back late.

use redrive_core::run::StateName;
use redrive_core::wire::StepStatus;
use redrive_engine::{Error, FailedAttempt, NewStep, RunRef, Success, Triage, UnderLease};

use crate::oracle::{Oracle, Scripted, scripted};
use crate::world::{LEASE_MS, failed, success};

/// New steps that one attempt takes on, at most.
const NEW_STEPS_MAX: u64 = 3;

impl Oracle {
    /// Walks the script from its beginning: what is done comes back, what is new is done.
    pub async fn attempt(&mut self, at: &RunRef, under: UnderLease) {
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
                // A plain step may be done again; an effect may not.
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
    pub async fn tell_late(&mut self) {
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
}
