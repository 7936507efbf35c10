//! A failing seed with as little around it as still fails.

use crate::{Outcome, Plan, play};

/// The smallest plan that breaks the same promise, with its play kept to be read.
pub fn shrink(plan: Plan, broken: &Outcome) -> (Plan, Outcome) {
    let promise = broken.violation.as_deref().and_then(|how| how.split(':').next()).unwrap_or_default().to_owned();
    let still = |plan: Plan| {
        let outcome = play(plan);
        outcome.violation.as_deref().is_some_and(|how| how.starts_with(&promise)).then_some(outcome)
    };
    let mut best = Plan { operations: broken.operations.min(plan.operations), ..plan };
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
        // Another play of the same seed: what matters may come later in it.
        let tried = Plan { operations: plan.operations, ..less(best) };
        if let Some(outcome) = still(tried) {
            best = Plan { operations: outcome.operations.min(plan.operations), ..tried };
        }
    }
    let told = Plan { trace_lines: 100_000, ..best };
    (best, play(told))
}
