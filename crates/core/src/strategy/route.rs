//! Where a changed retry goes: a larger or another model of the queue's ladder, another agent that can do the task, a
//! simpler queue. What can't be had is said, never left out in silence.

use crate::ids::QueueName;
use crate::policy::{Policy, RetryBy, Towards};
use crate::run::Run;
use crate::strategy::fit::Fit;
use crate::strategy::tried;
use crate::text::Label;
use crate::verdict::Target;

/// A target, and why the rest of what was wanted is not in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Route {
    pub(super) target: Target,
    pub(super) missing: Vec<&'static str>,
}

pub(super) fn route(wanted: &[Towards], run: &Run, policy: &Policy, fit: &Fit<'_>) -> Route {
    let mut route = Route::default();
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
    let tried = |model: &Label| run.memory.tried.contains(&tried::of_model(model.as_str()));
    policy.ladder.iter().enumerate().filter(move |(_, model)| Some(*model) != current && !tried(model))
}

/// The first one up the ladder that the input fits, otherwise the largest; each must really be larger.
fn larger_model(run: &Run, policy: &Policy, fit: &Fit<'_>) -> Result<Label, &'static str> {
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
    // One step up where there is one: what repeats itself is rarely helped by less.
    let at = policy.ladder.iter().position(|model| Some(model) == run.around.model.as_ref());
    let up = at.and_then(|at| new_models(run, policy).find(|(n, _)| *n > at));
    let chosen = up.or_else(|| new_models(run, policy).last()).map(|(_, model)| model.clone());
    chosen.ok_or("no other of the queue's models is left")
}

fn other_agent(run: &Run, policy: &Policy) -> Result<Label, &'static str> {
    if policy.agents.is_empty() {
        return Err("no other agent is set up");
    }
    let tried = |agent: &Label| run.memory.tried.contains(&tried::of_agent(agent.as_str()));
    let mut able = policy.agents.able(run.around.task_type.as_ref());
    let other = able.find(|agent| Some(*agent) != run.around.agent.as_ref() && !tried(agent)).cloned();
    other.ok_or("no other agent can do this task type")
}

/// None where the caller retries: its run is never handed to anybody else.
pub(super) fn fallback_queue(run: &Run, policy: &Policy) -> Result<QueueName, &'static str> {
    let queue = policy.fallback_queue.as_ref().filter(|_| policy.retry_by == RetryBy::Worker);
    let Some(queue) = queue else { return Err("no fallback queue is set") };
    let tried = run.memory.tried.contains(&tried::of_queue(queue.as_str()));
    if tried || run.around.queue.as_ref() == Some(queue) {
        return Err("it is in its fallback queue already");
    }
    Ok(queue.clone())
}
