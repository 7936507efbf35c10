//! PostgreSQL as a backend of the engine: a few writer connections that each fold pending commands into one transaction, and a pool that reads.

mod backend;
pub(crate) mod commit;
mod connection;
mod reads;
mod rows;
mod schema;
mod store;
mod visit;

pub(crate) use connection::failure::classify;
pub(crate) use connection::place::{PgPlace, is_half_copied};
pub use store::{Options, PgStore, WRITER_CONNECTIONS};
pub use visit::{Setup, Visit};
