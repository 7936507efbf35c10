//! Background services: rescue, absences, clocks, unclaimed runs.

use redrive_core::reason::Reason;
use redrive_core::run::StateName;
use redrive_core::time::DAY_MS;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::StepStatus;
use redrive_engine::{Clock as _, Start, StartHow, TenantScope, UnderLease};

use crate::world::{LEASE_MS, World, at, start, step};

pub async fn run_with_an_expired_lease_fails_as_silent(world: World) {
    world.start("r1").await;
    world.wait(LEASE_MS);
    assert_eq!(world.store.rescue_expired(100).await.unwrap().moved, 1);
    let shown = world.show("r1").await;
    assert_eq!((shown.summary.state, shown.summary.reason), (StateName::Scheduled, Some(Reason::Silent)));
    assert_eq!(shown.summary.next_attempt_at.unwrap().since(world.store.now()), 30_000);
    assert_eq!(world.store.rescue_expired(100).await.unwrap().moved, 0);
}

pub async fn live_workers_do_not_hide_a_silent_one(world: World) {
    for n in 0..5 {
        let how = StartHow::Start { start_id: None, lease_ms: Some(10 * LEASE_MS) };
        world.store.start(Start { how, ..start(&format!("alive-{n}")) }).await.unwrap();
    }
    world.start("silent").await;
    world.wait(LEASE_MS);
    // A round that takes on fewer than are under way still finds it.
    assert_eq!(world.store.rescue_expired(2).await.unwrap().moved, 1);
    assert_eq!(world.state("silent").await, StateName::Scheduled);
}

pub async fn our_own_absence_extends_a_lease_once(world: World) {
    world.store.stamp("a").await.unwrap();
    world.start("r1").await;
    // No server stamps while the lease expires.
    world.wait(LEASE_MS + 10_000);
    world.store.stamp("a").await.unwrap();
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Running);
    world.wait(LEASE_MS);
    world.store.stamp("a").await.unwrap();
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Scheduled, "once per lease");
}

pub async fn rescue_records_our_absence_itself(world: World) {
    world.store.stamp("a").await.unwrap();
    let (_, plain) = world.start("plain").await;
    let (_, with_effect) = world.start("effect").await;
    world.store.step(with_effect.clone(), step("charge", true, StepStatus::Started)).await.unwrap();
    world.wait(LEASE_MS + 6_000);
    // After a freeze any service may run first: here it is rescue, before any stamp.
    assert_eq!(world.store.rescue_expired(100).await.unwrap().looked_at, 2);
    for run in ["plain", "effect"] {
        assert_eq!(world.state(run).await, StateName::Running);
    }
    world.store.heartbeat(plain).await.unwrap();
    world.wait(LEASE_MS - 1);
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("effect").await, StateName::Running);
    world.wait(1);
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.show("effect").await.summary.dead_because, Some(DeadBecause::Unsafe), "once per lease");
}

pub async fn a_lease_that_ends_just_after_our_return_is_extended(world: World) {
    world.store.stamp("a").await.unwrap();
    world.start("r1").await;
    world.wait(LEASE_MS - 1_000);
    world.store.stamp("a").await.unwrap();
    // Its worker could not send heartbeats for a minute, and has had one second to reconnect.
    world.wait(1_000);
    world.store.stamp("a").await.unwrap();
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Running);
}

pub async fn two_absences_in_a_row_are_both_remembered(world: World) {
    world.store.stamp("a").await.unwrap();
    world.start("r1").await;
    world.wait(LEASE_MS + 1_000);
    world.store.stamp("a").await.unwrap();
    world.wait(10_000);
    world.store.stamp("a").await.unwrap();
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Running);
}

pub async fn absence_does_not_count_as_idle_time(world: World) {
    world.store.stamp("a").await.unwrap();
    let how = StartHow::Start { start_id: None, lease_ms: Some(10 * LEASE_MS) };
    world.store.start(Start { idle_ms: Some(5_000), how, ..start("idle") }).await.unwrap();
    world.wait(20_000);
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("idle").await, StateName::Running);
    for _ in 0..2 {
        world.wait(2_500);
        world.store.stamp("a").await.unwrap();
    }
    world.store.rescue_expired(100).await.unwrap();
    let verdict = world.show("idle").await.body.verdict.map(|verdict| verdict.rule);
    assert_eq!(verdict.as_deref(), Some("builtin.idle"));
}

