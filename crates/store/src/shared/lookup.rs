//! How the store numbers what callers name.

pub(crate) use redrive_engine::runs::run_row::key_hash;

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
