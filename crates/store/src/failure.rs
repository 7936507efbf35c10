//! What an adapter's error means to the caller that opened a store.

use redrive_engine::error::{BoxError, Error};

/// Tells a database that can't be used now from a statement that failed, for either store.
pub fn classify(error: BoxError) -> Error {
    crate::postgres::classify(crate::sqlite::classify(error))
}
