//! The stored form of documents and payloads: a version byte, then plain or LZ4-compressed bytes. The version byte lets
//! compression, and later encryption, change without rewriting rows.

use std::cell::RefCell;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

const PLAIN: u8 = 0;
const LZ4: u8 = 1;
/// Compression of less saves less than it costs.
const COMPRESS_FROM_BYTES: usize = 512;
/// A larger buffer is freed after use.
const BUFFER_KEPT_MAX_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stored bytes can't be read: {0}")]
pub struct CodecError(&'static str);

thread_local! {
    /// Reused, because every report compresses two documents.
    static COMPRESSOR: RefCell<Compressor> = RefCell::default();
}

#[derive(Default)]
struct Compressor {
    table: CompressTable,
    buffer: Vec<u8>,
}

impl Compressor {
    /// What follows the version byte: the length, then the compressed bytes.
    fn compress(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        let length = u32::try_from(bytes.len()).ok()?.to_le_bytes();
        self.buffer.resize(length.len() + get_maximum_output_size(bytes.len()), 0);
        let (head, packed) = self.buffer.split_at_mut(length.len());
        head.copy_from_slice(&length);
        let written = compress_into_with_table(bytes, packed, &mut self.table).ok()?;
        self.buffer.get(..length.len() + written)
    }

    fn free_large_buffer(&mut self) {
        if self.buffer.capacity() > BUFFER_KEPT_MAX_BYTES {
            *self = Self::default();
        }
    }
}

pub fn encode(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() < COMPRESS_FROM_BYTES {
        return prefixed(PLAIN, bytes);
    }
    COMPRESSOR.with_borrow_mut(|compressor| {
        let worth_it = bytes.len() - bytes.len() / 8;
        let packed = compressor.compress(bytes).filter(|packed| packed.len() < worth_it);
        let stored = packed.map_or_else(|| prefixed(PLAIN, bytes), |packed| prefixed(LZ4, packed));
        compressor.free_large_buffer();
        stored
    })
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

/// [`decoded_len`] needs this many of the first stored bytes.
pub const HEAD_BYTES: usize = 5;

/// The decoded length, from the stored length and the first stored bytes.
pub fn decoded_len(stored: usize, head: &[u8]) -> usize {
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
        fn bytes_survive_encoding(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..4_000)) {
            let stored = encode(&bytes);
            proptest::prop_assert_eq!(decoded_len(stored.len(), &stored[..stored.len().min(5)]), bytes.len());
            proptest::prop_assert_eq!(decode(&stored), Ok(bytes));
        }
    }

    #[test]
    fn reused_buffer_does_not_affect_the_result() {
        let (large, small) = (b"0123456789".repeat(20_000), b"abcdefgh".repeat(100));
        let first = encode(&small);
        assert_eq!(decode(&encode(&large)), Ok(large));
        COMPRESSOR.with_borrow(|used| assert!(used.buffer.capacity() <= BUFFER_KEPT_MAX_BYTES));
        assert_eq!(encode(&small), first);
    }

    #[test]
    fn only_large_repetitive_bytes_are_compressed() {
        assert!(encode(&[b'a'; 4_000]).len() < 200);
        assert_eq!(encode(b"small"), b"\0small");
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        assert!(decode(&[]).is_err());
        assert!(decode(&[9, 1, 2]).is_err());
        assert!(decode(&[LZ4, 255, 255, 255, 255]).is_err());
    }
}
