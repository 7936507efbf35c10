//! Spend caps over the API: a run's, and a tenant's for the day.

use serde_json::json;

use crate::strategies::{MINUTE, verdict};
use crate::world::World;

#[tokio::test]
async fn a_run_at_its_spend_cap_is_dead_with_figures() {
    let world = World::new().await;
    world.set_queue("q", json!({"policy": {"budget": {"retry_tokens_per_run": 1000}}})).await;
    let failed = |attempt| json!({"queue": "q", "attempt": attempt, "error": {"message": "Request timed out"}, "usage": {"input_tokens": 600, "output_tokens": 0}});
    // The first attempt is no retry; the second leaves room; the third uses it up.
    for (attempt, action) in [(1, "retry"), (2, "retry"), (3, "dead_letter")] {
        let verdict = verdict(&world, "a", failed(attempt)).await;
        assert_eq!(verdict["action"], action, "{attempt}: {verdict}");
        if attempt == 3 {
            assert_eq!(verdict["dead_because"], "exhausted");
            assert_eq!(
                verdict["why"],
                "It timed out, and this run's retries have used 1200 tokens of the 1000 they may: no further retry."
            );
        }
    }
}

#[tokio::test]
async fn a_tenant_spend_cap_holds_its_runs_until_midnight() {
    let world = World::new().await;
    world.set_queue("q", json!({"policy": {"budget": {"retry_cost_usd_per_tenant_day": 0.5}}})).await;
    let failed = |attempt| json!({"queue": "q", "attempt": attempt, "error": {"message": "Request timed out"}, "usage": {"cost_usd": 0.25}});
    for attempt in 1..=2 {
        assert_eq!(verdict(&world, "a", failed(attempt)).await["action"], "retry");
    }
    // A retry that succeeds has cost something as well.
    world.wait(10 * MINUTE);
    let lease = world.lease(1).await[0]["lease"].clone();
    let done =
        world.work("/v1/runs/a/succeed", json!({"lease": lease, "output": "ok", "usage": {"cost_usd": 0.25}})).await;
    assert_eq!(done.short(), (200, "recovered".into()));
    let refused = verdict(&world, "b", failed(1)).await;
    assert_eq!((&refused["action"], &refused["dead_because"]), (&json!("dead_letter"), &json!("exhausted")));
    assert_eq!(
        refused["why"],
        "It timed out, and the tenant's retries today have used $0.50 of the $0.50 they may: no further retry."
    );
    let other = json!({"run_id": "b", "queue": "q", "error": {"message": "Request timed out"}});
    assert_eq!(world.post("/v1/failures", &world.other_worker, other).await.json()["verdict"]["action"], "retry");
    world.wait(86_400_000);
    assert_eq!(verdict(&world, "c", failed(1)).await["action"], "retry");
}

#[tokio::test]
async fn token_counts_beyond_their_maximum_are_refused() {
    let world = World::new().await;
    for (tokens, status) in [(1_000_000_000_000_u64, 201), (1_000_000_000_001, 422), (u64::MAX >> 1, 422)] {
        for name in ["input_tokens", "output_tokens"] {
            let run = format!("{name}-{tokens}");
            let body = json!({"run_id": run, "error": {"message": "Request timed out"}, "usage": {name: tokens}});
            let answered = world.work("/v1/failures", body).await;
            assert_eq!(answered.status, status, "{}", answered.text);
            if status == 422 {
                assert_eq!(answered.get("field"), format!("usage.{name}"));
            }
        }
    }
}
