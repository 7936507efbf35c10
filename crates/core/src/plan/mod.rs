//! What a replay would do, before anybody does it: which steps are skipped, what is in doubt, who has to agree. The hash
//! binds an approval to exactly this.

mod hash;
mod made;
mod warnings;

pub use made::{
    GoesTo, NoSuchStep, OpenBreaker, Permit, Plan, Proposed, Situation, StepFact, fixed, permit, plan, replay_rules,
};

#[cfg(test)]
mod tests;
