//! The text form of a fingerprint: `<version>-<hash in hex>`.

/// The two columns of a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FingerprintKey {
    pub version: u8,
    /// The hash's bits as a signed column.
    pub hash: i64,
}

impl FingerprintKey {
    pub fn parse(text: &str) -> Option<Self> {
        let (version, hash) = text.split_once('-')?;
        let key = Self { version: version.parse().ok()?, hash: u64::from_str_radix(hash, 16).ok()?.cast_signed() };
        // Only the canonical spelling.
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
    fn only_the_canonical_spelling_is_a_fingerprint() {
        let key = FingerprintKey { version: 1, hash: -2 };
        assert_eq!(key.to_string(), "1-fffffffffffffffe");
        assert_eq!(FingerprintKey::parse("1-fffffffffffffffe"), Some(key));
        for other in ["", "1", "1-", "1-fffe", "01-fffffffffffffffe", "1-FFFFFFFFFFFFFFFE", "300-fffffffffffffffe"] {
            assert_eq!(FingerprintKey::parse(other), None, "{other:?}");
        }
    }
}
