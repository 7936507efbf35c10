//! Replicas: one actor runs their background services a round at a time, another kills and restarts them.

use std::rc::Rc;
use std::sync::Arc;

use redrive_core::reason::Reason;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;

use crate::check::run_detail;
use crate::facts::{DEADLINE_MS, Key};
use crate::scheduler::alone;
use crate::settle::UNSTEADY;
use crate::world::{MAYBE_ABSENT_MS, UNCLAIMED_AFTER_MS, World};

pub async fn strike(world: Rc<World>) {
    while !world.is_over() {
        world.time.sleep(20_000 + world.chance.below(120_000)).await;
        match world.chance.below(8) {
            0..=3 => one_dies(&world),
            4 => freeze(&world),
            5 => set_the_clock(&world),
            _ => all_die(&world).await,
        }
    }
}

fn one_dies(world: &World) {
    let n = world.chance.upto(world.plan.replicas);
    world.say(&format!("replica-{n} is another"));
    let fresh = world.replica(n);
    if let Some(replica) = world.replicas.borrow_mut().get_mut(n) {
        *replica = fresh;
    }
}

/// A freeze: everything stops for longer than a lease, then continues.
fn freeze(world: &Rc<World>) {
    let last_seen = world.now();
    let frozen = 5_000 + world.chance.below(120_000);
    world.time.clock.advance_ms(frozen);
    world.say(&format!("frozen for {frozen} ms"));
    spends_no_attempt(world, last_seen);
}

/// By an hour or a day, forward and back; where it was off before, sometimes to what it should be.
fn set_the_clock(world: &Rc<World>) {
    let last_seen = world.now();
    let off = world.time.clock.set_by_ms();
    let by = match world.chance.below(5) {
        0 => 3_600_000,
        1 => 86_400_000,
        2 => -3_600_000,
        3 => -86_400_000,
        _ => -off,
    };
    world.time.clock.jump_ms(by);
    world.say(&format!("the clock is set by {by} ms"));
    if world.now() < last_seen {
        world.broken("L5", format_args!("time went back from {last_seen}"));
    }
    let before = world.now();
    world.time.clock.advance_ms(2_000);
    if world.now() < before.plus_ms(1_000) {
        world.broken("L5", format_args!("time stands still at {before}"));
    }
    spends_no_attempt(world, last_seen);
}

/// All replicas are down: no stamps, no answers, and calls in flight are cut off.
async fn all_die(world: &Rc<World>) {
    world.say("all die");
    world.replicas.borrow_mut().clear();
    world.generation.set(world.generation.get() + 1);
    let last_seen = world.now();
    let Some(store) = world.shelf.put(None) else { return };
    while Arc::strong_count(&store) > 1 {
        world.time.sleep(1).await;
    }
    alone(store.close());
    drop(store);
    let away = match world.chance.below(12) {
        0 => 25 * 3_600_000,
        1 => 2 * 3_600_000,
        2..=7 => world.chance.below(120_000),
        _ => world.chance.below(8_000),
    };
    // Clients would only knock: of a long absence they see the end.
    if away > 8_000 {
        world.time.clock.advance_ms(away);
    } else {
        world.time.sleep(away).await;
    }
    world.reopen();
    world.say(&format!("back after {away} ms"));
    for n in 0..world.plan.replicas {
        let replica = world.replica(n);
        world.replicas.borrow_mut().push(replica);
    }
    spends_no_attempt(world, last_seen);
}

/// Leases that ran out while nobody was there to take a heartbeat, as far as anybody knows.
fn owed_time(world: &World, last_seen: Timestamp) -> Vec<(Key, u64)> {
    let now = world.now();
    let facts = world.facts.borrow();
    let mut owed = Vec::new();
    for (key, run) in &facts.runs {
        let Some((epoch, grant)) = run.grants.last_key_value() else { continue };
        let ran_out_then = grant.expires_at >= last_seen && grant.expires_at <= now;
        let in_time = now < grant.granted_at.plus_ms(DEADLINE_MS);
        if ran_out_then && in_time && !grant.end_asked {
            owed.push((key.clone(), *epoch));
        }
    }
    owed
}

