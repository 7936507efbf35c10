//! What the next attempt does differently: changes, model, agent, queue. A change or target is tried once; what an earlier
//! failure required is carried along, because every attempt starts from the captured payload.

use super::Failure;
use super::sentence::Because;
use super::table::Strategy;
use crate::hash::Fnv;
use crate::ids::QueueName;
use crate::policy::{Policy, RetryBy, Towards};
use crate::preflight::safe_target;
use crate::reason::Reason;
use crate::run::Run;
use crate::text::Label;
use crate::verdict::{Change, Target};

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RetryPlan {
    /// All that the next attempt does differently from the payload.
    pub(super) changes: Vec<Change>,
    /// Of them, what the last attempt did not do.
    pub(super) fresh: Vec<Change>,
    pub(super) target: Target,
    pub(super) missing: Vec<&'static str>,
    /// To be remembered as tried.
    pub(super) tried: Vec<u64>,
}

/// Applies the strategy to this run, or says why no retry could succeed.
pub(super) fn plan(failure: &Failure, run: &Run, policy: &Policy, strategy: &Strategy) -> Result<RetryPlan, Because> {
    let fit = ContextFit::new(failure, run, policy);
    let RetryRoute { target, missing } = route(&strategy.target, run, policy, &fit);
    let wanted = strategy.changes.iter().map(|change| concrete(change, failure, &fit, &target));
    let wanted: Vec<Change> = wanted.collect::<Result<_, _>>()?;
    let known = |change: &Change| run.memory.tried.contains(&change_id(change, failure));
    let (again, fresh): (Vec<Change>, Vec<Change>) = wanted.into_iter().partition(known);
    let wants_something = !strategy.changes.is_empty() || !strategy.target.is_empty();
    if wants_something && fresh.is_empty() && target == Target::default() {
        return Err(Because::NothingNew { again, missing });
    }
    let tried = fresh.iter().map(|change| change_id(change, failure)).chain(target_ids(&target)).collect();
    Ok(RetryPlan { changes: carried(run, &fresh), fresh, target, missing, tried })
}

/// After the changed retry has failed: one more, in the fallback queue.
pub(super) fn fall_back(run: &Run, policy: &Policy) -> Option<RetryPlan> {
    let target = Target { queue: Some(fallback_queue(run, policy).ok()?), ..Target::default() };
    let tried = target_ids(&target).collect();
    Some(RetryPlan { changes: run.changes.clone(), target, tried, ..RetryPlan::default() })
}

/// Fills in figures that the table leaves open.
fn concrete(change: &Change, failure: &Failure, fit: &ContextFit<'_>, target: &Target) -> Result<Change, Because> {
    match change {
        Change::CompressContext { to_tokens: None } if failure.reason == Reason::ContextOverflow => {
            let to_tokens = fit.compress_to(target.model.as_ref()).map_err(Because::TooLong)?;
            Ok(Change::CompressContext { to_tokens })
        }
        Change::CompressContext { .. }
        | Change::AddInstruction { .. }
        | Change::AddConstraint { .. }
        | Change::AddLastError { .. }
        | Change::ScaleOutputBudget { .. }
        | Change::SetModel { .. } => Ok(change.clone()),
    }
}

/// Changes of the last attempt with the new ones; a new change replaces an old one of a kind that applies once.
fn carried(run: &Run, fresh: &[Change]) -> Vec<Change> {
    let replaced = |old: &Change| {
        fresh.iter().any(|new| match (old, new) {
            (Change::CompressContext { .. }, Change::CompressContext { .. })
            | (Change::ScaleOutputBudget { .. }, Change::ScaleOutputBudget { .. })
            | (Change::AddLastError { .. }, Change::AddLastError { .. })
            | (Change::SetModel { .. }, Change::SetModel { .. }) => true,
            (old, new) => old == new,
        })
    };
    run.changes.iter().filter(|old| !replaced(old)).chain(fresh).cloned().collect()
}

/// A target, and why parts of the wanted target are missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RetryRoute {
    pub(super) target: Target,
    pub(super) missing: Vec<&'static str>,
}

pub(super) fn route(wanted: &[Towards], run: &Run, policy: &Policy, fit: &ContextFit<'_>) -> RetryRoute {
    let mut route = RetryRoute::default();
    for towards in wanted {
        let missing = match towards {
            Towards::LargerModel => set(&mut route.target.model, larger_model(run, policy, fit)),
            Towards::OtherModel => set(&mut route.target.model, other_model(run, policy)),
            Towards::OtherAgent => set(&mut route.target.agent, other_agent(run, policy)),
            Towards::FallbackQueue => set(&mut route.target.queue, fallback_queue(run, policy)),
        };
        route.missing.extend(missing);
    }
    route
}

