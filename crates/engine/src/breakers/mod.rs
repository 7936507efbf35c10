//! Breakers: counted with the end of each attempt, asked before each begin, kept in the same commit. What is known of
//! them stays in memory, so that while all are closed nobody reads anything.

mod by_hand;
mod ended;
mod gate;
mod kept;
mod known;
mod release;
mod views;

pub use by_hand::operate;
pub use gate::{Gate, Probes};
pub use kept::{CorruptBreaker, ReadBreakers, fold, trim_events};
pub use known::Breakers;
pub use release::release_held;
pub use views::{breakers, tenant_breaker};