pub async fn an_idle_attempt_and_a_passed_deadline_are_timeouts(world: World) {
    world.store.start(Start { idle_ms: Some(5_000), ..start("idle") }).await.unwrap();
    world.store.start(Start { deadline_ms: Some(8_000), ..start("late") }).await.unwrap();
    world.wait(5_000);
    world.store.rescue_expired(100).await.unwrap();
    let rule = |shown: redrive_core::wire::RunDetail| shown.body.verdict.map(|v| (v.reason, v.rule));
    assert_eq!(rule(world.show("idle").await), Some((Reason::Timeout, "builtin.idle".into())));
    assert_eq!(world.state("late").await, StateName::Running);
    world.wait(3_000);
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(rule(world.show("late").await), Some((Reason::Timeout, "builtin.deadline".into())));
}

pub async fn run_that_no_worker_begins_is_rejected(world: World) {
    world.enqueue("acme", "r1").await;
    world.wait(DAY_MS - 1);
    assert_eq!(world.store.reject_unclaimed(100).await.unwrap().moved, 0);
    world.wait(1);
    assert_eq!(world.store.reject_unclaimed(100).await.unwrap().moved, 1);
    let summary = world.show("r1").await.summary;
    assert_eq!((summary.state, summary.dead_because), (StateName::Dead, Some(DeadBecause::Rejected)));
    assert_eq!(summary.reason, Some(Reason::Unclaimed));
}

pub async fn downtime_leaves_nothing_unclaimed(world: World) {
    world.enqueue("acme", "r1").await;
    world.wait(DAY_MS - 6_000);
    world.store.stamp("a").await.unwrap();
    for _ in 0..2 {
        world.wait(DAY_MS + 3_600_000);
        assert_eq!(world.store.reject_unclaimed(100).await.unwrap().moved, 0);
    }
    world.wait(3_000);
    assert_eq!(world.store.reject_unclaimed(100).await.unwrap().moved, 0);
    world.store.stamp("a").await.unwrap();
    world.wait(3_000);
    assert_eq!(world.store.reject_unclaimed(100).await.unwrap().moved, 1);
    assert_eq!(world.show("r1").await.summary.reason, Some(Reason::Unclaimed));
}

pub async fn three_silences_in_a_row_are_poison(world: World) {
    world.enqueue("acme", "r1").await;
    for _ in 0..3 {
        world.lease_one().await;
        world.wait(LEASE_MS);
        world.store.rescue_expired(100).await.unwrap();
        world.wait(30_000);
    }
    assert_eq!(world.show("r1").await.summary.dead_because, Some(DeadBecause::Poison));
}

pub async fn a_ledger_entry_is_kept_as_long_as_its_run(world: World) {
    let (_, under) = world.start("r1").await;
    world.store.step(under, step("charge", true, StepStatus::Committed)).await.unwrap();
    world.wait(400 * DAY_MS);
    assert_eq!(world.store.trim_ledger(100).await.unwrap().moved, 0);
    assert_eq!(world.show("r1").await.body.steps.len(), 1);
}

/// On SQLite, where the server's clock is the store's.
pub async fn a_clock_set_back_stops_neither_expiry_nor_retries(world: World) {
    for back_ms in [3_600_000, DAY_MS] {
        let (silent, retried) = (format!("silent{back_ms}"), format!("retried{back_ms}"));
        world.start(&silent).await;
        world.fail(&retried, "Request timed out").await;
        let before = world.store.now();
        world.clock.jump_ms(-back_ms.cast_signed());
        world.wait(LEASE_MS * 2);
        assert!(world.store.now() >= before.plus_ms(LEASE_MS));
        world.store.rescue_expired(100).await.unwrap();
        assert_eq!(world.state(&silent).await, StateName::Scheduled);
        assert!(world.lease(10).await.iter().any(|leased| leased.run_id.as_str() == retried));
        let health = world.store.health(&TenantScope::All).await.unwrap();
        assert_eq!(health.status, "attention");
        assert_eq!(health.clock.unwrap().by_ms, -back_ms.cast_signed() + 12_000, "a tenth of the time waited");
        // The clock is correct again; the store follows once that is certain.
        world.clock.jump_ms(back_ms.cast_signed());
        assert!(world.store.now() < world.clock.now());
        world.wait(3_600_000);
        assert_eq!(world.store.now(), world.clock.now());
        assert_eq!(world.store.health(&TenantScope::All).await.unwrap().clock, None);
    }
}

