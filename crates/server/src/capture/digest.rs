//! Content, recognised by the first bytes of its SHA-256.

use redrive_store::Digest;
use sha2::{Digest as _, Sha256};

pub(crate) fn digest(bytes: &[u8]) -> Digest {
    let whole: [u8; 32] = Sha256::digest(bytes).into();
    first_half(&whole)
}

pub(super) fn first_half(whole: &[u8; 32]) -> Digest {
    let mut half = Digest::default();
    half.iter_mut().zip(whole).for_each(|(to, from)| *to = *from);
    half
}

pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// 64 hex digits, or nothing.
pub(super) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut whole = [0; 32];
    for (byte, pair) in whole.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_written_out_is_the_same_digest_as_its_content() {
        let written = sha256_hex(b"payload");
        assert_eq!(first_half(&from_hex(&written).unwrap()), digest(b"payload"));
        assert_eq!(from_hex("zz"), None);
        assert_eq!(from_hex(&"é".repeat(32)), None);
    }
}
