//! Breakers opened by hand, replays past them, their history; and tenant limits.

use redrive_core::breaker::BreakerStateName;
use redrive_core::text::Text;
use redrive_core::verdict::Action;
use redrive_core::wire::{BreakerAction, LeasedRun, WarningCode};
use redrive_engine::{LeaseCall, Replay, TenantScope, Triage};

use crate::breakers::{OWN, TIMED_OUT, broken, by_hand, enqueue, failures, of};
use crate::world::{World, at, failed, lease_call, success, under};

pub async fn freeze_holds_replays_and_expires(world: World) {
    let (_, dies) = world.start("dies").await;
    world.store.fail(dies, failed("KeyError: 'x'")).await.unwrap();
    let until = world.store.now().plus_ms(60_000);
    let view = by_hand(&world, BreakerAction::Open, Some(until)).await;
    assert_eq!((view.state, view.by_hand, view.until), (BreakerStateName::Open, true, Some(until)));
    assert_eq!((view.opened_by.as_deref(), view.reason), (Some("key:ops"), Some(Text::from("maintenance"))));
    let plan = world.store.plan(&at("acme", "dies"), Replay::default()).await.unwrap();
    assert_eq!(plan.held_by.unwrap().as_str(), OWN);
    world.triage("dies", Triage::Replay(Box::default())).await.unwrap();
    assert!(world.lease(10).await.is_empty());
    assert_eq!(world.show("dies").await.summary.held_by.unwrap().as_str(), OWN);
    world.wait(59_000);
    world.store.release_held(10).await.unwrap();
    assert!(world.lease(10).await.is_empty());
    world.wait(2_000);
    world.store.release_held(10).await.unwrap();
    world.wait(100);
    let given = world.lease(10).await;
    assert!(given.len() == 1 && given[0].replay, "it comes back as the replay that it was");
    let told = world.store.tenant_breaker(&"acme".parse().unwrap()).await.unwrap().history;
    let told: Vec<(&str, &str)> = told.iter().map(|entry| (entry.actor.as_str(), entry.event.as_str())).collect();
    assert_eq!(told, [("engine", "closed"), ("key:ops", "opened")]);
}

pub async fn a_replay_passes_an_open_breaker_and_the_plan_warns(world: World) {
    let (_, dies) = world.start("dies").await;
    world.store.fail(dies, failed("KeyError: 'x'")).await.unwrap();
    broken(&world).await;
    let plan = world.store.plan(&at("acme", "dies"), Replay::default()).await.unwrap();
    assert_eq!((plan.held_by, plan.warnings.last().unwrap().code), (None, WarningCode::BreakerOpen));
    world.triage("dies", Triage::Replay(Box::default())).await.unwrap();
    let given = world.lease(100).await;
    assert_eq!(given.len(), 1);
    // Its own retries are automation's again.
    let answer = world.store.fail(under(&given[0]), failed(TIMED_OUT)).await.unwrap();
    assert_eq!(answer.verdict.action, Action::Hold);
}

pub async fn failures_outside_the_window_are_not_shown(world: World) {
    failures(&world, 3, |n| of("acme", &format!("r{n}"))).await;
    let told = async || world.store.breakers(&TenantScope::All).await.unwrap().breakers.pop().map(|it| it.failed);
    world.wait(4 * 60_000);
    assert_eq!(told().await, Some(Some(3)));
    world.wait(60_000);
    assert_eq!(told().await, None);
}

pub async fn breaker_history_is_kept_for_a_season(world: World) {
    broken(&world).await;
    by_hand(&world, BreakerAction::Reset, None).await;
    let told = async |world: &World| world.store.tenant_breaker(&"acme".parse().unwrap()).await.unwrap().history.len();
    world.wait(89 * 24 * 3_600_000);
    assert_eq!(world.store.trim_events(1).await.unwrap().moved, 0);
    assert_eq!(told(&world).await, 2);
    by_hand(&world, BreakerAction::Open, None).await;
    world.wait(2 * 24 * 3_600_000);
    let first = world.store.trim_events(1).await.unwrap();
    assert_eq!((first.moved, first.more), (1, true));
    while world.store.trim_events(1).await.unwrap().more {}
    assert_eq!(told(&world).await, 1, "the newest stays");
}

pub async fn a_tenant_at_its_limit_is_passed_over(world: World) {
    for n in 0..20 {
        enqueue(&world, of("limited", &format!("l{n}"))).await;
        enqueue(&world, of("acme", &format!("a{n}"))).await;
    }
    let of_limited = |given: &[LeasedRun]| given.iter().filter(|leased| leased.tenant.as_str() == "limited").count();
    let first = world.lease(10).await;
    assert_eq!((first.len(), of_limited(&first)), (10, 2), "two a second");
    assert_eq!(of_limited(&world.lease(4).await), 0);
    world.wait(1_000);
    assert_eq!(of_limited(&world.lease(100).await), 1, "three at once");
    world.wait(5_000);
    let only = LeaseCall { scope: TenantScope::One("limited".parse().unwrap()), ..lease_call(10) };
    assert!(world.store.lease(only.clone()).await.unwrap().is_empty());
    let mine = first.iter().find(|leased| leased.tenant.as_str() == "limited").unwrap();
    world.store.succeed(success(&under(mine), "\"ok\"")).await.unwrap();
    assert_eq!(world.store.lease(only).await.unwrap().len(), 1);
    let health = world.store.tenant_health(&"limited".parse().unwrap()).await.unwrap();
    assert_eq!((health.held, health.pending_retries), (0, 16), "they stay due");
    let limits = health.limits.unwrap();
    assert_eq!((limits.running, limits.max_running, limits.leases_per_s), (3, Some(3), Some(2.0)));
}

pub async fn other_tenants_running_attempts_do_not_count(world: World) {
    for n in 0..5 {
        world.start(&format!("r{n}")).await;
        world.enqueue("limited", &format!("r{n}")).await;
    }
    let only = LeaseCall { scope: TenantScope::One("limited".parse().unwrap()), ..lease_call(10) };
    let mut given = 0;
    for _ in 0..3 {
        given += world.store.lease(only.clone()).await.unwrap().len();
        world.wait(1_000);
    }
    assert_eq!(given, 3, "three of its own at once, whatever others have under way");
}
