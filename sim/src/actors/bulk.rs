//! Whoever moves many at once: previews, starts, pauses, cancels.

use std::rc::Rc;

use serde_json::{Value, json};

use crate::net::Call;
use crate::world::{TENANTS, Who, World};

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
