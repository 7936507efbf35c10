//! The ledger of steps and effects: recorded once, never repeated by us.

pub mod effects;
pub mod output_budget;
pub mod record;
pub mod steps;
