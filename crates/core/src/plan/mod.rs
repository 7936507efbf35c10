//! Replay plans: which steps a replay would skip or run, what is in doubt, whether approval is needed, and why it
//! would be refused. The hash binds an approval to one plan.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::guard::is_unsafe;
use crate::ids::{RunId, StepKey};
use crate::ledger::{EntryState, Known, VersionChange, Will};
use crate::lifecycle::{Event, Refused, apply};
use crate::policy::{Approval, Policy, RetryBy};
use crate::run::{Run, Scheduled, State};
use crate::text::{Label, Text};
use crate::time::Timestamp;
use crate::verdict::{Change, Target};
use crate::wire::{PlanStep, PlanWarning, Severity, WarningCode};

pub use {AttemptTarget as GoesTo, PlanInput as Situation};

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

/// Changes proposed with a replay; none leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proposed {
    /// The new payload, by its digest.
    pub payload: Option<Vec<u8>>,
    pub instruction: Option<Text>,
    pub target: Target,
    pub from_step: Option<Label>,
    /// Bypasses the guards.
    pub force: bool,
}

impl Proposed {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The queue, agent and model of the planned attempt.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AttemptTarget<'a> {
    pub queue: &'a str,
    pub agent: Option<&'a str>,
    pub model: Option<&'a str>,
}

/// The input of a plan.
#[derive(Debug, Clone)]
pub struct PlanInput<'a> {
    pub run: &'a Run,
    /// In the order in which they were begun.
    pub steps: &'a [StepFact],
    pub proposed: &'a Proposed,
    /// Where the attempt goes, proposed or not.
    pub target: AttemptTarget<'a>,
    pub versions_changed: Vec<VersionChange>,
    pub severity: Severity,
    /// As [`replay_rules`] gives it.
    pub policy: &'a Policy,
    /// The running run with the same order key.
    pub busy: Option<RunId>,
    /// The open breaker on the attempt's way.
    pub breaker: Option<OpenBreaker>,
}

/// An open or half-open breaker.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenBreaker {
    pub name: Label,
    /// A person opened it: replays wait too.
    pub by_hand: bool,
}

/// Whether a replay may be made, for callers that need no plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Permit {
    /// Why it would be refused unless forced.
    pub refused: Option<Refused>,
    pub approval_needed: bool,
}

/// A plan, with what the store needs to carry it out.
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
    /// Plain steps that are done and will run again.
    pub again: Vec<StepKey>,
    pub warnings: Vec<PlanWarning>,
}

/// `from_step` names no step on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no step of that key or name is on record")]
pub struct NoSuchStep;

pub fn plan(situation: &PlanInput<'_>) -> Result<Plan, NoSuchStep> {
    let PlanInput { run, steps, proposed, .. } = situation;
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

/// The permit of a plan, without looking at steps: they matter only to a replay with `from_step`.
pub fn permit(run: &Run, proposed: &Proposed, severity: Severity, policy: &Policy) -> Permit {
    permitted(&fixed(run, proposed), run, proposed, (severity, policy), false)
}

/// The run with the proposed changes: a new payload is a new revision, and makes the run replayable.
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
    // The permission does not depend on the time.
    let refused = apply(fixed, &replay, policy, Timestamp::default()).err();
    let is_unsafe = over_effect || is_unsafe(run);
    // "Retry now": automation would do the same without approval.
    let plain_retry = matches!(run.state, State::Scheduled(_)) && proposed.is_nothing();
    Permit {
        refused: refused.or_else(|| over_effect.then_some(Refused::Unsafe)),
        approval_needed: !plain_retry && policy.approval.is_needed(severity, is_unsafe),
    }
}

/// A breaker opened by hand also holds replays.
fn freeze<'a>(situation: &'a PlanInput<'_>) -> Option<&'a Label> {
    situation.breaker.as_ref().filter(|breaker| breaker.by_hand).map(|breaker| &breaker.name)
}

