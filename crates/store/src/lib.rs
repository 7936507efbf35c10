//! Stores: SQLite and PostgreSQL as backends of the engine. They hold SQL, and when it is sent; no rule of the product.

mod commit;
mod failure;
mod numbers;
mod shared;

pub mod copy;
pub mod postgres;
pub mod sqlite;

pub use failure::classify;
pub use shared::check::Miscounted;