/// A server that once ran a day ahead continues from there.
pub async fn restart_with_an_earlier_clock_continues(world: World) {
    world.clock.jump_ms(DAY_MS.cast_signed());
    let world = world.restarted().await;
    world.store.stamp("a").await.unwrap();
    world.start("r1").await;
    let before = world.store.now();
    world.clock.jump_ms(-DAY_MS.cast_signed());
    let world = world.restarted().await;
    assert_eq!(world.store.now(), before);
    for _ in 0..50 {
        world.wait(2_000);
        world.store.stamp("a").await.unwrap();
        world.store.rescue_expired(100).await.unwrap();
    }
    assert_eq!(world.show("r1").await.summary.reason, Some(Reason::Silent));
    assert_eq!(world.store.health(&TenantScope::All).await.unwrap().clock.unwrap().by_ms, -DAY_MS.cast_signed());
}

pub async fn a_clock_set_forward_ends_no_live_attempt(world: World) {
    for forward_ms in [3_600_000, DAY_MS] {
        let run = format!("r{forward_ms}");
        world.store.stamp("a").await.unwrap();
        world.start(&run).await;
        world.enqueue("acme", &format!("waits{forward_ms}")).await;
        world.clock.jump_ms(forward_ms.cast_signed());
        world.store.reject_unclaimed(100).await.unwrap();
        world.store.rescue_expired(100).await.unwrap();
        assert_eq!(world.state(&run).await, StateName::Running);
        assert_eq!(world.state(&format!("waits{forward_ms}")).await, StateName::Scheduled);
    }
}

/// The server stamps for this long, and a worker sends heartbeats.
async fn attended(world: &World, ms: u64, beats: Option<&UnderLease>) {
    for _ in 0..ms / 2_000 {
        world.wait(2_000);
        world.store.stamp("a").await.unwrap();
        if let Some(under) = beats {
            world.store.heartbeat(under.clone()).await.unwrap();
        }
    }
    world.wait(ms % 2_000);
}

pub async fn heartbeat_allows_another_absence_extension(world: World) {
    world.store.stamp("a").await.unwrap();
    let (_, under) = world.start("r1").await;
    for _ in 0..4 {
        world.wait(LEASE_MS + 10_000);
        // Rescue runs before the first heartbeat.
        world.store.rescue_expired(100).await.unwrap();
        assert_eq!(world.state("r1").await, StateName::Running);
        world.store.heartbeat(under.clone()).await.unwrap();
        attended(&world, 8_000, Some(&under)).await;
    }
    world.wait(LEASE_MS + 10_000);
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Running);
    // Without a heartbeat there is no other, whether we are there or not.
    world.wait(LEASE_MS);
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.show("r1").await.summary.reason, Some(Reason::Silent));
}

pub async fn a_deadline_does_not_count_our_absence(world: World) {
    world.store.stamp("a").await.unwrap();
    let begun = world.store.start(Start { deadline_ms: Some(20_000), ..start("r1") }).await.unwrap().answer;
    let under = UnderLease { at: at("acme", "r1"), lease: begun.lease.unwrap().parse().unwrap() };
    // The first absence ends before the deadline, the second after it; the deadline is then looked at twice.
    attended(&world, 4_000, Some(&under)).await;
    for (away_ms, there_ms) in [(6_000, 6_000), (DAY_MS, 4_000), (3_600_000, 4_000)] {
        world.wait(away_ms);
        world.store.rescue_expired(100).await.unwrap();
        assert_eq!(world.state("r1").await, StateName::Running);
        world.store.heartbeat(under.clone()).await.unwrap();
        attended(&world, there_ms, Some(&under)).await;
    }
    attended(&world, 1_999, None).await;
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Running);
    world.wait(1);
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.show("r1").await.body.verdict.unwrap().rule, "builtin.deadline");
}

