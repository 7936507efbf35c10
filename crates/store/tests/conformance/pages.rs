//! Pages of a run's lists, and bounds on the size of one read or answer.

use redrive_core::wire::{EffectOutcome, HistoryEntry, RunBody, StepStatus};
use redrive_engine::{DetailCall, EffectRef, Error, LeaseCall, NewStep, Reconcile, Triage, encode};

use crate::world::{World, at, failed, lease_call, numbered, start, step};

async fn page(world: &World, run: &str, call: DetailCall) -> RunBody {
    world.store.run_pages(&at("acme", run), call).await.unwrap().body
}

pub async fn attempts_are_paged_from_the_newest(world: World) {
    for n in 1..=7 {
        world.store.report(numbered("r1", &format!("Request timed out {n}"), n)).await.unwrap();
    }
    let mut call = DetailCall { limit: 3, ..DetailCall::default() };
    let mut seen = Vec::new();
    loop {
        let shown = page(&world, "r1", call.clone()).await;
        assert!(shown.verdict.is_some(), "the newest verdict is on every page");
        seen.push(shown.attempts.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>());
        call.attempts_cursor = shown.next_attempts_cursor;
        if call.attempts_cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, [vec![5, 6, 7], vec![2, 3, 4], vec![1]]);
}

pub async fn history_pages_hold_every_entry_once(world: World) {
    for n in 1..=3 {
        world.store.report(numbered("r1", &format!("Request timed out {n}"), 4 * n)).await.unwrap();
        world.wait(1_000);
        world.triage("r1", Triage::Note).await.unwrap();
        world.wait(1_000);
    }
    let whole: Vec<String> = page(&world, "r1", DetailCall::default()).await.history.iter().map(told).collect();
    assert_eq!(whole.len(), 7, "{whole:?}");
    let mut call = DetailCall { limit: 2, ..DetailCall::default() };
    let mut seen: Vec<String> = Vec::new();
    loop {
        let shown = page(&world, "r1", call.clone()).await;
        assert!(shown.history.len() <= 2);
        seen = shown.history.iter().map(told).chain(seen).collect();
        call.history_cursor = shown.next_history_cursor;
        if call.history_cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, whole);
}

fn told(entry: &HistoryEntry) -> String {
    format!("{} {} {:?}", entry.at, entry.event, entry.to)
}

pub async fn steps_are_paged_by_count_and_by_bytes(world: World) {
    let (_, under) = world.start("r1").await;
    let large = encode(format!("\"{}\"", "x".repeat(60_000)).as_bytes());
    for n in 1..=90 {
        let step = NewStep { output: Some(large.clone()), ..step(&format!("s-{n}"), false, StepStatus::Committed) };
        world.store.step(under.clone(), step).await.unwrap();
    }
    let keys = |shown: &RunBody| shown.steps.iter().map(|step| step.key.as_str().to_owned()).collect::<Vec<_>>();
    let few = page(&world, "r1", DetailCall { limit: 2, ..DetailCall::default() }).await;
    assert_eq!(keys(&few), ["s-89", "s-90"]);
    let next = DetailCall { limit: 2, steps_cursor: few.next_steps_cursor, ..DetailCall::default() };
    assert_eq!(keys(&page(&world, "r1", next).await), ["s-87", "s-88"]);
    let first = page(&world, "r1", DetailCall::default()).await;
    assert!(first.steps.len() < 90 && first.next_steps_cursor.is_some(), "{} steps", first.steps.len());
    let rest = DetailCall { steps_cursor: first.next_steps_cursor, ..DetailCall::default() };
    assert_eq!(page(&world, "r1", rest).await.steps.len() + first.steps.len(), 90);
}

pub async fn large_attempts_make_small_pages(world: World) {
    for n in 1..=3 {
        let body = serde_json::json!({"error": {"message": "x".repeat(3_000_000)}});
        let mut large = numbered("r1", &format!("Request timed out {n}"), n);
        large.failed.body = encode(body.to_string().as_bytes());
        world.store.report(large).await.unwrap();
    }
    let shown = page(&world, "r1", DetailCall::default()).await;
    assert_eq!((shown.attempts.len(), shown.attempts[0].attempt), (1, 3));
    assert!(shown.next_attempts_cursor.is_some());
    assert_eq!(shown.history.len(), 4, "history has no bodies and is whole");
}

