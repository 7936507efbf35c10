//! A failing seed with as little around it as still fails.

use crate::{Outcome, Plan, play};

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
