//! The end of a play: no more faults, and everything must settle (L3).

use std::rc::Rc;

use redrive_core::run::StateName;
use redrive_core::wire::{RunSummary, Sort};
use redrive_engine::services::ServiceJob;
use redrive_engine::{PageCall, RunFilter, TenantScope};
use serde_json::json;

use crate::actors::operator::settle_doubts;
use crate::check::{life, open_operations, run_detail};
use crate::faults::Rates;
use crate::net::Call;
use crate::runs::{has_effects, is_callers, key};
use crate::scheduler::alone;
use crate::world::{TENANTS, UNCLAIMED_AFTER_MS, Who, World};

/// Longer than the longest wait before a retry, and the longest lease before it.
const ROUNDS: usize = 80;
const ROUND_MS: u64 = 30_000;
/// Less than what counts as an absence.
const PRESENT_MS: u64 = 3_000;
const A_DAY_AND_MORE_MS: u64 = 25 * 3_600_000;

/// How many rows the log of changes has depends on which reports of one call shared a commit, and nothing else does.
pub const UNSTEADY: &str = "changes";

pub fn settle(world: &Rc<World>) {
    world.calm.set(true);
    *world.rates.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Rates::default();
    world.say("calm");
    for tenant in TENANTS {
        let body = json!({"action": "close", "reason": "calm"});
        world.call_at_once("settle", &Call::post(Who::Operator, format!("/v1/tenants/{tenant}/breaker"), &body));
    }
    let mut open = Vec::new();
    for _ in 0..ROUNDS {
        world.time.clock.advance_ms(ROUND_MS);
        engine(world);
        doubts(world);
        work(world);
        open = unsettled(world, true);
        if open.is_empty() && open_operations(world).is_empty() {
            break;
        }
    }
    if !open.is_empty() {
        return world.broken("L3", format_args!("never came to rest: {open:?}"));
    }
    // What waits for a caller or for a person does not wait for ever either, once somebody is there all the while.
    for _ in 0..2 {
        world.time.clock.advance_ms(A_DAY_AND_MORE_MS);
        engine(world);
    }
    if !unsettled(world, false).is_empty() {
        attended(world, UNCLAIMED_AFTER_MS + UNCLAIMED_AFTER_MS / 4);
        engine(world);
    }
    let open = unsettled(world, false);
    if !open.is_empty() {
        world.broken("L3", format_args!("nobody was told of {open:?}"));
    }
    let open = open_operations(world);
    if !open.is_empty() {
        world.broken("R4", format_args!("operations that never end: {open:?}"));
    }
}

/// Time in which a server is there. It may run a tenth slower.
fn attended(world: &World, ms: u64) {
    let Some(store) = world.store() else { return };
    for _ in 0..ms / PRESENT_MS {
        world.time.clock.advance_ms(PRESENT_MS);
        if let Err(error) = alone(store.stamp("settle")) {
            return world.broken("D5", format_args!("a stamp in calm: {error}"));
        }
    }
}

fn engine(world: &World) {
    let replicas = world.replicas.borrow().clone();
    for service in replicas.iter().flat_map(|replica| &replica.services) {
        rounds(world, service);
    }
}

fn rounds(world: &World, service: &ServiceJob) {
    for _ in 0..100 {
        let said = alone(service.run_once());
        if let Ok(swept) = said
            && swept.looked_at > 0
            && service.name() != UNSTEADY
        {
            world.say(&format!("settle     {} -> {}/{}", service.name(), swept.moved, swept.looked_at));
        }
        match said {
            Ok(swept) if swept.more => {}
            Ok(_) => return,
            Err(error) => return world.broken("D5", format_args!("{} in calm: {error}", service.name())),
        }
    }
    world.broken("L3", format_args!("{} never comes to an end", service.name()));
}

fn doubts(world: &Rc<World>) {
    let keys: Vec<_> = world.facts.borrow().runs.keys().cloned().collect();
    for key in keys.iter().filter(|key| has_effects(&key.1)) {
        let in_doubt = run_detail(world, key).is_some_and(|detail| {
            detail.body.steps.iter().any(|step| step.status == redrive_core::wire::StepStatus::Unknown)
        });
        if in_doubt {
            settle_doubts(world, "settle", key);
        }
    }
}

/// Whatever is due is handed out, and is done.
fn work(world: &Rc<World>) {
    let body = json!({"queues": ["*"], "max": 100, "lease_ms": 60_000, "worker": "settle"});
    let heard = world.call_at_once("settle", &Call::post(Who::AnyWorker, "/v1/leases", &body));
    for given in heard.json()["leases"].as_array().into_iter().flatten() {
        let body = json!({"lease": given["lease"], "tenant": given["tenant"], "output": {"done": true}});
        let path = format!("/v1/runs/{}/succeed", given["run_id"].as_str().unwrap_or_default());
        let heard = world.call_at_once("settle", &Call::post(Who::AnyWorker, path, &body));
        if !heard.is_ok() {
            world.broken("L3", format_args!("work in calm was answered {heard:?}"));
        }
    }
}

/// Runs that are under way or waiting for somebody other than a person.
fn unsettled(world: &World, not_the_callers: bool) -> Vec<String> {
    let Some(store) = world.store() else { return Vec::new() };
    let mut states = vec![StateName::Running, StateName::Scheduled];
    if !not_the_callers {
        states.push(StateName::Review);
    }
    let filter = RunFilter { states, ..RunFilter::default() };
    let page = PageCall { sort: Sort::Received, limit: 500, cursor: None, count: false };
    let runs = alone(store.runs(&TenantScope::All, filter, page)).map(|page| page.runs).unwrap_or_default();
    let callers = |run: &RunSummary| run.state == StateName::Scheduled && is_callers(run.run_id.as_str());
    let open = runs.into_iter().filter(|run| !(not_the_callers && callers(run)));
    let told = |run: RunSummary| {
        let life =
            key(run.tenant.as_str(), run.run_id.as_str()).and_then(|key| run_detail(world, &key)).map(|run| life(&run));
        let RunSummary { tenant, run_id, state, held_by, .. } = run;
        format!("{tenant}/{run_id} {state} held by {held_by:?}: {}", life.unwrap_or_default())
    };
    open.map(told).collect()
}
