//! People: they triage single runs at the wrong moment, and start, pause and cancel bulk operations.

use std::rc::Rc;

use serde_json::{Value, json};

use crate::facts::Key;
use crate::net::{Call, Heard};
use crate::runs::script;
use crate::world::{TENANTS, Who, World};

pub async fn operate(world: Rc<World>, n: usize) {
    let actor = format!("person-{n}");
    while !world.is_over() {
        let key = world.any_run(world.any_tenant());
        let who = if world.chance.happens(500) { Who::Operator } else { Who::Tenant(key.0) };
        match world.chance.below(16) {
            0..=3 => replay(&world, &actor, who, &key).await,
            4 => {
                world.cancel_asked(&key);
                // A second one behind its sender's back could end any lease of the next minutes.
                world.call(&actor, triage(who, &key, "cancel", json!({})).once()).await;
                world.cancel_over(&key);
            }
            5 => approve(&world, &actor, who, &key).await,
            6..=8 => settle_doubts(&world, &actor, &key),
            9 => merge(&world, &actor, who, &key).await,
            10 => breaker(&world, &actor, key.0).await,
            11 => look(&world, &actor, who, &key).await,
            _ => plain(&world, &actor, who, &key).await,
        }
        world.time.sleep(world.chance.below(3_000)).await;
    }
}

/// A person's verb on a run, with a reason.
async fn act(world: &Rc<World>, actor: &str, who: Who, key: &Key, verb: &str, more: Value) -> Heard {
    world.call(actor, triage(who, key, verb, more)).await
}

fn triage(who: Who, key: &Key, verb: &str, mut body: Value) -> Call {
    if verb != "plan" {
        body["reason"] = json!("because");
    }
    let path = format!("/v1/runs/{}/{verb}?tenant={}", key.1, TENANTS[key.0]);
    Call::post(who, path, &body)
}

async fn plain(world: &Rc<World>, actor: &str, who: Who, key: &Key) {
    let until = world.now().plus_ms(60_000 + world.chance.below(120_000)).to_string();
    let (verb, body) = match world.chance.below(9) {
        0 => ("resolve", json!({})),
        1 => ("discard", json!({})),
        2 => ("note", json!({})),
        3 => ("review", json!({})),
        4 => ("reject", json!({})),
        5 => ("defer", json!({"until": until})),
        6 => ("assign", json!({"to": "ops"})),
        7 => ("reassign", json!({"agent": "other"})),
        _ => ("unmerge", json!({})),
    };
    if verb == "unmerge" {
        // Whatever it was before it was merged, it is again.
        world.facts.borrow_mut().may_reopen(key);
    }
    act(world, actor, who, key, verb, body).await;
}

async fn replay(world: &Rc<World>, actor: &str, who: Who, key: &Key) {
    let force = who == Who::Operator && world.chance.happens(300);
    let mut body = json!({"force": force});
    if world.chance.happens(200) {
        body["fix"] = json!({"payload": {"of": TENANTS[key.0], "edited": world.chance.below(9)}});
    }
    let call = triage(who, key, "replay", body);
    let call = if force { call.reopening(key) } else { call };
    let heard = world.call(actor, call).await;
    if heard.is_ok() && heard.json()["state"] == "running" {
        world.broken("L1", format_args!("{key:?}: a replay of a running run was accepted"));
    }
}

/// Puts it aside, looks at the plan, and says yes to it, maybe too late.
async fn approve(world: &Rc<World>, actor: &str, who: Who, key: &Key) {
    act(world, actor, who, key, "review", json!({})).await;
    let path = format!("/v1/runs/{}/plan?tenant={}", key.1, TENANTS[key.0]);
    let plan = world.call(actor, Call::get(who, path)).await;
    let Some(hash) = plan.json()["hash"].as_str().map(str::to_owned) else { return };
    world.time.sleep(world.chance.a_while_ms(60_000)).await;
    act(world, actor, Who::Operator, key, "approve", json!({"plan_hash": hash})).await;
}

async fn merge(world: &Rc<World>, actor: &str, who: Who, key: &Key) {
    let into = world.any_run(key.0);
    if into == *key {
        return;
    }
    {
        let mut facts = world.facts.borrow_mut();
        let target = facts.run(&into);
        target.sources.insert(key.1.clone());
        target.may_reopen();
        facts.may_reopen(key);
    }
    act(world, actor, who, key, "merge", json!({"into": into.1})).await;
    if world.chance.happens(500) {
        world.time.sleep(world.chance.below(30_000)).await;
        act(world, actor, who, key, "unmerge", json!({})).await;
    }
}