fn held_by(run: &Run) -> Option<&Label> {
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

/// Fewer replays left than this are a warning.
const FEW_REPLAYS: u32 = 3;

fn warnings(situation: &PlanInput<'_>, fixed: &Run, over_effect: bool) -> Vec<PlanWarning> {
    let PlanInput { run, steps, policy, .. } = situation;
    let unknown = |step: &&StepFact| step.effect && matches!(step.state.known(), Known::InDoubt | Known::Open);
    let omitted = |step: &&StepFact| step.output_omitted && step.state.known() == Known::Done;
    let left = policy.max_replays.saturating_sub(run.replays);
    let said = [
        names(steps.iter().filter(unknown)).map(|names| {
            (WarningCode::EffectUnknown, format!("Nobody knows whether this happened: {names}. Reconcile it first."))
        }),
        (run.effects.done > 0 && !run.resumable).then(|| {
            (WarningCode::EffectDone, "An effect is done and the run can't resume: its worker may do it again.".into())
        }),
        over_effect.then(|| {
            let said = "An effect lies behind the step to go on from: it is kept, though what led to it is done again.";
            (WarningCode::StepsAgain, said.into())
        }),
        versions(situation).map(|said| (WarningCode::VersionsChanged, said)),
        names(steps.iter().filter(omitted))
            .map(|names| (WarningCode::OutputOmitted, format!("Done, but the output was too large to keep: {names}."))),
        held_by(run).map(|by| (WarningCode::Held, format!("Held by {by}: a replay makes it due now."))),
        situation.breaker.as_ref().map(|breaker| {
            let what = if breaker.by_hand {
                "was opened by hand: the replay waits until it closes"
            } else {
                "is open: a replay passes it, and may well fail as the others did"
            };
            (WarningCode::BreakerOpen, format!("{} {what}.", breaker.name))
        }),
        situation.busy.as_ref().map(|busy| {
            (
                WarningCode::OrderKeyBusy,
                format!("{busy} has the same order key and is under way: this one waits for it."),
            )
        }),
        (!fixed.replayable && policy.retry_by == RetryBy::Worker).then(|| {
            (WarningCode::NotReplayable, "The payload was too large to send: give a new one with the fix.".into())
        }),
        (left < FEW_REPLAYS).then(|| (WarningCode::ReplaysLeft, replays_left(left))),
    ];
    said.into_iter().flatten().map(|(code, detail)| PlanWarning { code, detail }).collect()
}

fn names<'a>(steps: impl Iterator<Item = &'a StepFact>) -> Option<String> {
    let names: Vec<&str> = steps.map(|step| step.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn versions(situation: &PlanInput<'_>) -> Option<String> {
    let changed = situation.versions_changed.iter();
    let changed: Vec<String> = changed.map(|v| format!("{} {} is now {}", v.kind, v.recorded, v.now)).collect();
    (!changed.is_empty()).then(|| format!("It ran with other versions before: {}.", changed.join(", ")))
}

fn replays_left(left: u32) -> String {
    match left {
        0 => "No replay is left: only force, with a reason, replays it again.".into(),
        1 => "This is the last replay that its queue allows.".into(),
        more => format!("{more} replays are left."),
    }
}

/// Rises when the hashed fields change, so that no approval outlives a change of their meaning.
const VERSION: u32 = 2;
const HASH_BYTES: usize = 16;

#[derive(Serialize)]
struct PlanHashInput<'a> {
    version: u32,
    revision: u32,
    steps: Vec<(&'a str, bool, Will)>,
    payload: Option<&'a [u8]>,
    instruction: Option<&'a str>,
    target: AttemptTarget<'a>,
    from_step: Option<&'a str>,
    versions_changed: &'a [VersionChange],
    force: bool,
}

fn hash(situation: &PlanInput<'_>, revision: u32, steps: &[PlanStep]) -> String {
    let proposed = situation.proposed;
    let hashed = PlanHashInput {
        version: VERSION,
        revision,
        steps: steps.iter().map(|step| (step.key.as_str(), step.effect, step.will)).collect(),
        payload: proposed.payload.as_deref(),
        instruction: proposed.instruction.as_ref().map(Text::token),
        target: situation.target,
        from_step: proposed.from_step.as_ref().map(|step| step.as_str()),
        versions_changed: &situation.versions_changed,
        force: proposed.force,
    };
    // Plain strings and numbers always serialise.
    let bytes = serde_json::to_vec(&hashed).unwrap_or_default();
    Sha256::digest(bytes).iter().take(HASH_BYTES).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
