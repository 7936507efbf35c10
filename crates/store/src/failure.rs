//! What an adapter's error means to whoever opened a store.

use redrive_engine::error::{BoxError, Error};

/// Tells a database that can't be used now from a statement that was wrong, whichever database it is.
pub fn classify(error: BoxError) -> Error {
    crate::postgres::classify(crate::sqlite::classify(error))
}
