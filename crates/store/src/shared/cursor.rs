//! Cursors: opaque positions, valid only for the question that they came from.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use redrive_engine::error::{Error, PortResult as Result};

const VERSION: u8 = 1;
const CHECK_BYTES: usize = 8;
/// Longer than any valid cursor.
const MAX_CHARS: usize = 1_000;

/// Seals a position for `question`: everything that must be the same when the cursor comes back.
pub(crate) fn seal(question: &str, position: &[u8]) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&check(question, position));
    bytes.extend_from_slice(position);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The position of a cursor that was sealed for this question.
pub(crate) fn unseal(question: &str, cursor: &str) -> Result<Vec<u8>> {
    if cursor.len() > MAX_CHARS {
        return Err(Error::BadCursor.into());
    }
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| Error::BadCursor)?;
    let (&version, rest) = bytes.split_first().ok_or(Error::BadCursor)?;
    let (found, position) = rest.split_at_checked(CHECK_BYTES).ok_or(Error::BadCursor)?;
    let fits = version == VERSION && found == check(question, position);
    fits.then(|| position.to_vec()).ok_or(Error::BadCursor.into())
}

/// Covers the position too, so that a damaged cursor is refused.
fn check(question: &str, position: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = Sha256::new().chain_update(question).chain_update([0]).chain_update(position).finalize();
    let mut first = [0; CHECK_BYTES];
    first.copy_from_slice(&digest[..CHECK_BYTES]);
    first
}

/// A position made of numbers.
pub(crate) fn seal_numbers(question: &str, numbers: &[i64]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    seal(question, &bytes)
}

pub(crate) fn unseal_numbers<const N: usize>(question: &str, cursor: &str) -> Result<[i64; N]> {
    let bytes = unseal(question, cursor)?;
    let (numbers, rest) = bytes.as_chunks::<8>();
    let numbers: Vec<i64> = numbers.iter().map(|n| i64::from_le_bytes(*n)).collect();
    if !rest.is_empty() {
        return Err(Error::BadCursor.into());
    }
    Ok(numbers.try_into().map_err(|_| Error::BadCursor)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_for_its_own_question_only() {
        let cursor = seal_numbers("dead of acme", &[7, -1]);
        assert_eq!(unseal_numbers::<2>("dead of acme", &cursor).unwrap(), [7, -1]);
        assert!(matches!(unseal_numbers::<2>("dead of globex", &cursor).map_err(Error::from), Err(Error::BadCursor)));
        assert!(matches!(unseal_numbers::<1>("dead of acme", &cursor).map_err(Error::from), Err(Error::BadCursor)));
    }

    proptest::proptest! {
        #[test]
        fn garbage_is_refused(text in "[A-Za-z0-9_=-]{0,60}|.*") {
            proptest::prop_assert!(matches!(unseal("any", &text).map_err(Error::from), Err(Error::BadCursor)));
        }
    }
}
