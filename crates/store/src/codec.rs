//! How bytes lie in side tables: a version byte first, so that compression and later encryption can change without
//! touching old rows.

const PLAIN: u8 = 0;
const LZ4: u8 = 1;
/// Below this, compression saves less than it costs.
const COMPRESS_FROM_BYTES: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stored bytes can't be read: {0}")]
pub struct CodecError(&'static str);

pub fn encode(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() >= COMPRESS_FROM_BYTES {
        let packed = lz4_flex::block::compress_prepend_size(bytes);
        if packed.len() < bytes.len() - bytes.len() / 8 {
            return prefixed(LZ4, &packed);
        }
    }
    prefixed(PLAIN, bytes)
}

fn prefixed(version: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 1);
    out.push(version);
    out.extend_from_slice(bytes);
    out
}

pub fn decode(stored: &[u8]) -> Result<Vec<u8>, CodecError> {
    match stored.split_first() {
        Some((&PLAIN, bytes)) => Ok(bytes.to_vec()),
        Some((&LZ4, packed)) => {
            lz4_flex::block::decompress_size_prepended(packed).map_err(|_| CodecError("damaged compression"))
        }
        Some(_) => Err(CodecError("unknown codec version")),
        None => Err(CodecError("empty")),
    }
}

/// How long stored bytes are once decoded, from their stored length and their first five bytes.
pub(crate) fn decoded_len(stored: usize, head: &[u8]) -> usize {
    match head {
        [LZ4, size @ ..] => size.try_into().map_or(stored, |size| u32::from_le_bytes(size) as usize),
        _ => stored.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..4_000)) {
            let stored = encode(&bytes);
            proptest::prop_assert_eq!(decoded_len(stored.len(), &stored[..stored.len().min(5)]), bytes.len());
            proptest::prop_assert_eq!(decode(&stored), Ok(bytes));
        }
    }

    #[test]
    fn what_repeats_is_packed_and_what_is_small_is_not() {
        assert!(encode(&[b'a'; 4_000]).len() < 200);
        assert_eq!(encode(b"small"), b"\0small");
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        assert!(decode(&[]).is_err());
        assert!(decode(&[9, 1, 2]).is_err());
        assert!(decode(&[LZ4, 255, 255, 255, 255]).is_err());
    }
}
