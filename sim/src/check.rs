//! Checks the store's state against what clients were told, bypassing all faults.

use std::collections::BTreeMap;
use std::rc::Rc;

use redrive_core::breaker::BreakerStateName;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{BreakerView, ItemOutcome, OperationState, RunDetail, Sort};
use redrive_engine::{ItemsCall, PageCall, RunFilter, TenantScope};

use crate::actors::operator;
use crate::facts::{Key, RunFacts};
use crate::net::Heard;
use crate::runs::{at, fields, payload};
use crate::scheduler::alone;
use crate::world::{MAX_ATTEMPTS, TENANTS, World};

pub fn run_detail(world: &World, key: &Key) -> Option<RunDetail> {
    let (store, at) = (world.store()?, at(key)?);
    alone(store.run(&at)).ok()
}

impl World {
    /// The answer to a failure, kept for later; and what can be said of it at once (D3, L6).
    pub fn failure_heard(&self, key: &Key, attempt: u32, mark: &str, sent_at: Timestamp, heard: &Heard) {
        let mut facts = self.facts.borrow_mut();
        let run = facts.run(key);
        if heard.recorded() {
            run.recorded_late.insert((attempt, mark.to_owned()));
        }
        if !heard.is_ok() {
            return;
        }
        let before = run.acknowledged.insert(attempt, mark.to_owned());
        drop(facts);
        if before.as_ref().is_some_and(|before| before != mark) {
            self.broken("D3", format_args!("{key:?}: attempt {attempt} is {before:?} and {mark}"));
        }
        let next = heard.json()["verdict"]["next_attempt_at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        if next.is_some_and(|next| next <= sent_at) {
            self.broken("L6", format_args!("{key:?}: the next attempt is in the past: {}", heard.json()));
        }
    }
}

/// Whatever can be looked at in a moment: one run, and every breaker.
pub fn some(world: &Rc<World>) {
    let keys: Vec<Key> = world.facts.borrow().runs.keys().cloned().collect();
    if !keys.is_empty() {
        run(world, world.chance.pick(&keys));
    }
    breakers(world);
}

/// Everything.
pub fn all(world: &Rc<World>) {
    let keys: Vec<Key> = world.facts.borrow().runs.keys().cloned().collect();
    keys.iter().for_each(|key| run(world, key));
    breakers(world);
    operations(world);
    counters(world, &TenantScope::All);
    for tenant in TENANTS {
        if let Ok(tenant) = tenant.parse() {
            counters(world, &TenantScope::One(tenant));
        }
    }
}

fn run(world: &World, key: &Key) {
    let Some(detail) = run_detail(world, key) else {
        let facts = world.facts.borrow();
        let lost = facts.runs.get(key).is_some_and(|run| !run.acknowledged.is_empty() || !run.grants.is_empty());
        drop(facts);
        if lost && world.store().is_some() {
            world.broken("D1", format_args!("{key:?} is not there"));
        }
        return;
    };
    for how in
        [marks(world, key, &detail), bytes(world, key, &detail), standing(world, key, &detail)].into_iter().flatten()
    {
        world.broken(how.0, format_args!("{key:?}: {}", how.1));
    }
}

