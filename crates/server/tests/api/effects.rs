//! The effect ledger: look-up, reconcile, checks.

use serde_json::json;

use crate::world::World;

fn charge(lease: &str, status: &str, more: &str) -> String {
    format!(r#"{{"lease":"{lease}","name":"charge_card","key":"a:charge","effect":true,"status":"{status}"{more}}}"#)
}

/// A run that died between the intent to charge and its outcome.
async fn died_charging() -> (World, String) {
    let world = World::new().await;
    let lease = world.begin("a").await;
    let how = r#","check":"ask the bank for a:charge""#;
    assert_eq!(world.work("/v1/runs/a/steps", charge(&lease, "started", how)).await.status, 200);
    world.wait(60_001);
    world.store.rescue_expired(100).await.unwrap();
    (world, lease)
}

async fn reconcile(world: &World, body: &str) -> crate::world::Answered {
    world.post("/v1/effects/a:charge/reconcile", &world.tenant, body).await
}

#[tokio::test]
async fn an_unknown_effect_is_found_with_its_run_and_check() {
    let (world, _) = died_charging().await;
    let found = world.get("/v1/effects/a:charge", &world.tenant).await;
    insta::assert_snapshot!(found.text, @r#"{"tenant":"acme","run_id":"a","key":"a:charge","name":"charge_card","effect":true,"status":"unknown","output":null,"check":"ask the bank for a:charge","attempt":1,"versions":{},"started_at":"2027-01-15T08:00:00.000Z","at":"2027-01-15T08:01:00.001Z","last_used_at":"2027-01-15T08:00:00.000Z","settled_by":null}"#);
    let run = world.show("a").await;
    assert_eq!((&run["state"], &run["dead_because"]), (&json!("dead"), &json!("unsafe")));
}

#[tokio::test]
async fn a_second_call_of_an_open_effect_names_the_holder() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    let call = |id: &str| charge(&lease, "started", &format!(r#","call_id":"{id}""#));
    assert_eq!(world.work("/v1/runs/a/steps", call("c1")).await.status, 200);
    assert_eq!(world.work("/v1/runs/a/steps", call("c1")).await.status, 200, "a lost answer");
    for second in [call("c2"), charge(&lease, "started", "")] {
        let refused = world.work("/v1/runs/a/steps", second).await;
        assert_eq!(refused.short(), (409, "effect_in_progress".into()));
        assert_eq!((refused.get("run_id"), refused.get("call_id")), (json!("a"), json!("c1")));
    }
    let bad = world.work("/v1/runs/a/steps", call("no id")).await;
    assert_eq!((bad.short(), bad.get("field")), ((422, "bad_id".into()), json!("call_id")));
}

#[tokio::test]
async fn a_replay_gets_the_output_of_a_reconciled_effect() {
    let (world, _) = died_charging().await;
    let replay = |force: bool| format!(r#"{{"force":{force},"reason":"settled"}}"#);
    let refused = world.post("/v1/runs/a/replay", &world.tenant, replay(false)).await;
    assert_eq!(refused.short(), (409, "effect_unknown".into()));
    let body = r#"{"outcome":"committed","output":{"id": 7.10},"reason":"the bank has it"}"#;
    let settled = reconcile(&world, body).await;
    assert_eq!((settled.get("status"), settled.get("outcome")), (json!("reconciled"), json!("committed")));
    assert_eq!(world.state("a").await, "dead", "it waits for a person's replay");
    let refused = world.post("/v1/runs/a/replay", &world.tenant, replay(false)).await;
    assert_eq!(refused.short(), (409, "unsafe".into()), "the run said nothing of being resumable");
    let replayed = world.post("/v1/runs/a/replay?tenant=acme", &world.operator, replay(true)).await;
    assert_eq!(replayed.short(), (200, "scheduled".into()));
    let leased = world.lease(1).await;
    let again = world.work("/v1/runs/a/steps", charge(leased[0]["lease"].as_str().unwrap(), "started", "")).await;
    assert!(again.text.contains(r#""output":{"id": 7.10}"#), "{}", again.text);
    assert_eq!(again.get("replayed"), true);
}

#[tokio::test]
async fn an_effect_reconciled_as_not_done_may_start_again() {
    let (world, _) = died_charging().await;
    assert_eq!(reconcile(&world, r#"{"outcome":"not_done"}"#).await.get("outcome"), "not_done");
    assert_eq!(world.post("/v1/runs/a/replay", &world.tenant, "").await.short(), (200, "scheduled".into()));
    let leased = world.lease(1).await;
    let again = world.work("/v1/runs/a/steps", charge(leased[0]["lease"].as_str().unwrap(), "started", "")).await;
    assert_eq!((again.get("status"), again.get("replayed")), (json!("started"), json!(null)));
}

#[tokio::test]
async fn an_invalid_reconcile_is_refused_with_its_code() {
    let (world, _) = died_charging().await;
    for (body, code) in [
        (r#"{"outcome":"maybe"}"#, (422, "invalid_field")),
        (r#"{}"#, (422, "invalid_field")),
        (r#"{"outcome":"committed","sure":true}"#, (422, "unknown_field")),
        (r#"{"outcome":"not_done","output":1}"#, (422, "invalid_field")),
        (r#"{"outcome":"committed","tenant":"globex"}"#, (422, "wrong_tenant")),
    ] {
        assert_eq!(reconcile(&world, body).await.short(), (code.0, code.1.into()), "{body}");
    }
    let spanning = world.post("/v1/effects/a:charge/reconcile", &world.operator, r#"{"outcome":"committed"}"#).await;
    assert_eq!(spanning.short(), (422, "tenant_required".into()));
    let by_worker = world.work("/v1/effects/a:charge/reconcile", r#"{"outcome":"committed"}"#).await;
    assert_eq!(by_worker.short(), (403, "forbidden".into()));
    for outcome in ["committed", "committed"] {
        assert_eq!(reconcile(&world, &format!(r#"{{"outcome":"{outcome}"}}"#)).await.status, 200);
    }
    let other = reconcile(&world, r#"{"outcome":"not_done"}"#).await;
    assert_eq!((other.short(), other.get("effect_status")), ((409, "effect_settled".into()), json!("reconciled")));
    assert_eq!(world.get("/v1/effects/none", &world.tenant).await.short(), (404, "not_found".into()));
    assert_eq!(world.get("/v1/effects/a:charge?run=a", &world.tenant).await.short(), (422, "unknown_parameter".into()));
}

#[tokio::test]
async fn an_effect_without_a_key_is_reached_through_its_run() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    let mail = |status: &str| format!(r#"{{"lease":"{lease}","name":"send mail","status":"{status}"}}"#);
    for status in ["started", "committed", "started"] {
        assert_eq!(world.work("/v1/runs/a/steps", mail(status)).await.status, 200);
    }
    world.work("/v1/runs/a/fail", format!(r#"{{"lease":"{lease}","error":{{"message":"boom"}}}}"#)).await;
    assert_eq!(world.get("/v1/effects/step:send@20mail:2", &world.tenant).await.status, 404);
    let found = world.get("/v1/effects/step:send@20mail:2?run_id=a", &world.tenant).await;
    assert_eq!(found.get("status"), "unknown");
    let path = "/v1/effects/step:send@20mail:2/reconcile?run_id=a&tenant=acme";
    let settled = world.post(path, &world.operator, r#"{"outcome":"not_done"}"#).await;
    assert_eq!(settled.get("status"), "reconciled", "{}", settled.text);
    assert!(settled.get("settled_by").as_str().unwrap().starts_with("operator:"));
}

#[tokio::test]
async fn a_step_check_settles_an_unknown_effect() {
    let (world, _) = died_charging().await;
    let force = r#"{"force":true,"reason":"the worker can ask the bank"}"#;
    world.post("/v1/runs/a/replay?tenant=acme", &world.operator, force).await;
    let leased = world.lease(1).await;
    assert_eq!(leased[0]["steps"][0]["status"], "unknown");
    assert!(leased[0]["steps"][0]["check"].as_str().is_some());
    let lease = leased[0]["lease"].as_str().unwrap();
    let refused = world.work("/v1/runs/a/steps", charge(lease, "started", "")).await;
    assert_eq!(refused.short(), (409, "effect_unknown".into()));
    let nonsense = world.work("/v1/runs/a/steps", charge(lease, "started", r#","checked":true"#)).await;
    assert_eq!((nonsense.short(), nonsense.get("field")), ((422, "invalid_field".into()), json!("checked")));
    let found = world.work("/v1/runs/a/steps", charge(lease, "committed", r#","checked":true,"output":7"#)).await;
    assert_eq!((found.get("status"), found.get("outcome")), (json!("reconciled"), json!("committed")));
    assert_eq!(world.work("/v1/runs/a/steps", charge(lease, "started", "")).await.get("replayed"), true);
}

#[tokio::test]
async fn a_late_outcome_is_recorded_and_answered_as_such() {
    let (world, lease) = died_charging().await;
    let late = world.work("/v1/runs/a/steps", charge(&lease, "committed", "")).await;
    assert_eq!((late.short(), late.get("recorded")), ((409, "lease_lost".into()), json!(true)));
    assert_eq!(world.get("/v1/effects/a:charge", &world.tenant).await.get("status"), "committed");
    assert_eq!(world.state("a").await, "dead");
}

#[tokio::test]
async fn a_check_is_returned_unchanged() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    let odd = r#","check":"ask \ud800 and \u0000""#;
    let recorded = world.work("/v1/runs/a/steps", charge(&lease, "started", odd)).await;
    let found = world.get("/v1/effects/a:charge", &world.tenant).await;
    for answer in [recorded, found] {
        assert!(answer.text.contains(r#""check":"ask \ud800 and \u0000""#), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_check_longer_than_its_limit_is_refused() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    let long = format!(r#","check":"{}""#, "x".repeat(5_000));
    let refused = world.work("/v1/runs/a/steps", charge(&lease, "started", &long)).await;
    assert_eq!((refused.short(), refused.get("field")), ((422, "invalid_field".into()), json!("check")));
}
