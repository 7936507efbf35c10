//! SQLite as a backend of the engine: one thread writes, a pool of connections reads.

mod backend;
mod commit;
mod connection;
mod reads;
mod rows;
mod schema;
mod store;
#[cfg(test)]
mod tests;
mod visit;

pub(crate) use connection::classify;
pub(crate) use connection::place::FolderPlace;
pub use store::{Options, SqliteStore};
pub use visit::{Setup, Visit};
