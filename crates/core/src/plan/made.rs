//! The plan itself.

use std::sync::Arc;

use serde::Serialize;

use super::hash::hash;
use super::warnings::warnings;
use crate::guard::is_unsafe;
use crate::ids::{RunId, StepKey};
use crate::ledger::{EntryState, Known, VersionChange, Will};
use crate::lifecycle::{Event, Refused, apply};
use crate::policy::{Approval, Policy};
use crate::run::{Run, Scheduled, State};
use crate::text::{Label, Text};
use crate::time::Timestamp;
use crate::verdict::{Change, Target};
use crate::wire::{PlanStep, PlanWarning, Severity};

/// A recorded step, as far as a plan depends on it.
#[derive(Debug, Clone, PartialEq)]
pub struct StepFact {
    pub name: Label,
    pub key: StepKey,
    pub effect: bool,
    pub state: EntryState,
    /// Its output was too large to keep.
    pub output_omitted: bool,
}

/// What somebody would change with the replay; what is none stays as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proposed {
    /// The new payload, by its digest.
    pub payload: Option<Vec<u8>>,
    pub instruction: Option<Text>,
    pub target: Target,
    pub from_step: Option<Label>,
    /// Past the guards.
    pub force: bool,
}

impl Proposed {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Who gets the attempt.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct GoesTo<'a> {
    pub queue: &'a str,
    pub agent: Option<&'a str>,
    pub model: Option<&'a str>,
}

/// All that a plan is made from.
#[derive(Debug, Clone)]
pub struct Situation<'a> {
    pub run: &'a Run,
    /// In the order in which they were begun.
    pub steps: &'a [StepFact],
    pub proposed: &'a Proposed,
    /// Where the attempt goes, whether it was there before or is proposed.
    pub target: GoesTo<'a>,
    pub versions_changed: Vec<VersionChange>,
    pub severity: Severity,
    /// As [`replay_rules`] gives it.
    pub policy: &'a Policy,
    /// The run that has its order key under way.
    pub busy: Option<RunId>,
    /// The breaker that stands open where the attempt goes.
    pub breaker: Option<OpenBreaker>,
}

/// A breaker that is not closed, as far as a plan tells of it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenBreaker {
    pub name: Label,
    /// A person opened it: replays wait too.
    pub by_hand: bool,
}

/// Whether a replay may be made: all that carrying it out depends on, where nobody has looked at a plan before.
#[derive(Debug, Clone, PartialEq)]
pub struct Permit {
    /// Why it would be refused unless forced.
    pub refused: Option<Refused>,
    pub approval_needed: bool,
}

/// A plan, and what the store needs to carry it out.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub hash: String,
    pub revision: u32,
    pub steps: Vec<PlanStep>,
    pub versions_changed: Vec<VersionChange>,
    pub held_by: Option<Label>,
    pub approval_needed: bool,
    /// Why it would be refused unless forced.
    pub refused: Option<Refused>,
    /// Plain steps that are done, and are to be done again.
    pub again: Vec<StepKey>,
    pub warnings: Vec<PlanWarning>,
}

/// `from_step` names no step on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no step of that key or name is on record")]
pub struct NoSuchStep;

pub fn plan(situation: &Situation<'_>) -> Result<Plan, NoSuchStep> {
    let Situation { run, steps, proposed, .. } = situation;
    let from = from_index(steps, proposed.from_step.as_ref())?;
    let planned: Vec<PlanStep> = steps.iter().enumerate().map(|(at, step)| planned(step, at >= from)).collect();
    let again = steps.iter().zip(&planned).skip(from);
    let again = again.filter(|(step, plan)| is_done(step) && plan.will == Will::Run).map(|(step, _)| step.key.clone());
    let over_effect = steps.iter().skip(from).any(|step| step.effect && is_done(step));
    let fixed = fixed(run, proposed);
    let Permit { refused, approval_needed } =
        permitted(&fixed, run, proposed, (situation.severity, situation.policy), over_effect);
    Ok(Plan {
        hash: hash(situation, fixed.revision, &planned),
        revision: fixed.revision,
        versions_changed: situation.versions_changed.clone(),
        held_by: held_by(run).cloned().or_else(|| freeze(situation).cloned()),
        approval_needed,
        again: again.collect(),
        warnings: warnings(situation, &fixed, over_effect),
        steps: planned,
        refused,
    })
}

