//! The ledger of steps and effects.

pub mod effects;
pub mod output_budget;
pub mod record;
pub mod steps;
