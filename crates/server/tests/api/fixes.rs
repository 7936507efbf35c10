//! Replays with a fix, over HTTP: patches byte for byte, plans, and what is refused.

use serde_json::Value;

use crate::world::World;

const PAYLOAD: &str = r#"{"n": 12345678901234567890.10, "model":"old", "z":"\u0000\ud800"}"#;

async fn killed(world: &World) {
    let body = format!(r#"{{"run_id":"a","payload":{PAYLOAD},"error":{{"message":"boom","terminal":true}}}}"#);
    assert_eq!(world.work("/v1/failures", body).await.short(), (201, "dead".into()));
}

async fn replay(world: &World, body: &str) -> (u16, String) {
    world.post("/v1/runs/a/replay", &world.tenant, body).await.short()
}

#[tokio::test]
async fn a_patch_keeps_every_byte_it_does_not_name() {
    let world = World::new().await;
    killed(&world).await;
    let patch = r#"{"fix":{"json_patch":[{"op":"test","path":"/model","value":"old"},
        {"op":"replace","path":"/model","value":"new"}]},"instruction":"be brief","reason":"r"}"#;
    let answered = world.post("/v1/runs/a/replay", &world.tenant, patch).await;
    assert_eq!((answered.short(), answered.get("revision")), ((200, "scheduled".into()), 2.into()));
    let leased = world.work("/v1/leases", r#"{"queues":["*"]}"#).await;
    let expected = PAYLOAD.replace("old", "new");
    assert!(leased.text.contains(&format!(r#""payload":{expected}"#)), "{}", leased.text);
    // The lone surrogate came back unchanged; it is removed because `Value` can't parse it.
    let run: Value = serde_json::from_str(&leased.text.replace(r"\ud800", "")).unwrap();
    let run = run["leases"][0].clone();
    assert_eq!((&run["replay"], &run["revision"], &run["attempt"]), (&true.into(), &2.into(), &2.into()));
    assert_eq!(run["changes"][0]["change"], "add_instruction");
    let first = world.get("/v1/runs/a/revisions/1", &world.tenant).await;
    assert!(first.text.contains(&format!(r#""payload":{PAYLOAD}"#)), "{}", first.text);
    let second = world.get("/v1/runs/a/revisions/2", &world.tenant).await.text.replace(r"\ud800", "");
    let second: Value = serde_json::from_str(&second).unwrap();
    assert_eq!(second["json_patch"][1]["value"], "new");
    assert!(second["actor"].as_str().unwrap().starts_with("tenant:key-"));
    for (path, told) in [
        ("/v1/runs/a/revisions/3", (404, "not_found")),
        ("/v1/runs/a/revisions/0", (422, "invalid_field")),
        ("/v1/runs/a/revisions/x", (422, "invalid_field")),
    ] {
        assert_eq!(world.get(path, &world.tenant).await.short(), (told.0, told.1.into()), "{path}");
    }
}

#[tokio::test]
async fn a_failing_fix_changes_nothing_and_names_the_place() {
    let world = World::new().await;
    killed(&world).await;
    for (body, status, code) in [
        (r#"{"fix":{"json_patch":[{"op":"replace","path":"/nope/x","value":1}]}}"#, 422, "bad_patch"),
        (r#"{"fix":{"json_patch":[{"op":"test","path":"/model","value":"new"}]}}"#, 409, "patch_test_failed"),
        (r#"{"fix":{"json_patch":[{"op":"swap","path":"/model"}]}}"#, 422, "invalid_field"),
        (r#"{"fix":{"json_patch":[{"op":"remove","path":"/model","vlaue":1}]}}"#, 422, "unknown_field"),
        (r#"{"fix":{"payload":1,"json_patch":[]}}"#, 422, "invalid_field"),
        (r#"{"fix":{}}"#, 422, "invalid_field"),
        (r#"{"fix":{"payload":{}},"from_step":"nothing"}"#, 422, "invalid_field"),
        (r#"{"queue":"nowhere"}"#, 404, "not_found"),
        (r#"{"queue":"no where"}"#, 422, "bad_id"),
        (r#"{"agent":""}"#, 422, "invalid_field"),
        (r#"{"plan_hash":"0000"}"#, 409, "plan_changed"),
        (r#"{"modle":"x"}"#, 422, "unknown_field"),
    ] {
        assert_eq!(replay(&world, body).await, (status, code.into()), "{body}");
    }
    let long = format!(r#"{{"instruction":"{}"}}"#, "x".repeat(9_000));
    assert_eq!(replay(&world, &long).await, (422, "invalid_field".into()));
    let listed = world.get("/v1/runs", &world.tenant).await.get("runs")[0].clone();
    assert_eq!((&listed["state"], &listed["revision"]), (&"dead".into(), &1.into()));
    let bytes = r#"{"run_id":"b","payload_base64":"AP8=","error":{"message":"boom","terminal":true}}"#;
    world.work("/v1/failures", bytes).await;
    let patch = r#"{"fix":{"json_patch":[{"op":"add","path":"/a","value":1}]}}"#;
    let on_bytes = world.post("/v1/runs/b/replay", &world.tenant, patch).await;
    assert_eq!((on_bytes.short().0, on_bytes.get("field")), (422, "fix.json_patch".into()));
    let whole = world.post("/v1/runs/b/replay", &world.tenant, r#"{"fix":{"payload":null}}"#).await;
    assert_eq!(whole.short(), (200, "scheduled".into()));
    assert!(world.get("/v1/runs/b", &world.tenant).await.text.contains(r#""payload":null"#));
}

#[tokio::test]
async fn a_replay_does_exactly_what_its_plan_says() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    for (key, effect, status) in [
        ("load", false, "committed"),
        ("charge", true, "started"),
        ("charge", true, "committed"),
        ("mail", true, "failed"),
    ] {
        let step =
            format!(r#"{{"lease":"{lease}","name":"{key}","key":"a:{key}","effect":{effect},"status":"{status}"}}"#);
        assert_eq!(world.work("/v1/runs/a/steps", step).await.status, 200);
    }
    let fail = format!(r#"{{"lease":"{lease}","error":{{"message":"boom","terminal":true}}}}"#);
    world.work("/v1/runs/a/fail", fail).await;
    let plan = world.get("/v1/runs/a/plan", &world.tenant).await;
    assert_eq!(plan.status, 200);
    let mut told = plan.json();
    assert_eq!(told["hash"].as_str().unwrap().len(), 32);
    told["hash"] = "…".into();
    insta::assert_json_snapshot!(told, @r#"
    {
      "approval_needed": false,
      "hash": "…",
      "held_by": null,
      "refused": "unsafe",
      "revision": 1,
      "run_id": "a",
      "steps": [
        {
          "effect": false,
          "key": "a:load",
          "name": "load",
          "will": "skip"
        },
        {
          "effect": true,
          "key": "a:charge",
          "name": "charge",
          "will": "skip"
        },
        {
          "effect": true,
          "key": "a:mail",
          "name": "mail",
          "will": "run"
        }
      ],
      "tenant": "acme",
      "versions_changed": [],
      "warnings": [
        {
          "code": "effect_done",
          "detail": "An effect is done and the run can't resume: its worker may do it again."
        }
      ]
    }
    "#);
    let other = world.get("/v1/runs/a/plan?model=larger&from_step=a:load", &world.tenant).await;
    assert_ne!(other.get("hash"), plan.get("hash"));
    assert_eq!(world.get("/v1/runs/a/plan?modle=x", &world.tenant).await.short(), (422, "unknown_parameter".into()));
    let fix = r#"{"fix":{"payload":[1]},"force":true,"reason":"checked by hand"}"#;
    let fixed = world.post("/v1/runs/a/plan", &world.tenant, fix).await;
    assert_eq!(fixed.get("revision"), 2);
    // Planning changes nothing, and a forced plan needs no role; only the replay does.
    assert_eq!(world.state("a").await, "dead");
    let with = |hash: &Value| fix.replacen('{', &format!(r#"{{"plan_hash":{hash},"#), 1);
    let stale = world.post("/v1/runs/a/replay?tenant=acme", &world.operator, with(&plan.get("hash"))).await;
    assert_eq!((stale.short(), stale.get("plan_hash")), ((409, "plan_changed".into()), fixed.get("hash")));
    let done = world.post("/v1/runs/a/replay?tenant=acme", &world.operator, with(&fixed.get("hash"))).await;
    assert_eq!((done.short(), done.get("revision")), ((200, "scheduled".into()), 2.into()));
    let forced = world.show("a").await["history"].as_array().unwrap().iter().any(|h| h["event"] == "force_replay");
    assert!(forced, "the history says that it was forced");
}