async fn enqueue_due_in(world: &World, run: &str, ms: u64) {
    let how = StartHow::Enqueue { due_at: Some(world.clock.now().plus_ms(ms)) };
    world.store.start(Start { how, ..start(run) }).await.unwrap();
}

/// On SQLite: a clock that is set forward by mistake changes nothing that is due, and is right again at once.
pub async fn clock_set_forward_and_back_expires_nothing(world: World) {
    world.store.stamp("a").await.unwrap();
    enqueue_due_in(&world, "hour", 3_600_000).await;
    world.clock.jump_ms(DAY_MS.cast_signed());
    for _ in 0..50 {
        world.wait(2_000);
        world.store.stamp("a").await.unwrap();
        assert!(world.lease(10).await.is_empty());
    }
    let health = world.store.health(&TenantScope::All).await.unwrap();
    let jump = health.clock.unwrap();
    assert_eq!((health.status.as_str(), jump.by_ms, jump.ahead_ms), ("attention", DAY_MS.cast_signed(), 0));
    world.clock.jump_ms(-DAY_MS.cast_signed());
    assert_eq!(world.store.now(), world.clock.now());
    enqueue_due_in(&world, "another", 3_600_000).await;
    assert!(world.lease(10).await.is_empty());
    let world = world.restarted().await;
    assert_eq!(world.store.now(), world.clock.now());
    world.wait(3_600_000);
    assert_eq!(world.lease(10).await.len(), 2);
}

/// On SQLite: the new time is believed after ten minutes, and the step counts as an absence.
pub async fn a_clock_that_stays_forward_is_followed(world: World) {
    world.store.stamp("a").await.unwrap();
    let begun = world.store.start(Start { deadline_ms: Some(900_000), ..start("r1") }).await.unwrap().answer;
    let under = UnderLease { at: at("acme", "r1"), lease: begun.lease.unwrap().parse().unwrap() };
    enqueue_due_in(&world, "hour", 3_600_000).await;
    world.clock.jump_ms(DAY_MS.cast_signed());
    attended(&world, 10 * 60_000, Some(&under)).await;
    assert!(world.store.now() < world.clock.now());
    attended(&world, 4_000, None).await;
    assert_eq!(world.store.now(), world.clock.now());
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Running);
    attended(&world, 250_000, Some(&under)).await;
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Running, "its deadline has not passed");
    assert_eq!(world.lease(10).await.len(), 1, "it is due by the new time");
}

/// On SQLite: a server that starts with a clock that was set forward goes by it, and ends nothing for it.
pub async fn a_restart_with_a_later_clock_ends_nothing(world: World) {
    world.store.stamp("a").await.unwrap();
    let (_, under) = world.start("r1").await;
    world.clock.jump_ms(DAY_MS.cast_signed());
    let world = world.restarted().await;
    assert_eq!(world.store.now(), world.clock.now());
    world.store.rescue_expired(100).await.unwrap();
    world.store.heartbeat(under).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Running);
}

pub async fn a_step_moves_the_idle_limit(world: World) {
    let begun = world.store.start(Start { idle_ms: Some(5_000), ..start("r1") }).await.unwrap().answer;
    let under = UnderLease { at: at("acme", "r1"), lease: begun.lease.unwrap().parse().unwrap() };
    world.wait(4_000);
    world.store.step(under.clone(), step("load", false, StepStatus::Committed)).await.unwrap();
    world.wait(4_999);
    // A heartbeat is a sign of life and no progress.
    world.store.heartbeat(under).await.unwrap();
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Running);
    world.wait(1);
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.show("r1").await.body.verdict.unwrap().rule, "builtin.idle");
}