fn set<T>(place: &mut Option<T>, found: Result<T, &'static str>) -> Option<&'static str> {
    match found {
        Ok(found) => {
            place.get_or_insert(found);
            None
        }
        Err(why) => Some(why),
    }
}

fn new_models<'a>(run: &'a Run, policy: &'a Policy) -> impl Iterator<Item = (usize, &'a Label)> {
    let current = run.around.model.as_ref();
    let tried = |model: &Label| run.memory.tried.contains(&model_id(model.as_str()));
    policy.ladder.iter().enumerate().filter(move |(_, model)| Some(*model) != current && !tried(model))
}

/// The first larger model on the ladder that takes the input, otherwise the largest.
fn larger_model(run: &Run, policy: &Policy, fit: &ContextFit<'_>) -> Result<Label, &'static str> {
    if policy.ladder.is_empty() {
        return Err("no larger model is set for the queue");
    }
    let at = policy.ladder.iter().position(|model| Some(model) == run.around.model.as_ref());
    let larger: Vec<&Label> = new_models(run, policy)
        .filter(|(n, model)| at.is_none_or(|at| *n > at) && fit.is_larger(model, at.is_some()))
        .map(|(_, model)| model)
        .collect();
    let fitting = larger.iter().find(|model| fit.takes_all(model));
    let chosen = fitting.or(larger.last()).copied().cloned();
    chosen.ok_or("none of the queue's models is larger")
}

fn other_model(run: &Run, policy: &Policy) -> Result<Label, &'static str> {
    if policy.ladder.is_empty() {
        return Err("no other model is set for the queue");
    }
    // One step up if there is one: a smaller model rarely ends a loop.
    let at = policy.ladder.iter().position(|model| Some(model) == run.around.model.as_ref());
    let up = at.and_then(|at| new_models(run, policy).find(|(n, _)| *n > at));
    let chosen = up.or_else(|| new_models(run, policy).last()).map(|(_, model)| model.clone());
    chosen.ok_or("no other of the queue's models is left")
}

fn other_agent(run: &Run, policy: &Policy) -> Result<Label, &'static str> {
    if policy.agents.is_empty() {
        return Err("no other agent is set up");
    }
    let tried = |agent: &Label| run.memory.tried.contains(&agent_id(agent.as_str()));
    let mut able = policy.agents.able(run.around.task_type.as_ref());
    let other = able.find(|agent| Some(*agent) != run.around.agent.as_ref() && !tried(agent)).cloned();
    other.ok_or("no other agent can do this task type")
}

/// Refused where the caller retries: its run is never handed to anybody else.
pub(super) fn fallback_queue(run: &Run, policy: &Policy) -> Result<QueueName, &'static str> {
    let queue = policy.fallback_queue.as_ref().filter(|_| policy.retry_by == RetryBy::Worker);
    let Some(queue) = queue else { return Err("no fallback queue is set") };
    let tried = run.memory.tried.contains(&queue_id(queue.as_str()));
    if tried || run.around.queue.as_ref() == Some(queue) {
        return Err("it is in its fallback queue already");
    }
    Ok(queue.clone())
}

/// Output reserved where the request does not say.
const OUTPUT_RESERVE_TOKENS: u64 = 4_096;

/// How an input fits models. Tokens are as the model counts them unless said otherwise.
pub(super) struct ContextFit<'a> {
    failure: &'a Failure,
    policy: &'a Policy,
    model: Option<&'a Label>,
    /// What the failed attempt was compressed to, as we count.
    cut_to: Option<u64>,
}

/// An input that no change makes fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TooLong {
    /// Its size with everything dropped that may be.
    pub(super) least: u64,
    pub(super) allowed: Option<u64>,
}

impl<'a> ContextFit<'a> {
    pub(super) fn new(failure: &'a Failure, run: &'a Run, policy: &'a Policy) -> Self {
        let cut_to = run.changes.iter().find_map(|change| match change {
            Change::CompressContext { to_tokens } => *to_tokens,
            Change::AddInstruction { .. }
            | Change::AddConstraint { .. }
            | Change::AddLastError { .. }
            | Change::ScaleOutputBudget { .. }
            | Change::SetModel { .. } => None,
        });
        Self { failure, policy, model: run.around.model.as_ref(), cut_to }
    }

    /// What the current model takes, by the error if it says so.
    fn allowed_now(&self) -> Option<u64> {
        let by_error = self.failure.facts.limit.map(|limit| limit - self.output_tokens().min(limit / 2));
        by_error.or_else(|| self.allowed_by(self.model?))
    }

