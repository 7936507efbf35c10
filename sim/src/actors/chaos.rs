//! What happens to machines: a replica dies and another comes up; all die, and time goes by before one is back.

use std::rc::Rc;
use std::sync::Arc;

use redrive_core::run::StateName;

use crate::check::run_detail;
use crate::facts::Key;
use crate::grants::DEADLINE_MS;
use crate::stage::alone;
use crate::world::World;

pub async fn strike(world: Rc<World>) {
    while !world.is_over() {
        world.time.sleep(20_000 + world.chance.below(120_000)).await;
        match world.chance.below(6) {
            0..=3 => one_dies(&world),
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

/// Nobody stamps, nobody answers. What was on its way is cut off wherever it was.
async fn all_die(world: &Rc<World>) {
    world.say("all die");
    world.replicas.borrow_mut().clear();
    world.generation.set(world.generation.get() + 1);
    let Some(store) = world.shelf.put(None) else { return };
    let last_seen = world.now();
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
    let owed = owed_time(world, last_seen);
    for n in 0..world.plan.replicas {
        let replica = world.replica(n);
        world.replicas.borrow_mut().push(replica);
    }
    spends_no_attempt(world, &owed);
}

/// Leases that ran out while nobody was there to take a heartbeat, as far as anybody knows.
fn owed_time(world: &World, last_seen: redrive_core::time::Timestamp) -> Vec<(Key, u64)> {
    let now = world.now();
    let facts = world.facts.borrow();
    let mut owed = Vec::new();
    if now.since(last_seen) <= 3_000 {
        return owed;
    }
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

/// L6: our own restart spends no attempt. The first look for silence comes after the first stamp, as at every start.
fn spends_no_attempt(world: &Rc<World>, owed: &[(Key, u64)]) {
    let Some(store) = world.store() else { return };
    let before: Vec<_> = owed.iter().map(|(key, _)| run_detail(world, key)).collect();
    let _ = alone(store.stamp("replica-0"));
    let _ = alone(store.rescue_expired(500));
    for ((key, epoch), before) in owed.iter().zip(before) {
        let (Some(before), Some(after)) = (before, run_detail(world, key)) else { continue };
        let was_ours = before.summary.state == StateName::Running && running(&before, *epoch, world, key);
        if was_ours && after.summary.state != StateName::Running {
            world.broken("L6", format_args!("{key:?}: our own absence ended its lease {epoch}"));
        }
    }
    world.stamped(world.now());
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
