//! Producers: they start and enqueue runs, report failures, and resend when no answer comes.

use std::rc::Rc;

use http::Method;
use redrive_core::time::Timestamp;
use serde_json::{Value, json};

use super::worker::{LEASES_MS, Session};
use crate::facts::{Grant, Key};
use crate::net::{Call, Heard};
use crate::runs::{MESSAGES, body, fields, is_callers};
use crate::world::{Who, World};

const TRIES: u32 = 3;

pub async fn produce(world: Rc<World>, n: usize) {
    let actor = format!("producer-{n}");
    while !world.is_over() {
        let tenant = world.any_tenant();
        let key = world.any_run(tenant);
        match world.chance.below(10) {
            0..=3 => report(&world, &actor, &key).await,
            4..=6 => start(&world, &actor, &key).await,
            7 if is_callers(&key.1) => succeed_by_caller(&world, &actor, &key).await,
            8 => batch(&world, &actor, tenant).await,
            _ => enqueue(&world, &actor, &key).await,
        }
        world.time.sleep(world.chance.below(1_500)).await;
    }
}

fn call(key: &Key, path: &str, fields: Value) -> Call {
    Call { body: body(fields, key), ..Call::post(Who::Worker(key.0), path, &Value::Null) }
}

/// As often as it takes to hear something, or until it gives up.
async fn insist(world: &Rc<World>, actor: &str, call: &Call) -> Heard {
    let mut heard = Heard::Nothing;
    for _ in 0..TRIES {
        heard = world.call(actor, call.clone()).await;
        if !heard.is_open() {
            break;
        }
        world.time.sleep(world.chance.a_while_ms(30_000)).await;
    }
    heard
}

/// A failure of an attempt: the next one, one that is known already, or whichever is next.
fn failure(world: &World, key: &Key) -> (Value, String) {
    let mut facts = world.facts.borrow_mut();
    let mark = facts.mark();
    let last = facts.run(key).acknowledged.keys().next_back().copied().unwrap_or(0);
    let mut fields = fields(key);
    fields["error"] = json!({"message": world.chance.pick(&MESSAGES), "detail": mark});
    match world.chance.below(4) {
        0 => fields["attempt"] = json!(last + 1),
        1 => fields["attempt"] = json!(1 + world.chance.below(u64::from(last) + 2)),
        _ => {}
    }
    (fields, mark)
}

async fn report(world: &Rc<World>, actor: &str, key: &Key) {
    let (fields, mark) = failure(world, key);
    let sent_at = world.now();
    let call = call(key, "/v1/failures", fields).reopening(key);
    let heard = insist(world, actor, &call).await;
    let attempt = heard.json()["attempt"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    world.failure_heard(key, attempt, &mark, sent_at, &heard);
    // Once more, long after: the same answer, or what stands in its way.
    if heard.is_ok() && world.chance.happens(100) {
        let again = world.call(actor, call).await;
        if again.status() == 201 && again.json()["attempt"] == heard.json()["attempt"] {
            world.broken("D3", format_args!("{key:?}: attempt {attempt} was new twice"));
        }
        let attempt = again.json()["attempt"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        world.failure_heard(key, attempt, &mark, sent_at, &again);
    }
}

/// Several runs of a tenant in one call: each line is answered alone.
async fn batch(world: &Rc<World>, actor: &str, tenant: usize) {
    let items: Vec<(Key, Value, String)> = (0..1 + world.chance.below(5))
        .map(|_| {
            let key = world.any_run(tenant);
            let (fields, mark) = failure(world, &key);
            (key, fields, mark)
        })
        .collect();
    let sent_at = world.now();
    let lines: Vec<String> = items.iter().map(|(key, fields, _)| body(fields.clone(), key)).collect();
    let reopens = items.iter().map(|(key, ..)| key.clone()).collect();
    let call = Call::post(Who::Worker(tenant), "/v1/failures", &Value::Null);
    let call = Call { body: lines.join("\n"), lines: true, reopens, ..call };
    let heard = world.call(actor, call).await;
    let said = heard.json().as_array().cloned().unwrap_or_default();
    if !said.is_empty() && said.len() != items.len() {
        world.broken("D2", format_args!("{} lines were answered by {}", items.len(), said.len()));
    }
    for ((key, _, mark), json) in items.iter().zip(said) {
        let status = json["status"].as_u64().and_then(|n| u16::try_from(n).ok()).unwrap_or(0);
        let attempt = json["attempt"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let heard = Heard::Answer { status, json };
        if heard.is_open() {
            world.facts.borrow_mut().may_reopen(key);
        }
        world.failure_heard(key, attempt, mark, sent_at, &heard);
    }
}

async fn start(world: &Rc<World>, actor: &str, key: &Key) {
    let lease_ms = *world.chance.pick(&LEASES_MS);
    let start_id = world.chance.happens(700).then(|| {
        let mark = world.facts.borrow_mut().mark();
        format!("00000000-0000-4000-8000-{:0>12}", mark.trim_start_matches("mark-"))
    });
    let mut fields = fields(key);
    fields["mode"] = json!("start");
    fields["lease_ms"] = json!(lease_ms);
    fields["start_id"] = json!(start_id);
    let call = call(key, "/v1/runs", fields);
    // Without a name of its own it must not be sent twice: the second would wait for the first one's lease.
    let heard = if start_id.is_some() { insist(world, actor, &call).await } else { world.call(actor, call).await };
    let Some(session) = begun(world, actor, key, &heard, lease_ms, start_id) else { return };
    session.work().await;
}

fn begun(
    world: &Rc<World>,
    actor: &str,
    key: &Key,
    heard: &Heard,
    lease_ms: u64,
    start_id: Option<String>,
) -> Option<Session> {
    let json = heard.json();
    let token = json["lease"].as_str().filter(|_| heard.is_ok())?.to_owned();
    let attempt = u32::try_from(json["attempt"].as_u64()?).ok()?;
    let expires_at: Timestamp = json["lease_expires_at"].as_str()?.parse().ok()?;
    // Told again, it may have been prolonged: it was granted then or before.
    let granted_at = expires_at.minus_ms(lease_ms);
    let grant = Grant { token: token.clone(), granted_at, expires_at, automatic: false, end_asked: false, start_id };
    world.granted(key, grant);
    let (world, actor, who) = (world.clone(), actor.to_owned(), Who::Worker(key.0));
    let id = world.new_worker();
    Some(Session { world, actor, who, key: key.clone(), token, attempt, id })
}

async fn enqueue(world: &Rc<World>, actor: &str, key: &Key) {
    let mut fields = fields(key);
    fields["mode"] = json!("enqueue");
    if world.chance.happens(300) {
        fields["due_at"] = json!(world.now().plus_ms(world.chance.below(60_000)).to_string());
    }
    let heard = insist(world, actor, &call(key, "/v1/runs", fields)).await;
    if heard.is_ok() && !heard.json()["lease"].is_null() {
        world.broken("L1", format_args!("{key:?}: enqueuing gives no lease, but returned {}", heard.json()));
    }
}

async fn succeed_by_caller(world: &Rc<World>, actor: &str, key: &Key) {
    let path = format!("/v1/runs/{}/succeed", key.1);
    let mark = world.facts.borrow_mut().mark();
    let said = json!({"output": {"of": mark}, "finish_reason": "stop"});
    let call = Call { method: Method::POST, ..Call::post(Who::Worker(key.0), path, &said) };
    world.call(actor, call).await;
}