/// Goes and looks; says what is true at the moment it is true. Not while somebody may still be about to do it.
pub fn settle_doubts(world: &Rc<World>, actor: &str, key: &Key) {
    for (step, is_effect, outside) in script(key) {
        if !is_effect || world.facts.borrow().is_anybody_at(&outside, None) {
            continue;
        }
        let done = world.facts.borrow().outside.get(&outside).is_some_and(|one| one.done > 0);
        let outcome = if done { "committed" } else { "not_done" };
        let body = json!({"outcome": outcome, "reason": "looked"});
        let call = Call::post(Who::Tenant(key.0), format!("/v1/effects/{step}/reconcile"), &body).once();
        let heard = world.call_at_once(actor, &call);
        if heard.is_ok()
            && done
            && let Some(one) = world.facts.borrow_mut().outside.get_mut(&outside)
        {
            one.acknowledged = true;
        }
    }
}

async fn breaker(world: &Rc<World>, actor: &str, tenant: usize) {
    let action = *world.chance.pick(&["open", "close", "close", "reset"]);
    let mut body = json!({"action": action, "reason": "because"});
    if action == "open" {
        body["until"] = json!(world.now().plus_ms(1_000 + world.chance.below(60_000)).to_string());
    }
    world.call(actor, Call::post(Who::Operator, format!("/v1/tenants/{}/breaker", TENANTS[tenant]), &body)).await;
}

async fn look(world: &Rc<World>, actor: &str, who: Who, key: &Key) {
    let tenant = TENANTS[key.0];
    let path = match world.chance.below(6) {
        0 => format!("/v1/runs?tenant={tenant}&state=dead,scheduled&limit=5"),
        1 => format!("/v1/runs/{}/duplicates?tenant={tenant}", key.1),
        2 => format!("/v1/tenants/{tenant}/health"),
        3 => format!("/v1/changes?tenant={tenant}"),
        4 => format!("/v1/patterns?tenant={tenant}"),
        _ => format!("/v1/runs/{}?tenant={tenant}", key.1),
    };
    world.call(actor, Call::get(who, path)).await;
}

pub async fn redrive(world: Rc<World>) {
    while !world.is_over() {
        world.time.sleep(world.chance.below(20_000)).await;
        if let Some((id, preview)) = create(&world).await {
            steer(&world, &id, preview).await;
        }
    }
}

async fn create(world: &Rc<World>) -> Option<(String, bool)> {
    let dry_run = world.chance.happens(500);
    let mut filter = json!({"state": *world.chance.pick(&["dead", "dead,scheduled", "dead,review,scheduled"])});
    if world.chance.happens(600) {
        filter["tenant"] = json!(TENANTS[world.any_tenant()]);
    }
    let action = *world.chance.pick(&["replay", "replay", "replay", "assign", "resolve"]);
    let mut body = json!({"action": action, "filter": filter, "reason": "because", "dry_run": dry_run,
        "settle_ms": 60_000});
    match (action, world.chance.below(3)) {
        ("assign", _) => body["to"] = json!("ops"),
        ("replay", 0) => body["canary"] = json!({"size": 2, "max_failure_share": 0.5, "wait_ms": 30_000}),
        (_, 1) => body["rate_per_s"] = json!(0.5),
        _ => {}
    }
    let heard = world.call("bulk", Call::post(Who::Operator, "/v1/operations", &body)).await;
    let id = heard.json()["id"].as_str().filter(|_| heard.is_ok())?.to_owned();
    world.facts.borrow_mut().operations.entry(id.clone()).or_default();
    Some((id, dry_run))
}

async fn steer(world: &Rc<World>, id: &str, preview: bool) {
    if preview {
        let previewed = items(world, id);
        if let Some(facts) = world.facts.borrow_mut().operations.get_mut(id) {
            facts.previewed = previewed;
        }
        world.time.sleep(world.chance.a_while_ms(60_000)).await;
        say(world, id, "start").await;
    }
    for _ in 0..world.chance.below(3) {
        world.time.sleep(world.chance.a_while_ms(20_000)).await;
        let by = *world.chance.pick(&["pause", "resume", "start", "resume", "cancel"]);
        say(world, id, by).await;
    }
    // Nobody leaves it half way.
    for _ in 0..3 {
        if !say(world, id, "resume").await {
            break;
        }
    }
}

/// True where nobody knows what became of it.
async fn say(world: &Rc<World>, id: &str, by: &str) -> bool {
    let call = Call::post(Who::Operator, format!("/v1/operations/{id}/{by}"), &json!({})).once();
    let heard = world.call("bulk", call).await;
    if by == "cancel" && heard.is_ok() {
        let moved = heard.json()["moved"].as_u64();
        if let Some(facts) = world.facts.borrow_mut().operations.get_mut(id) {
            facts.cancelled_at = moved;
        }
    }
    heard.is_open()
}

/// The set, in its order, between two moments.
pub fn items(world: &Rc<World>, id: &str) -> Option<Vec<String>> {
    let call = Call::get(Who::Operator, format!("/v1/operations/{id}/items?limit=500"));
    let heard = world.call_at_once("bulk", &call);
    let name =
        |item: &Value| format!("{}/{}", item["tenant"].as_str().unwrap_or(""), item["run_id"].as_str().unwrap_or(""));
    heard.json()["items"].as_array().map(|items| items.iter().map(name).collect())
}
