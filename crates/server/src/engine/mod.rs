//! What time alone changes: background services of one shape, each a thin loop around one round.

mod changes;
mod events;
mod fold;
mod ledger;
mod operations;
mod release;
mod rescue;
mod reviews;
mod service;
mod stamp;
mod unclaimed;

pub use changes::TrimChanges;
pub use events::TrimEvents;
pub use fold::FoldFigures;
pub use ledger::TrimLedger;
pub use operations::Operations;
pub use release::Release;
pub use rescue::Rescue;
pub use reviews::Reviews;
pub use service::{Engine, Service};
pub use stamp::Stamp;
pub use unclaimed::Unclaimed;
