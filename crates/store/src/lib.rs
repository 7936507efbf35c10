//! Where runs are kept: one trait in domain verbs, with SQLite and PostgreSQL behind it. Every rule is asked of `redrive_core`;
//! here is only how it becomes durable.

mod breaker_model;
mod clock;
mod codec;
mod commands;
mod error;
mod kept;
mod lease_model;
mod model;
mod operation_model;
mod pattern_model;
mod standing_model;
mod store;
mod triage_model;
mod turns;
mod writers;

pub mod copy;
pub mod postgres;
pub mod sqlite;

pub use breaker_model::BreakerAct;
pub use clock::{Clock, Dice, ManualClock, SeededDice, SteadyClock, SystemClock, SystemDice};
pub use codec::{CodecError, decode, encode};
pub use commands::tenant_names::{TENANT_QUEUES_MAX, TENANT_REASONS_MAX};
pub use error::{Error, Result};
pub use kept::check::Miscounted;
pub use model::*;
pub use operation_model::*;
pub use pattern_model::*;
pub use standing_model::Standing;
pub use store::Store;
pub use triage_model::*;
pub use turns::{Turn, Turns, give_way};
