//! How the store numbers what callers name.

pub(crate) use crate::commands::numbers::{NUMBER_BITS, key_hash, numbered, span_of};
use crate::error::{Error, Result};

/// The attempt's or payload's own number.
pub(crate) fn number_of(id: i64) -> Result<u32> {
    u32::try_from(id & ((1 << NUMBER_BITS) - 1)).map_err(|_| Error::Unexpected(format!("attempt {id}")))
}

/// Whose rows a read may touch, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    All,
    One(i64),
    /// A tenant that nothing was ever heard of.
    Nobody,
}

impl Whose {
    pub(crate) fn sees(self, tenant: i64) -> bool {
        match self {
            Self::All => true,
            Self::One(own) => own == tenant,
            Self::Nobody => false,
        }
    }
}
