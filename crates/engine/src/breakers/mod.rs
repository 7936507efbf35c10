//! Breakers: updated when an attempt ends, checked before one begins, written in the same commit. They are cached, so that
//! attempts cost no extra reads while all breakers are closed.

pub mod by_hand;
pub mod cache;
pub mod ended;
pub mod gate;
pub mod release;
pub mod stored;
pub mod views;

pub use by_hand::{BreakerAct, operate};
pub use cache::Breakers;
pub use gate::{GateDecision, Probes};
pub use release::release_held;
pub use stored::{CorruptBreaker, ReadBreakers, fold, trim_events};
pub use views::{breakers, tenant_breaker};
