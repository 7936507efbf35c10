//! How a fingerprint is written for people and in filters: `<version>-<hash in hex>`.

/// The two columns that name a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FingerprintKey {
    pub version: u8,
    /// The hash's bits as SQLite keeps them.
    pub hash: i64,
}

impl FingerprintKey {
    pub fn parse(text: &str) -> Option<Self> {
        let (version, hash) = text.split_once('-')?;
        let key = Self { version: version.parse().ok()?, hash: u64::from_str_radix(hash, 16).ok()?.cast_signed() };
        // One spelling only.
        (key.to_string() == text).then_some(key)
    }
}

impl std::fmt::Display for FingerprintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{:016x}", self.version, self.hash.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_reads_back_and_nothing_else_does() {
        let key = FingerprintKey { version: 1, hash: -2 };
        assert_eq!(key.to_string(), "1-fffffffffffffffe");
        assert_eq!(FingerprintKey::parse("1-fffffffffffffffe"), Some(key));
        for other in ["", "1", "1-", "1-fffe", "01-fffffffffffffffe", "1-FFFFFFFFFFFFFFFE", "300-fffffffffffffffe"] {
            assert_eq!(FingerprintKey::parse(other), None, "{other:?}");
        }
    }
}
