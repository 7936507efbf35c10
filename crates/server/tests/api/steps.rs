//! Recorded steps over HTTP.

use crate::world::World;

fn step(lease: &str, status: &str, output: &str) -> String {
    format!(
        r#"{{"lease":"{lease}","name":"load","key":"load-1","effect":false,"status":"{status}","output":{output}}}"#
    )
}

#[tokio::test]
async fn a_committed_steps_output_comes_back_on_the_next_attempt() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    world.work("/v1/runs/a/steps", step(&lease, "started", "null")).await;
    let done = world.work("/v1/runs/a/steps", step(&lease, "committed", r#"{"rows": 1.10}"#)).await;
    assert_eq!((done.status.as_u16(), done.get("status")), (200, "committed".into()));
    let fail = format!(r#"{{"lease":"{lease}","error":{{"message":"Request timed out"}}}}"#);
    assert_eq!(world.work("/v1/runs/a/fail", fail).await.short(), (200, "scheduled".into()));

    world.wait(600_000);
    let leased = world.lease(1).await;
    assert_eq!(leased[0]["steps"][0]["key"], "load-1");
    let lease = leased[0]["lease"].as_str().unwrap();
    let again = world.work("/v1/runs/a/steps", step(lease, "started", "null")).await;
    assert_eq!(again.get("replayed"), true);
    assert!(again.text.contains(r#""output":{"rows": 1.10}"#), "{}", again.text);
}

#[tokio::test]
async fn a_large_step_output_is_stored_by_size_and_hash() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    let output = format!("\"{}\"", "x".repeat(70_000));
    let done = world.work("/v1/runs/a/steps", step(&lease, "committed", &output)).await;
    assert_eq!((done.get("status"), &done.get("output_omitted")["bytes"]), ("committed".into(), &70_002.into()));
}

#[tokio::test]
async fn a_step_counts_as_an_effect_unless_it_says_otherwise() {
    let world = World::new().await;
    let report = |run: &str, effect: &str| {
        format!(
            r#"{{"run_id":"{run}","error":{{"message":"Request timed out"}},"steps":[{{"name":"s","key":"{run}:s",{effect}"status":"committed"}}]}}"#
        )
    };
    let silent = world.work("/v1/failures", report("a", "")).await;
    assert_eq!((silent.short(), &silent.get("verdict")["dead_because"]), ((201, "dead".into()), &"unsafe".into()));
    let said = world.work("/v1/failures", report("b", r#""effect":false,"#)).await;
    assert_eq!(said.short(), (201, "scheduled".into()));
}
