//! Deterministic simulation of the whole server from a seed: several replicas over one store, workers that stall and crash,
//! clients that resend, people who act at the wrong moment, calls cut off anywhere. The promises are checked after each
//! step; at the end faults stop, and everything must settle.

#![allow(unreachable_pub, reason = "a tool of its own: what its modules show, they show to each other")]

mod actors;
mod backend;
mod check;
mod facts;
mod faults;
mod net;
mod runs;
mod scheduler;
mod settle;
mod world;

pub use backend::Kind;

use std::rc::Rc;

use faults::Rates;
use scheduler::Scheduler;
use world::World;

/// Steps between two cheap checks.
const LOOK_EVERY: u64 = 24;

/// The parameters of a play.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    /// Calls of clients, and rounds of services.
    pub operations: u64,
    pub store: Kind,
    pub replicas: usize,
    pub workers: usize,
    pub producers: usize,
    pub people: usize,
    /// Requests and answers get lost, come late, come twice.
    pub net: bool,
    /// The way to the store fails.
    pub faults: bool,
    /// Replicas die; all die.
    pub chaos: bool,
    pub bulk: bool,
    pub skew: bool,
    /// How much of the play is kept to be read.
    pub trace_lines: usize,
}

impl Plan {
    pub fn new(seed: u64, operations: u64) -> Self {
        Self {
            seed,
            operations,
            store: Kind::Sqlite,
            replicas: 2,
            workers: 4,
            producers: 3,
            people: 2,
            net: true,
            faults: true,
            chaos: true,
            bulk: true,
            skew: true,
            trace_lines: 0,
        }
    }

    fn rates(&self) -> Rates {
        if self.faults { Rates { lost_before: 12, lost_after: 12, slow: 15 } } else { Rates::default() }
    }
}

/// The result of a play.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Of everything that happened.
    pub hash: u64,
    pub operations: u64,
    pub steps: u64,
    pub runs: usize,
    pub violation: Option<String>,
    pub trace: Vec<String>,
}

#[allow(clippy::expect_used, reason = "without a runtime there is no play")]
pub fn play(plan: Plan) -> Outcome {
    // Its clock stands still: what the product asks it for is the same in every play.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(1)
        .build()
        .expect("a runtime");
    let _inside = runtime.enter();
    let world = World::new(plan);
    let mut stage = Scheduler::new(world.time.clone(), world.chance.clone());
    enter_all(&world, &mut stage);
    while world.violation.borrow().is_none() && !stage.is_over() {
        stage.step();
        for play in world.later.take() {
            stage.enter(play);
        }
        if stage.steps.is_multiple_of(LOOK_EVERY) && !world.is_over() {
            check::some(&world);
        }
    }
    if world.violation.borrow().is_none() {
        settle::settle(&world);
    }
    if world.violation.borrow().is_none() {
        check::all(&world);
    }
    let outcome = Outcome {
        hash: world.hash.get(),
        operations: world.operations.get(),
        steps: stage.steps,
        runs: world.facts.borrow().runs.len(),
        violation: world.violation.borrow().clone(),
        trace: world.trace.borrow().iter().cloned().collect(),
    };
    drop(stage);
    world.later.take();
    if let Some(store) = world.shelf.put(None) {
        scheduler::alone(store.close());
    }
    outcome
}

fn enter_all(world: &Rc<World>, stage: &mut Scheduler) {
    let plan = world.plan;
    for n in 0..plan.replicas {
        stage.enter(Box::pin(actors::chaos::keep_going(world.clone(), n)));
    }
    for n in 0..plan.workers {
        stage.enter(Box::pin(actors::worker::work(world.clone(), n)));
    }
    for n in 0..plan.producers {
        stage.enter(Box::pin(actors::producer::produce(world.clone(), n)));
    }
    for n in 0..plan.people {
        stage.enter(Box::pin(actors::operator::operate(world.clone(), n)));
    }
    if plan.bulk {
        stage.enter(Box::pin(actors::operator::redrive(world.clone())));
    }
    if plan.chaos {
        stage.enter(Box::pin(actors::chaos::strike(world.clone())));
    }
}

/// The smallest plan found that breaks the same promise, with its play kept to be read.
pub fn shrink(plan: Plan, broken: &Outcome) -> (Plan, Outcome) {
    let promise = broken.violation.as_deref().and_then(|how| how.split(':').next()).unwrap_or_default().to_owned();
    let still = |plan: Plan| play(plan).violation.is_some_and(|how| how.starts_with(&promise));
    let mut best = plan;
    let without: [fn(Plan) -> Plan; 9] = [
        |plan| Plan { chaos: false, ..plan },
        |plan| Plan { bulk: false, ..plan },
        |plan| Plan { net: false, ..plan },
        |plan| Plan { faults: false, ..plan },
        |plan| Plan { skew: false, ..plan },
        |plan| Plan { people: 0, ..plan },
        |plan| Plan { workers: 1, ..plan },
        |plan| Plan { producers: 1, ..plan },
        |plan| Plan { replicas: 1, ..plan },
    ];
    for less in without {
        if still(less(best)) {
            best = less(best);
        }
    }
    for part in [8, 4, 2] {
        let shorter = Plan { operations: best.operations / part, ..best };
        if still(shorter) {
            best = shorter;
            break;
        }
    }
    (best, play(Plan { trace_lines: 100_000, ..best }))
}