type Wrong = (&'static str, String);

/// D1: every acknowledged failure is on its attempt; what was said to be recorded is.
fn marks(world: &World, key: &Key, detail: &RunDetail) -> Option<Wrong> {
    let facts = world.facts.borrow();
    let run = facts.runs.get(key)?;
    let of = |n: u32| detail.body.attempts.iter().find(|attempt| attempt.attempt == n);
    for (attempt, mark) in &run.acknowledged {
        let kept = of(*attempt).and_then(|attempt| attempt.error.as_ref()).and_then(|error| error.detail.as_ref());
        if kept.is_none_or(|kept| !kept.token().contains(mark.as_str())) {
            return Some(("D1", format!("attempt {attempt} was acknowledged as {mark}, and is {kept:?}")));
        }
    }
    for (attempt, _) in &run.recorded_late {
        if of(*attempt).is_none_or(|attempt| attempt.late.is_none() && attempt.error.is_none()) {
            return Some(("L2", format!("a late failure of attempt {attempt} was recorded, and is not there")));
        }
    }
    let doubled = detail.body.attempts.windows(2).any(|pair| pair[0].attempt == pair[1].attempt);
    doubled.then(|| ("L1", "an attempt is there twice".to_owned()))
}

/// D1, R3: the bytes that came first never change.
fn bytes(world: &World, key: &Key, detail: &RunDetail) -> Option<Wrong> {
    let (store, at) = (world.store()?, at(key)?);
    let kept = if detail.summary.revision == 1 {
        detail.body.payload.as_ref().map(|payload| payload.get().to_owned())
    } else {
        alone(store.revision(&at, Some(1))).ok()?.payload.map(|payload| payload.get().to_owned())
    };
    (kept.as_deref() != Some(payload(key).as_str())).then(|| ("R3", format!("its first payload is {kept:?}")))
}

fn standing(world: &World, key: &Key, detail: &RunDetail) -> Option<Wrong> {
    let summary = &detail.summary;
    if summary.customer.as_ref().map(|customer| customer.as_str()) != fields(key)["customer"].as_str() {
        return Some(("T2", format!("it belongs to {:?}", summary.customer)));
    }
    let sealed = world.facts.borrow().runs.get(key).and_then(RunFacts::last_word).is_some();
    if sealed && !summary.state.is_closed() {
        return Some(("L4", format!("it succeeded, and is {}: {}", summary.state, life(detail))));
    }
    // A caller that retries itself gets the verdict and may still continue.
    if summary.state == StateName::Scheduled && summary.replays == 0 && summary.attempt >= MAX_ATTEMPTS {
        return Some(("L6", format!("attempt {} is to be followed by another", summary.attempt)));
    }
    None
}

/// What happened to a run, in short.
pub fn life(detail: &RunDetail) -> String {
    let attempts = detail.body.attempts.iter().map(|one| {
        let mark = one.error.as_ref().and_then(|error| error.detail.as_ref()).map_or("", |mark| mark.token());
        format!("{} {} {} {mark}", one.recorded_at, one.attempt, one.outcome)
    });
    let moves = detail.body.history.iter().map(|entry| format!("{} {} by {}", entry.at, entry.event, entry.actor));
    attempts.chain(moves).collect::<Vec<_>>().join("; ")
}

/// B1: half open, and more than one attempt under way that began since.
fn breakers(world: &World) {
    let Some(store) = world.store() else { return };
    let Ok(answer) = alone(store.breakers(&TenantScope::All)) else { return };
    for breaker in answer.breakers.iter().filter(|breaker| breaker.state == BreakerStateName::HalfOpen) {
        let probes = probes(world, breaker);
        if probes.len() > 1 {
            world.broken("B1", format_args!("{} is half open for {probes:?}", breaker.name));
        }
    }
}

fn probes(world: &World, breaker: &BreakerView) -> Vec<String> {
    let (facts, now) = (world.facts.borrow(), world.now());
    let watched = |key: &Key| {
        let fields = fields(key);
        let of = |label: &Option<redrive_core::text::Label>, field: &str| {
            label.as_ref().is_none_or(|label| fields[field] == label.as_str())
        };
        breaker.tenant.as_ref().is_none_or(|tenant| tenant.as_str() == TENANTS[key.0]) && of(&breaker.model, "model")
    };
    let runs = facts.runs.iter().filter(|(key, _)| watched(key));
    let live = runs.flat_map(|(_, run)| run.grants.values()).filter(|grant| {
        grant.automatic && breaker.since.is_none_or(|since| grant.granted_at >= since) && grant.lives_at(now)
    });
    live.map(|grant| grant.token.clone()).collect()
}

/// Every kept counter equals a recount of the list.
fn counters(world: &World, scope: &TenantScope) {
    let Some(store) = world.store() else { return };
    let list = |states: Vec<StateName>| {
        let filter = RunFilter { states, ..RunFilter::default() };
        let page = PageCall { sort: Sort::Received, limit: 500, cursor: None, count: true };
        alone(store.runs(scope, filter, page)).ok()
    };
    let Some(everything) = list(Vec::new()) else { return };
    let mut by_state: BTreeMap<StateName, u64> = BTreeMap::new();
    for run in &everything.runs {
        *by_state.entry(run.state).or_default() += 1;
        if let TenantScope::One(one) = scope
            && run.tenant != *one
        {
            world.broken("T2", format_args!("{one} lists a run of {}", run.tenant));
        }
    }
    for state in StateName::ALL.iter().copied() {
        let Some(page) = list(vec![state]) else { continue };
        let recount = by_state.get(&state).copied().unwrap_or(0);
        if everything.next_cursor.is_none() && page.total != Some(recount) {
            world.broken("D2", format_args!("{scope:?} counts {:?} {state}, and has {recount}", page.total));
        }
    }
}

/// R4, R5: what was previewed is what was moved, each run once, and nothing after a cancel.
fn operations(world: &Rc<World>) {
    let ids: Vec<String> = world.facts.borrow().operations.keys().cloned().collect();
    for id in ids {
        if let Some(how) = operation(world, &id) {
            world.broken("R4", format_args!("{id}: {how}"));
        }
    }
}

fn operation(world: &Rc<World>, id: &str) -> Option<String> {
    let store = world.store()?;
    let view = alone(store.operation(id)).ok()?;
    let (previewed, cancelled_at) = {
        let facts = world.facts.borrow();
        let known = facts.operations.get(id)?;
        (known.previewed.clone(), known.cancelled_at)
    };
    if cancelled_at.is_some_and(|moved| moved != view.moved) {
        return Some(format!("{cancelled_at:?} were moved when its cancel was answered, and now {}", view.moved));
    }
    if let (Some(previewed), Some(now)) = (previewed, operator::items(world, id))
        && previewed != now
    {
        return Some(format!("{previewed:?} was previewed, and now it is {now:?}"));
    }
    let call = ItemsCall { outcomes: Vec::new(), limit: 500, cursor: None };
    let items = alone(store.operation_items(id, call)).ok()?.items;
    let mut moved = 0;
    for item in &items {
        let (Some(tenant), Some(run_id)) = (&item.tenant, &item.run_id) else { continue };
        let tenant = TENANTS.iter().position(|name| *name == tenant.as_str())?;
        let detail = run_detail(world, &(tenant, run_id.as_str().to_owned()))?;
        let named = format!("Operation {id}.");
        let notes = detail.body.history.iter().filter_map(|entry| entry.note.as_ref());
        let entries = notes.filter(|note| note.token().contains(&named)).count();
        let wanted = match item.outcome {
            ItemOutcome::Moved | ItemOutcome::Succeeded | ItemOutcome::Failed => 1,
            ItemOutcome::Waiting | ItemOutcome::Skipped | ItemOutcome::Ineligible => 0,
        };
        if item.outcome == ItemOutcome::Waiting && view.state == OperationState::Completed {
            return Some(format!("it is completed, and {run_id} still waits"));
        }
        moved += wanted;
        if entries != wanted {
            return Some(format!("{run_id} is {} and was moved {entries} times", item.outcome));
        }
    }
    if view.moved != moved as u64 {
        return Some(format!("it says that it moved {}, and moved {moved}", view.moved));
    }
    None
}

/// At the end: every operation has come to one of its ends, or waits for a person.
pub fn open_operations(world: &World) -> Vec<String> {
    let Some(store) = world.store() else { return Vec::new() };
    let page = alone(store.operations(500, None));
    let open = page.into_iter().flat_map(|page| page.operations).filter(|view| view.state == OperationState::Running);
    open.map(|view| view.id).collect()
}