/// L6: our own absence spends no attempt, whichever service looks first; and time without a server is no waiting time.
fn spends_no_attempt(world: &Rc<World>, last_seen: Timestamp) {
    let Some(store) = world.store() else { return };
    if world.now().since(last_seen) <= MAYBE_ABSENT_MS {
        return;
    }
    let owed = owed_time(world, last_seen);
    let before: Vec<_> = owed.iter().map(|(key, _)| run_detail(world, key)).collect();
    let waiting = waiting(world, last_seen);
    if world.chance.happens(500) {
        let _ = alone(store.stamp("replica-0"));
    }
    let _ = alone(store.rescue_expired(500));
    let _ = alone(store.reject_unclaimed(500));
    for ((key, epoch), before) in owed.iter().zip(before) {
        let (Some(before), Some(after)) = (before, run_detail(world, key)) else { continue };
        let was_ours = before.summary.state == StateName::Running && running(&before, *epoch, world, key);
        if was_ours && after.summary.state != StateName::Running {
            world.broken("L6", format_args!("{key:?}: our own absence ended its lease {epoch}"));
        }
    }
    for key in waiting {
        let reason = run_detail(world, &key).and_then(|detail| detail.summary.reason);
        if reason == Some(Reason::Unclaimed) {
            world.broken("L3", format_args!("{key:?}: nobody could begin it in our absence"));
        }
    }
    world.stamped(world.now());
}

/// Runs that had not waited for long when somebody was last there.
fn waiting(world: &World, last_seen: Timestamp) -> Vec<Key> {
    let keys: Vec<Key> = world.facts.borrow().runs.keys().cloned().collect();
    let waits = |key: &Key| {
        let due = run_detail(world, key).and_then(|detail| detail.summary.next_attempt_at);
        due.is_some_and(|due| due.plus_ms(UNCLAIMED_AFTER_MS) > last_seen)
    };
    keys.into_iter().filter(waits).collect()
}

/// Whether the attempt under way is the one that this lease began, and was not extended before.
fn running(detail: &redrive_core::wire::RunDetail, epoch: u64, world: &World, key: &Key) -> bool {
    let facts = world.facts.borrow();
    let Some(grant) = facts.runs.get(key).and_then(|run| run.grants.get(&epoch)) else { return false };
    let under_way = detail.body.attempts.iter().find(|attempt| attempt.outcome == "running");
    let began = under_way.and_then(|attempt| attempt.began_at);
    // An extension is made good once per lease; one that was made before shows in no answer.
    began == Some(grant.granted_at) && !world.absent_since(grant.granted_at)
}

/// A little under the time after which nobody counts as being there.
const STAMP_EVERY_MS: u64 = 2_500;

pub async fn keep_going(world: Rc<World>, n: usize) {
    while !world.is_over() {
        let replica = world.replicas.borrow().get(n).cloned();
        if let Some(replica) = replica {
            let generation = world.generation.get();
            // The stamp and one or another, in any order: those that have most to do the most often.
            let often = world.chance.happens(700);
            let other = if often { world.chance.upto(3) } else { world.chance.upto(replica.services.len() - 1) };
            let order = if world.chance.happens(500) { [0, 1 + other] } else { [1 + other, 0] };
            for service in order {
                if world.generation.get() != generation {
                    break;
                }
                let service = &replica.services[service];
                world.count();
                let sent_at = world.now();
                let said = service.run_once().await;
                if service.name() == "stamp" && said.is_ok() {
                    world.stamped(sent_at);
                }
                let said = said.map_or_else(|e| e.to_string(), |swept| format!("{}/{}", swept.moved, swept.looked_at));
                let said = if service.name() == UNSTEADY { "done" } else { said.as_str() };
                world.say(&format!("{:<10} {} -> {said}", replica.name, service.name()));
            }
        }
        world.time.sleep(world.chance.below(STAMP_EVERY_MS)).await;
    }
}
