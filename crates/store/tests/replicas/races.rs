//! Two replicas at once.

use std::collections::HashSet;
use std::sync::Arc;

use redrive_core::breaker::BreakerStateName;
use redrive_core::policy::{Limits, Policies, PolicyLayer, TenantPolicy};
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::wire::{BreakerAction, LeasedRun, QueueSettings};
use redrive_engine::{BreakerAct, Error, FailedAttempt, NewFailure, NewRun, Start, StartHow, Store};
use tokio::task::JoinSet;

use crate::world::{World, at, failed, lease_call, new_run, numbered, report, start, success, under};

const TIMED_OUT: &str = "Request timed out";

/// The same act by many at once, every other one at the other replica.
async fn at_once<T: Send + 'static, F>(
    stores: &[Arc<dyn Store>; 2],
    many: usize,
    act: impl Fn(Arc<dyn Store>, usize) -> F,
) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
{
    let mut all = JoinSet::new();
    for n in 0..many {
        all.spawn(act(stores[n % 2].clone(), n));
    }
    all.join_all().await
}

async fn enqueue(store: &Arc<dyn Store>, run: NewRun) {
    store.start(Start { run, how: StartHow::Enqueue { due_at: None }, ..start("r") }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_report_at_two_replicas_is_recorded_once() {
    let world = World::postgres().await;
    let stores = [world.store.clone(), world.beside().await];
    for round in 0..10 {
        let run = format!("r{round}");
        let answers = at_once(&stores, 32, |store, _| {
            let report = numbered(&run, TIMED_OUT, 1);
            async move { store.report(report).await.unwrap() }
        })
        .await;
        assert_eq!(answers.iter().filter(|reported| reported.fresh).count(), 1, "round {round}");
        assert!(answers.iter().all(|reported| reported.answer.verdict == answers[0].answer.verdict));
    }
    assert_eq!(world.show("r0").await.body.attempts.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_without_a_number_at_two_replicas_are_one_failure() {
    let world = World::postgres().await;
    let stores = [world.store.clone(), world.beside().await];
    let answers =
        at_once(&stores, 32, |store, _| async move { store.report(report("r", TIMED_OUT)).await.unwrap() }).await;
    assert_eq!(answers.iter().filter(|reported| reported.fresh).count(), 1);
    assert_eq!(world.show("r").await.summary.attempt, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pattern_is_new_once_over_all_replicas() {
    let world = World::postgres().await;
    let stores = [world.store.clone(), world.beside().await];
    let answers = at_once(&stores, 64, |store, n| {
        let report = report(&format!("r{n}"), "KeyError: 'invoice'");
        async move { store.report(report).await.unwrap().answer.pattern }
    })
    .await;
    assert_eq!(answers.iter().filter(|pattern| pattern.new).count(), 1);
    assert_eq!(answers.iter().map(|pattern| pattern.id.as_str()).collect::<HashSet<_>>().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_run_is_dealt_to_two_workers() {
    let world = World::postgres().await;
    let stores = [world.store.clone(), world.beside().await];
    for n in 0..200 {
        let tenant = format!("t{}", n % 7).parse().unwrap();
        enqueue(&stores[0], NewRun { tenant, ..new_run(&format!("r{n}")) }).await;
    }
    let dealt = at_once(&stores, 8, |store, _| async move {
        let mut mine: Vec<LeasedRun> = Vec::new();
        // What another is dealing is stepped over: empty-handed once is not yet the end.
        for _ in 0..20 {
            mine.extend(store.lease(lease_call(5)).await.unwrap());
        }
        mine
    })
    .await;
    let dealt: Vec<LeasedRun> = dealt.into_iter().flatten().collect();
    let leases: HashSet<_> = dealt.iter().map(|run| run.lease.clone()).collect();
    let runs: HashSet<_> = dealt.iter().map(|run| run.run_id.clone()).collect();
    assert_eq!((dealt.len(), runs.len(), leases.len()), (200, 200, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_keys_hold_across_replicas() {
    let world = World::postgres().await;
    let stores = [world.store.clone(), world.beside().await];
    for n in 0..20 {
        let order_key = Some("account-9".parse().unwrap());
        enqueue(&stores[0], NewRun { order_key, ..new_run(&format!("r{n:02}")) }).await;
    }
    for round in 0..10 {
        let mut dealt: Vec<LeasedRun> = Vec::new();
        while dealt.is_empty() {
            let given = at_once(&stores, 6, |store, _| async move { store.lease(lease_call(10)).await.unwrap() }).await;
            dealt.extend(given.into_iter().flatten());
        }
        assert_eq!(dealt.len(), 1, "round {round}");
        stores[round % 2].succeed(success(&under(&dealt[0]), "1")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_limits_hold_across_replicas() {
    const MOST: usize = 5;
    let limits = Some(Limits { max_running: Some(MOST as u64), leases_per_s: None });
    let limited = TenantPolicy { tier: None, policy: PolicyLayer { limits, ..PolicyLayer::default() } };
    let policies = Policies { tenants: [("acme".parse().unwrap(), limited)].into(), ..Policies::default() };
    let world = World::postgres_under(policies).await;
    let stores = [world.store.clone(), world.beside().await];
    for n in 0..120 {
        enqueue(&stores[0], new_run(&format!("r{n}"))).await;
    }
    for round in 0..20 {
        let mut under_way: Vec<LeasedRun> = Vec::new();
        // Who comes while the other deals this tenant's runs is given none of them.
        while under_way.len() < MOST {
            let given = at_once(&stores, 6, |store, _| async move { store.lease(lease_call(4)).await.unwrap() }).await;
            under_way.extend(given.into_iter().flatten());
        }
        assert_eq!(under_way.len(), MOST, "round {round}");
        for (n, given) in under_way.iter().enumerate() {
            stores[n % 2].succeed(success(&under(given), "1")).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_lets_one_through_over_all_replicas() {
    let world = World::postgres().await;
    let stores = [world.store.clone(), world.beside().await];
    for n in 0..20 {
        let run = NewRun { tenant: "acme".parse().unwrap(), ..new_run(&format!("broke{n}")) };
        let lease = stores[n % 2].start(Start { run, ..start("r") }).await.unwrap().answer.lease.unwrap();
        let under = redrive_engine::UnderLease { at: at("acme", &format!("broke{n}")), lease: lease.parse().unwrap() };
        stores[n % 2].fail(under, failed(TIMED_OUT)).await.unwrap();
    }
    let tenant = "acme".parse().unwrap();
    for store in &stores {
        assert_eq!(
            store.tenant_breaker(&tenant).await.unwrap().breakers[0].state,
            BreakerStateName::Open,
            "counted over both"
        );
    }
    for n in 0..50 {
        enqueue(&stores[n % 2], new_run(&format!("waits{n}"))).await;
    }
    for round in 0..3 {
        world.wait(40_000 << round);
        stores[round % 2].release_held(500).await.unwrap();
        let given = at_once(&stores, 16, |store, _| async move { store.lease(lease_call(10)).await.unwrap() }).await;
        let given: Vec<LeasedRun> = given.into_iter().flatten().collect();
        assert_eq!(given.len(), 1, "round {round}");
        stores[(round + 1) % 2].fail(under(&given[0]), failed(TIMED_OUT)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_freeze_at_one_replica_holds_at_the_other() {
    let world = World::postgres().await;
    let other = world.beside().await;
    enqueue(&world.store, new_run("r")).await;
    let act = BreakerAct {
        tenant: Some("acme".parse().unwrap()),
        environment: Label::from("production"),
        provider: None,
        model: None,
        action: BreakerAction::Open,
        until: None,
        actor: "key:ops".into(),
        reason: None,
    };
    world.store.operate_breaker(act).await.unwrap();
    assert!(other.lease(lease_call(10)).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn success_beats_rescue_whichever_replica_commits_first() {
    let world = World::postgres().await;
    let stores = [world.store.clone(), world.beside().await];
    for round in 0..20 {
        let run = format!("r{round}");
        let (_, under) = world.start(&run).await;
        world.wait(crate::world::LEASE_MS + 1);
        let (rescuer, store) = (stores[0].clone(), stores[1].clone());
        let (rescued, done) =
            tokio::join!(rescuer.rescue_expired(100), async { store.succeed(success(&under, "1")).await });
        rescued.unwrap();
        let done = done.unwrap();
        assert!(matches!(done.state, StateName::Succeeded | StateName::Recovered), "{done:?}");
        assert_eq!(world.state(&run).await, done.state);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_settings_reach_other_replicas_within_a_second() {
    let world = World::postgres().await;
    let other = world.beside().await;
    let send = |n: u32| {
        let failed = FailedAttempt { attempt: Some(n), ..failed(TIMED_OUT) };
        NewFailure { run: new_run("r"), failed }
    };
    assert_eq!(other.report(send(1)).await.unwrap().answer.state, StateName::Scheduled);
    let policy = redrive_core::policy::PolicyLayer { max_attempts: Some(2), ..Default::default() };
    let settings = QueueSettings { policy, ..QueueSettings::default() };
    world.store.put_queue("default".parse().unwrap(), settings).await.unwrap();
    world.wait(1_000);
    assert_eq!(other.report(send(2)).await.unwrap().answer.state, StateName::Dead);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_effect_at_two_replicas_begins_once() {
    use redrive_core::wire::StepStatus;
    let world = World::postgres().await;
    let stores = [world.store.clone(), world.beside().await];
    for round in 0..10 {
        let key = format!("charge-{round}");
        let leases = [world.start(&format!("a{round}")).await.1, world.start(&format!("b{round}")).await.1];
        let begun = at_once(&stores, 2, |store, n| {
            let (under, step) = (leases[n].clone(), crate::world::step(&key, true, StepStatus::Started));
            async move { store.step(under, step).await }
        })
        .await;
        assert_eq!(begun.iter().filter(|begun| begun.is_ok()).count(), 1, "{begun:?}");
        let refused = begun.iter().find_map(|begun| begun.as_ref().err()).unwrap();
        assert!(matches!(refused, Error::EffectInProgress { .. }), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_hears_of_runs_that_another_made_due() {
    let world = World::postgres().await;
    let other = world.beside().await;
    let mut heard = other.wakeups();
    // The first notice may only tell that the listener has come up.
    loop {
        heard.mark_unchanged();
        enqueue(&world.store, new_run(&format!("r{}", world.clock_ms()))).await;
        world.wait(1);
        if tokio::time::timeout(std::time::Duration::from_secs(1), heard.changed()).await.is_ok() {
            break;
        }
    }
}