pub async fn a_cursor_of_another_run_or_list_is_refused(world: World) {
    for run in ["r1", "r2"] {
        for n in 1..=3 {
            world.store.report(numbered(run, &format!("Request timed out {n}"), n)).await.unwrap();
        }
    }
    let cursor = page(&world, "r1", DetailCall { limit: 1, ..DetailCall::default() }).await.next_attempts_cursor;
    let given = DetailCall { attempts_cursor: cursor.clone(), ..DetailCall::default() };
    assert!(matches!(world.store.run_pages(&at("acme", "r2"), given).await, Err(Error::BadCursor)));
    let given = DetailCall { steps_cursor: cursor, ..DetailCall::default() };
    assert!(matches!(world.store.run_pages(&at("acme", "r1"), given).await, Err(Error::BadCursor)));
}

pub async fn outputs_of_steps_count_in_a_lease_answer(world: World) {
    let large = encode(format!("\"{}\"", "x".repeat(60_000)).as_bytes());
    for run in ["r1", "r2"] {
        let (_, under) = world.start_resumable(run).await;
        for n in 1..=4 {
            let key = format!("{run}-{n}");
            let step = NewStep { output: Some(large.clone()), ..step(&key, false, StepStatus::Committed) };
            world.store.step(under.clone(), step).await.unwrap();
        }
        world.store.release(under).await.unwrap();
    }
    world.wait(10_000);
    let tight = LeaseCall { payload_max_bytes: 300_000, ..lease_call(10) };
    let leased = world.store.lease(tight).await.unwrap();
    assert_eq!((leased.len(), leased[0].steps.len()), (1, 4));
    assert_eq!(world.lease(10).await.len(), 1, "the other is in the next answer");
}

pub async fn outputs_of_one_run_are_stored_up_to_a_limit(world: World) {
    let (_, under) = world.start("r1").await;
    let large = encode(format!("\"{}\"", "x".repeat(1_000_000)).as_bytes());
    for n in 1..=12 {
        let step = NewStep { output: Some(large.clone()), ..step(&format!("s-{n}"), false, StepStatus::Committed) };
        world.store.step(under.clone(), step).await.unwrap();
    }
    let again = world.store.start(start("r1")).await.unwrap().answer.steps;
    let kept = again.iter().filter(|step| step.output.is_some()).count();
    let omitted = again.iter().filter(|step| step.output_omitted.is_some()).count();
    assert_eq!((again.len(), kept, omitted), (12, 8, 4));
}

/// What a person says that an effect gave goes to the next worker as well.
pub async fn reconciled_outputs_count_in_the_limit(world: World) {
    let (_, under) = world.start_resumable("r1").await;
    let large = encode(format!("\"{}\"", "x".repeat(1_000_000)).as_bytes());
    for n in 1..=8 {
        let step = NewStep { output: Some(large.clone()), ..step(&format!("s-{n}"), false, StepStatus::Committed) };
        world.store.step(under.clone(), step).await.unwrap();
    }
    for key in ["large", "small"] {
        world.store.step(under.clone(), step(key, true, StepStatus::Started)).await.unwrap();
    }
    world.store.fail(under, failed("Request timed out")).await.unwrap();
    let settle = |key: &str, output: Vec<u8>| Reconcile {
        at: EffectRef { tenant: "acme".parse().unwrap(), key: key.parse().unwrap(), run_id: None },
        outcome: EffectOutcome::Committed,
        output: Some(output),
        output_omitted: None,
        actor: "key:ops".into(),
        reason: None,
    };
    let settled = world.store.reconcile(settle("large", large)).await.unwrap();
    assert!(settled.output.is_none());
    assert_eq!(settled.output_omitted.unwrap().bytes, 1_000_002);
    let settled = world.store.reconcile(settle("small", encode(b"1"))).await.unwrap();
    assert_eq!((settled.output.unwrap().get(), settled.output_omitted.is_none()), ("1", true));
}