/// The policy that a replay obeys: of the queue it goes to, as strict as that of every queue the run has been in since its
/// last attempt. `been_in`: those of the others.
pub fn replay_rules(run: &Run, goes_to: Arc<Policy>, been_in: &[Arc<Policy>]) -> Arc<Policy> {
    let rules = been_in.iter().fold(goes_to, |rules, policy| Arc::new(rules.with_replay_rules_of(policy)));
    if !run.left_queues.more {
        return rules;
    }
    let approval = Approval { always: true, ..rules.approval };
    Arc::new(Policy { approval, ..Policy::clone(&rules) })
}

/// What the plan would say of whether, without the steps: those matter only to a replay from one of them on.
pub fn permit(run: &Run, proposed: &Proposed, severity: Severity, policy: &Policy) -> Permit {
    permitted(&fixed(run, proposed), run, proposed, (severity, policy), false)
}

/// The run with what is proposed: another payload is another revision, and makes one replayable that had none.
pub fn fixed(run: &Run, proposed: &Proposed) -> Run {
    let mut next = run.clone();
    if proposed.payload.is_some() {
        next.revision += 1;
        next.replayable = true;
    }
    if let Some(text) = &proposed.instruction {
        next.changes = vec![Change::AddInstruction { text: text.decode().into_owned() }];
    }
    next.target.over(&proposed.target);
    next
}

fn from_index(steps: &[StepFact], from: Option<&Label>) -> Result<usize, NoSuchStep> {
    let Some(from) = from else { return Ok(steps.len()) };
    let by_key = steps.iter().position(|step| step.key.as_str() == from.as_str());
    by_key.or_else(|| steps.iter().position(|step| step.name == *from)).ok_or(NoSuchStep)
}

fn is_done(step: &StepFact) -> bool {
    step.state.known() == Known::Done
}

fn planned(step: &StepFact, again: bool) -> PlanStep {
    let will = match (step.state.known(), step.effect) {
        // Whatever is asked for: an effect that is done is never offered again.
        (Known::Done, false) if again => Will::Run,
        // Begun, and the attempt may end without a word on it.
        (Known::Open, true) => Will::Unknown,
        (Known::Done | Known::Open | Known::NotDone | Known::InDoubt, _) => step.state.will(),
    };
    PlanStep { name: step.name.clone(), key: step.key.clone(), effect: step.effect, will }
}

fn permitted(fixed: &Run, run: &Run, proposed: &Proposed, rules: (Severity, &Policy), over_effect: bool) -> Permit {
    let (severity, policy) = rules;
    let replay = Event::Replay { by_person: true, force: false };
    // Whether it may does not depend on when.
    let refused = apply(fixed, &replay, policy, Timestamp::default()).err();
    let is_unsafe = over_effect || is_unsafe(run);
    // "Retry now": automation would do the same without asking.
    let plain_retry = matches!(run.state, State::Scheduled(_)) && proposed.is_nothing();
    Permit {
        refused: refused.or_else(|| over_effect.then_some(Refused::Unsafe)),
        approval_needed: !plain_retry && policy.approval.is_needed(severity, is_unsafe),
    }
}

/// A breaker that somebody opened holds what a person asks for, too.
fn freeze<'a>(situation: &'a Situation<'_>) -> Option<&'a Label> {
    situation.breaker.as_ref().filter(|breaker| breaker.by_hand).map(|breaker| &breaker.name)
}

pub(super) fn held_by(run: &Run) -> Option<&Label> {
    match &run.state {
        State::Scheduled(Scheduled { due: crate::run::Due::Held(by), .. }) => Some(by),
        State::Scheduled(_)
        | State::Running(_)
        | State::Dead { .. }
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded
        | State::Merged(_) => None,
    }
}
