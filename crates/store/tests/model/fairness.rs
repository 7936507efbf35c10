//! L7: tenants with any backlog, a newcomer with ten runs, calls cut in any way. With one other tenant at work the ten
//! are all out within twenty leases after they fell due; with more of them, within their turns.

use redrive_core::ids::Tenant;
use redrive_engine::{NewRun, Start, StartHow};

use crate::lot::Lot;
use crate::world::{World, lease_call, new_run, start, success, under};

const TEN: usize = 10;
/// Runs that each of the others has waiting at any time.
const BACKLOG: usize = 60;

pub struct Fair {
    world: World,
    lot: Lot,
    /// Those with a backlog, and how much of it is left.
    others: Vec<(String, usize)>,
    runs: usize,
}

impl Fair {
    pub async fn new(lot: Lot) -> Self {
        println!("world {}", lot.seed);
        let others = (0..1 + lot.upto(3)).map(|n| (format!("big{n}"), 0)).collect();
        Self { world: crate::play::world().await, lot, others, runs: 0 }
    }

    async fn enqueue(&mut self, tenant: &str, queue: &str, in_ms: u64) {
        self.runs += 1;
        let due_at = Some(self.world.store.now().plus_ms(in_ms));
        let (tenant, queue): (Tenant, _) = (tenant.parse().unwrap(), queue.parse().unwrap());
        let run = NewRun { tenant, queue, ..new_run(&format!("r{}", self.runs)) };
        self.world.store.start(Start { run, how: StartHow::Enqueue { due_at }, ..start("r") }).await.unwrap();
    }

    async fn top_up(&mut self) {
        for n in 0..self.others.len() {
            let (tenant, left) = self.others[n].clone();
            for _ in left..BACKLOG {
                let queue = *self.lot.pick(&["default", "second"]);
                self.enqueue(&tenant, queue, 0).await;
            }
            self.others[n].1 = BACKLOG.max(left);
        }
    }

    /// One call of a random size; returns the tenants in the order of the answer.
    async fn lease(&mut self, most: usize) -> Vec<String> {
        let max = u32::try_from((1 + self.lot.upto(8)).min(most)).unwrap();
        let leased = self.world.store.lease(lease_call(max)).await.unwrap();
        for leased in &leased {
            if let Some(other) = self.others.iter_mut().find(|other| other.0 == leased.tenant.as_str()) {
                other.1 -= 1;
            }
            if self.lot.one_in(2) {
                self.world.store.succeed(success(&under(leased), "1")).await.unwrap();
            }
        }
        leased.into_iter().map(|leased| leased.tenant.to_string()).collect()
    }

    /// A new or returning tenant enqueues ten runs.
    pub async fn newcomer(&mut self) {
        self.top_up().await;
        let name = format!("small{}", self.lot.below(40));
        let in_ms = self.lot.below(2) * 5_000;
        for _ in 0..TEN {
            let queue = *self.lot.pick(&["default", "second"]);
            self.enqueue(&name, queue, in_ms).await;
        }
        if in_ms > 0 {
            let before = self.lease(5).await;
            assert!(!before.contains(&name), "not due yet");
            self.world.wait(in_ms);
        }
        let turns = TEN * (1 + self.others.len());
        let mut served = Vec::new();
        while served.len() < turns {
            served.extend(self.lease(turns - served.len()).await);
        }
        assert_eq!(served.iter().filter(|tenant| **tenant == name).count(), TEN, "{served:?}");
    }
}
