//! Whoever leases what is due.

use std::rc::Rc;

use redrive_core::time::Timestamp;
use serde_json::{Value, json};

use super::session::Session;
use crate::facts::{Grant, Key};
use crate::net::Call;
use crate::world::{TENANTS, Who, World};

pub const LEASES_MS: [u64; 3] = [2_000, 10_000, 60_000];

pub async fn work(world: Rc<World>, n: usize) {
    let actor = format!("worker-{n}");
    let who = if n.is_multiple_of(2) { Who::AnyWorker } else { Who::Worker(n % TENANTS.len()) };
    while !world.is_over() {
        for session in lease(&world, &actor, who, 1 + world.chance.below(3)).await {
            session.work().await;
        }
        world.time.sleep(world.chance.below(1_500)).await;
    }
}

/// What is handed out, each with a worker of its own number.
pub async fn lease(world: &Rc<World>, actor: &str, who: Who, max: u64) -> Vec<Session> {
    let lease_ms = *world.chance.pick(&LEASES_MS);
    let body = json!({"queues": ["*"], "max": max, "lease_ms": lease_ms, "worker": actor});
    let heard = world.call(actor, Call::post(who, "/v1/leases", &body)).await;
    let Some(leases) = heard.json()["leases"].as_array() else { return Vec::new() };
    leases.iter().filter_map(|given| session(world, actor, who, given, lease_ms)).collect()
}

fn session(world: &Rc<World>, actor: &str, who: Who, given: &Value, lease_ms: u64) -> Option<Session> {
    let tenant = TENANTS.iter().position(|tenant| given["tenant"] == *tenant)?;
    let key: Key = (tenant, given["run_id"].as_str()?.to_owned());
    let (token, attempt) = (given["lease"].as_str()?.to_owned(), u32::try_from(given["attempt"].as_u64()?).ok()?);
    let expires_at: Timestamp = given["lease_expires_at"].as_str()?.parse().ok()?;
    let automatic = given["replay"] == false;
    let grant = Grant {
        token: token.clone(),
        granted_at: expires_at.minus_ms(lease_ms),
        expires_at,
        automatic,
        end_asked: false,
        start_id: None,
    };
    world.granted(&key, grant);
    if world.facts.borrow_mut().run(&key).acknowledged.contains_key(&attempt) {
        world.broken("D3", format_args!("{key:?}: attempt {attempt} was handed out after its end was acknowledged"));
    }
    Some(Session { world: world.clone(), actor: actor.to_owned(), who, key, token, attempt, id: world.new_worker() })
}
