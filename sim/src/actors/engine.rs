//! The engine of one replica: the real services, a round at a time.

use std::rc::Rc;

use crate::settle::UNSTEADY;
use crate::world::World;

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