    fn allowed_by(&self, model: &Label) -> Option<u64> {
        let limits = self.policy.models.limits(model.as_str())?;
        let most = limits.max_output_tokens.unwrap_or(u64::MAX);
        Some(limits.room_for_input(self.output_tokens().min(most)))
    }

    fn output_tokens(&self) -> u64 {
        self.failure.room.as_ref().and_then(|room| room.output_tokens).unwrap_or(OUTPUT_RESERVE_TOKENS)
    }

    /// Larger by the catalogue; for unknown models by the order of the ladder.
    pub(super) fn is_larger(&self, model: &Label, in_order: bool) -> bool {
        match (self.allowed_by(model), self.allowed_now()) {
            (Some(candidate), Some(now)) => candidate > now,
            (Some(_) | None, _) => in_order,
        }
    }

    /// Whether a model takes the whole input; unknown counts as no.
    pub(super) fn takes_all(&self, model: &Label) -> bool {
        let needed = self.failure.facts.actual.or_else(|| self.failure.room.as_ref().map(|room| room.tokens));
        self.allowed_by(model).zip(needed).is_some_and(|(allowed, needed)| needed <= allowed)
    }

    /// The target size, as we count tokens, for the model of the next attempt; none where nothing is known.
    pub(super) fn compress_to(&self, larger: Option<&Label>) -> Result<Option<u64>, TooLong> {
        let allowed = match larger {
            Some(model) => self.allowed_by(model),
            None => self.allowed_now(),
        };
        let Some(room) = &self.failure.room else { return Ok(allowed) };
        let stuck = larger.is_none() && room.floor_tokens >= room.tokens;
        if stuck || allowed.is_some_and(|allowed| self.as_models_count(room.floor_tokens) > allowed) {
            return Err(TooLong { least: self.as_models_count(room.floor_tokens), allowed });
        }
        let model = larger.or(self.model).map_or("", Label::as_str);
        let mut to = allowed.map(|allowed| self.as_we_count(allowed, model));
        if larger.is_none() && self.calibration().is_none() {
            // The provider counts more than we do by an unknown amount: our target size would not fit.
            to = to.map(|to| to.min(room.tokens * 3 / 4));
        }
        Ok(to.map(|to| to.max(room.floor_tokens)))
    }

    /// Our count and the provider's, if the error names one for the same input.
    fn calibration(&self) -> Option<(u64, u64)> {
        let whole = self.failure.room.as_ref()?.tokens;
        let ours = self.cut_to.map_or(whole, |cut_to| cut_to.min(whole));
        let theirs = self.failure.facts.actual?;
        (ours > 0 && theirs >= ours / 4 && theirs / 4 <= ours).then_some((ours, theirs))
    }

    fn as_models_count(&self, tokens: u64) -> u64 {
        self.calibration().map_or(tokens, |(ours, theirs)| scaled(tokens, theirs, ours))
    }

    fn as_we_count(&self, tokens: u64, model: &str) -> u64 {
        match self.calibration() {
            // What is left out may weigh more or less than the whole.
            Some((ours, theirs)) => scaled(tokens, ours * 95, theirs * 100),
            None => safe_target(tokens, model),
        }
    }
}

fn scaled(tokens: u64, by: u64, over: u64) -> u64 {
    let scaled = u128::from(tokens) * u128::from(by) / u128::from(over.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

pub(super) fn change_id(change: &Change, failure: &Failure) -> u64 {
    let words = serde_json::to_string(change).unwrap_or_default();
    match change {
        // Another error is another thing to tell the model.
        Change::AddLastError { .. } => hash(&[words.as_bytes(), &failure.fingerprint.to_le_bytes()]),
        Change::CompressContext { .. }
        | Change::AddInstruction { .. }
        | Change::AddConstraint { .. }
        | Change::ScaleOutputBudget { .. }
        | Change::SetModel { .. } => hash(&[words.as_bytes()]),
    }
}

pub(super) fn agent_id(name: &str) -> u64 {
    hash(&[b"agent", name.as_bytes()])
}

pub(super) fn model_id(name: &str) -> u64 {
    hash(&[b"model", name.as_bytes()])
}

pub(super) fn queue_id(name: &str) -> u64 {
    hash(&[b"queue", name.as_bytes()])
}

/// Where a target goes, each place by its hash.
pub(super) fn target_ids(target: &Target) -> impl Iterator<Item = u64> {
    let agent = target.agent.as_ref().map(|agent| agent_id(agent.as_str()));
    let model = target.model.as_ref().map(|model| model_id(model.as_str()));
    let queue = target.queue.as_ref().map(|queue| queue_id(queue.as_str()));
    [agent, model, queue].into_iter().flatten()
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hash = Fnv::new();
    for part in parts {
        hash.write(part);
        hash.write(&[0]);
    }
    hash.finish()
}
