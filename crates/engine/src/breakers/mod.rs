//! Breakers: counted with the end of each attempt, asked before each begin, kept in the same commit. What is known of
//! them stays in memory, so that while all are closed nobody reads anything.

pub mod by_hand;
pub mod cache;
pub mod ended;
pub mod gate;
pub mod release;
pub mod stored;
pub mod views;

pub use by_hand::operate;
pub use cache::Breakers;
pub use gate::{GateDecision, Probes};
pub use release::release_held;
pub use stored::{CorruptBreaker, ReadBreakers, fold, trim_events};
pub use views::{breakers, tenant_breaker};
