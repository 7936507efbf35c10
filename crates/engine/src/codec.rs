//! How bytes lie in side tables: a version byte first, so that compression and later encryption can change without
//! touching old rows.

use std::cell::RefCell;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

const PLAIN: u8 = 0;
const LZ4: u8 = 1;
/// Below this, compression saves less than it costs.
const COMPRESS_FROM_BYTES: usize = 512;
/// What a thread keeps to pack the next bytes in, at most.
const KEPT_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stored bytes can't be read: {0}")]
pub struct CodecError(&'static str);

thread_local! {
    /// Two pieces of every report are packed: each thread does it in the same place.
    static PACKER: RefCell<Packer> = RefCell::default();
}

#[derive(Default)]
struct Packer {
    table: CompressTable,
    room: Vec<u8>,
}

impl Packer {
    /// The bytes with their length before them, as they lie behind the version byte.
    fn pack(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        let before = u32::try_from(bytes.len()).ok()?.to_le_bytes();
        self.room.resize(before.len() + get_maximum_output_size(bytes.len()), 0);
        let (size, packed) = self.room.split_at_mut(before.len());
        size.copy_from_slice(&before);
        let took = compress_into_with_table(bytes, packed, &mut self.table).ok()?;
        self.room.get(..before.len() + took)
    }

    fn tidy(&mut self) {
        if self.room.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
    }
}

pub fn encode(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() < COMPRESS_FROM_BYTES {
        return prefixed(PLAIN, bytes);
    }
    PACKER.with_borrow_mut(|packer| {
        let worth_it = bytes.len() - bytes.len() / 8;
        let packed = packer.pack(bytes).filter(|packed| packed.len() < worth_it);
        let stored = packed.map_or_else(|| prefixed(PLAIN, bytes), |packed| prefixed(LZ4, packed));
        packer.tidy();
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

/// So many of the first stored bytes say how long they are once decoded.
pub const HEAD_BYTES: usize = 5;

/// How long stored bytes are once decoded, from their stored length and their head.
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
        fn any_bytes_come_back(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..4_000)) {
            let stored = encode(&bytes);
            proptest::prop_assert_eq!(decoded_len(stored.len(), &stored[..stored.len().min(5)]), bytes.len());
            proptest::prop_assert_eq!(decode(&stored), Ok(bytes));
        }
    }

    #[test]
    fn what_was_packed_before_leaves_nothing_behind() {
        let (large, small) = (b"0123456789".repeat(20_000), b"abcdefgh".repeat(100));
        let first = encode(&small);
        assert_eq!(decode(&encode(&large)), Ok(large));
        PACKER.with_borrow(|packer| assert!(packer.room.capacity() <= KEPT_BYTES));
        assert_eq!(encode(&small), first);
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
