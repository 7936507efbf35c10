//! The ledger of steps and effects: recorded once, never repeated by us.

pub mod effects;
pub mod guarded;
pub mod step_room;
pub mod steps;
