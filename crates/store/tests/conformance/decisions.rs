//! What a verdict changes besides the state: target, memory, spend.

use redrive_core::lifecycle::Outcome;
use redrive_core::money::{Spend, Usd};
use redrive_core::policy::{Budgets, PolicyLayer};
use redrive_core::run::StateName;
use redrive_core::verdict::Action;
use redrive_core::wire::QueueSettings;
use redrive_engine::{FailedAttempt, NewFailure, NewRun, RunFilter, Success, TenantScope};

use crate::world::{World, failed, lease_call, new_run, success};

async fn set(world: &World, queue: &str, policy: PolicyLayer) {
    let settings = QueueSettings { policy, ..QueueSettings::default() };
    world.store.put_queue(queue.parse().unwrap(), settings).await.unwrap();
}

const TOOL: &str = "Error executing tool 'x' with kwargs {}";

pub async fn a_fallback_queue_gets_the_run_and_its_counters(world: World) {
    let fallback = PolicyLayer { fallback_queue: Some("simple".parse().unwrap()), ..PolicyLayer::default() };
    set(&world, "default", fallback).await;
    let report = |attempt| {
        let run = NewRun { agent: Some("a".into()), ..new_run("r") };
        NewFailure { run, failed: FailedAttempt { attempt: Some(attempt), ..failed(TOOL) } }
    };
    world.store.report(report(1)).await.unwrap();
    let second = world.store.report(report(2)).await.unwrap().answer;
    assert_eq!(second.verdict.target.queue, Some("simple".parse().unwrap()));
    let shown = world.show("r").await.summary;
    assert_eq!((shown.queue.as_str(), shown.agent), ("simple", Some("a".into())));
    for (queue, scheduled) in [("default", 0), ("simple", 1)] {
        assert_eq!(world.store.queue(&queue.parse().unwrap()).await.unwrap().scheduled, scheduled, "{queue}");
    }
    // It failed where it was: the hour's figures stay there.
    let stats = |queue: &str| redrive_engine::StatsCall { queue: Some(queue.parse().unwrap()), ..Default::default() };
    let of = |queue: &'static str| world.store.stats(&TenantScope::All, stats(queue));
    let failures = |answer: redrive_core::wire::StatsAnswer| answer.hours.iter().map(|point| point.failed).sum::<u64>();
    assert_eq!(failures(of("default").await.unwrap()), 2);
    assert_eq!(failures(of("simple").await.unwrap()), 0);
    world.wait(30_000);
    let call = redrive_engine::LeaseCall { queues: vec!["simple".parse().unwrap()], ..lease_call(1) };
    let leased = world.store.lease(call).await.unwrap();
    assert_eq!((leased.len(), leased[0].queue.as_str()), (1, "simple"));
    world.store.succeed(success(&crate::world::under(&leased[0]), "1")).await.unwrap();
    assert_eq!(world.store.queue(&"simple".parse().unwrap()).await.unwrap().running, 0);
}

pub async fn refused_success_is_a_failure_with_a_stable_answer(world: World) {
    let (_, under) = world.start("r").await;
    let blank = success(&under, "\"\"");
    let refused = world.store.succeed(blank.clone()).await.unwrap();
    let verdict = refused.verdict.clone().unwrap();
    assert_eq!((refused.state, verdict.rule.as_str()), (StateName::Dead, "detector.empty_output"));
    let again = world.store.succeed(blank).await.unwrap();
    assert_eq!((again.state, again.verdict), (refused.state, refused.verdict));
    let shown = world.show("r").await;
    assert_eq!(shown.body.attempts.len(), 1);
    assert_eq!(shown.body.attempts[0].outcome, Outcome::Failed.as_str());
    assert_eq!(shown.body.attempts[0].output.as_ref().map(|output| output.get()), Some("\"\""));
    let dead = RunFilter { states: vec![StateName::Dead], ..RunFilter::default() };
    let page =
        redrive_engine::PageCall { sort: redrive_core::wire::Sort::NewestFirst, limit: 9, cursor: None, count: true };
    assert_eq!(world.store.runs(&TenantScope::All, dead, page).await.unwrap().total, Some(1));
    // No newer attempt has begun: the worker's later success still counts, and the run recovers.
    let better = world.store.succeed(success(&under, "\"42\"")).await.unwrap();
    assert_eq!((better.state, better.late), (StateName::Recovered, true));
}

pub async fn retry_spend_of_a_tenant_is_summed_by_day(world: World) {
    let cap = Budgets { retry_tokens_per_tenant_day: Some(100), ..Budgets::default() };
    set(&world, "default", PolicyLayer { budget: Some(cap), max_attempts: Some(9), ..PolicyLayer::default() }).await;
    let failing = |run: &str, attempt, tokens| {
        let mut failed = FailedAttempt { attempt: Some(attempt), ..failed("Request timed out") };
        failed.failure.spent = Spend { tokens, cost: Usd::default() };
        NewFailure { run: new_run(run), failed }
    };
    let act = |report| async { world.store.report(report).await.unwrap().answer.verdict.action };
    assert_eq!(act(failing("a", 1, 1_000)).await, Action::Retry, "a first attempt is no retry");
    assert_eq!(act(failing("a", 2, 60)).await, Action::Retry);
    assert_eq!(act(failing("b", 1, 0)).await, Action::Retry);
    // The same report again is counted once.
    assert_eq!(act(failing("a", 2, 60)).await, Action::Retry);
    assert_eq!(act(failing("b", 2, 39)).await, Action::Retry);
    assert_eq!(act(failing("c", 1, 0)).await, Action::Retry);
    world.wait(600_000);
    let leased = world.store.lease(lease_call(9)).await.unwrap();
    let c = leased.iter().find(|run| run.run_id.as_str() == "b").unwrap();
    let done = success(&crate::world::under(c), "1");
    let mut observed = done.observed.clone();
    observed.spent.tokens = 1;
    world.store.succeed(Success { observed, ..done }).await.unwrap();
    assert_eq!(act(failing("d", 1, 0)).await, Action::DeadLetter, "60 + 39 + 1");
    world.wait(86_400_000);
    assert_eq!(act(failing("e", 1, 0)).await, Action::Retry, "a new day");
}
