//! Where a JSON string ends. A search for the next quote is quickest where there are few escapes; JSON inside of a string
//! has one every few bytes, so from the first escape on sixty-four bytes are looked at together, whatever stands in them.

use memchr::memchr2;

const ONES: u64 = 0x0101_0101_0101_0101;
const LOW_BITS: u64 = 0x7f * ONES;
/// Every other byte of a block, the first one included.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Behind the closing quote of a string whose inside begins with `text`.
pub(super) fn end_of_string(text: &[u8]) -> Option<usize> {
    let first = memchr2(b'"', b'\\', text)?;
    if text[first] == b'"' {
        return Some(first + 1);
    }
    let (blocks, rest) = text[first..].as_chunks::<64>();
    let mut escaped = false;
    for (number, block) in blocks.iter().enumerate() {
        let closing = closing_quotes(block, &mut escaped);
        if closing != 0 {
            return Some(first + 64 * number + closing.trailing_zeros() as usize + 1);
        }
    }
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'"' => return Some(text.len() - rest.len() + at + 1),
            b'\\' => escaped = true,
            _ => {}
        }
    }
    None
}

/// The quotes of a block that no backslash takes back, a bit each. `escaped` says of the first byte, and is left to say of
/// the one after the block.
fn closing_quotes(block: &[u8; 64], escaped: &mut bool) -> u64 {
    let (mut quotes, mut slashes) = (0, 0);
    for (number, eight) in block.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*eight);
        quotes |= bytes_that_are(word, b'"') << (8 * number);
        slashes |= bytes_that_are(word, b'\\') << (8 * number);
    }
    quotes & !escaped_bytes(slashes, escaped)
}

/// The bytes that stand behind an odd number of backslashes. Adding a row of set bits to its own first bit carries out of
/// the row's end, so one addition goes along all rows at once; rows that begin at odd places are the ones added to, and
/// what they carried out shows where the parity is the other way round.
fn escaped_bytes(slashes: u64, escaped: &mut bool) -> u64 {
    let before = u64::from(*escaped);
    let slashes = slashes & !before;
    let behind = slashes << 1 | before;
    let odd_rows = slashes & !EVEN & !behind;
    let (carried, beyond) = odd_rows.overflowing_add(slashes);
    *escaped = beyond;
    (EVEN ^ (carried << 1)) & behind
}

/// A bit for each of eight bytes, the first one lowest.
fn bytes_that_are(word: u64, byte: u8) -> u64 {
    let differs = word ^ (ONES * u64::from(byte));
    let equal = !(((differs & LOW_BITS) + LOW_BITS) | differs | LOW_BITS);
    // Moves each byte's bit to a place of its own in the highest byte.
    (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_by_one(text: &[u8]) -> Option<usize> {
        let mut escaped = false;
        for (at, byte) in text.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'"' => return Some(at + 1),
                b'\\' => escaped = true,
                _ => {}
            }
        }
        None
    }

    proptest::proptest! {
        #[test]
        fn the_end_is_where_a_walk_byte_by_byte_finds_it(text in r#"([ab\\é!#\[\]]|\\\\|\\"){0,150}"?[a"\\]{0,80}"#) {
            proptest::prop_assert_eq!(end_of_string(text.as_bytes()), one_by_one(text.as_bytes()));
        }

        #[test]
        fn rows_of_backslashes_of_any_length_and_place_are_counted(before in 0_usize..130, slashes in 0_usize..140) {
            let text = format!("\\n{}{}\" and \"", "a".repeat(before), "\\".repeat(slashes));
            proptest::prop_assert_eq!(end_of_string(text.as_bytes()), one_by_one(text.as_bytes()));
        }
    }
}
