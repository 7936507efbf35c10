//! `*` for any letters, `?` for one. Each `*` takes as little as it can, so that no place is tried twice but within one
//! piece; a piece with `?` is looked for by all of its letters at once, 64 to a word.

/// Bytes up to which trying each place is cheaper than preparing a search.
const SHORT_BYTES: usize = 16;

pub(super) fn matches(pattern: &str, text: &str) -> bool {
    matches_within(pattern.as_bytes(), text.as_bytes(), &mut 0)
}

/// `steps` counts the comparisons.
fn matches_within(pattern: &[u8], text: &[u8], steps: &mut usize) -> bool {
    let mut pieces = pattern.split(|byte| *byte == b'*');
    let first = pieces.next().unwrap_or_default();
    let Some(last) = pieces.next_back() else { return first.len() == text.len() && fits(first, text, steps) };
    if first.len() + last.len() > text.len() || !fits(first, text, steps) {
        return false;
    }
    let (mut rest, end) = text[first.len()..].split_at(text.len() - first.len() - last.len());
    if !fits(last, end, steps) {
        return false;
    }
    pieces.filter(|piece| !piece.is_empty()).all(|piece| match find(piece, rest, steps) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// Whether `text` begins as `piece` says.
fn fits(piece: &[u8], text: &[u8], steps: &mut usize) -> bool {
    let same = |(wanted, byte): (&u8, &u8)| {
        *steps += 1;
        *wanted == b'?' || wanted == byte
    };
    piece.len() <= text.len() && piece.iter().zip(text).all(same)
}

/// The first place of `piece`.
fn find(piece: &[u8], text: &[u8], steps: &mut usize) -> Option<usize> {
    if !piece.contains(&b'?') {
        *steps += text.len();
        return memchr::memmem::find(text, piece);
    }
    if piece.len() <= SHORT_BYTES {
        return (0..=text.len().checked_sub(piece.len())?).find(|at| fits(piece, &text[*at..], steps));
    }
    // Bit n of `begun` says that the first n + 1 letters of the piece end here.
    let words = piece.len().div_ceil(64);
    let mut allowed = vec![0_u64; 256 * words];
    for (at, wanted) in piece.iter().enumerate() {
        let bytes = if *wanted == b'?' { 0..=255 } else { *wanted..=*wanted };
        bytes.for_each(|byte| allowed[usize::from(byte) * words + at / 64] |= 1 << (at % 64));
    }
    let mut begun = vec![0_u64; words];
    for (end, byte) in text.iter().enumerate() {
        let mut carry = 1;
        for (word, allowed) in begun.iter_mut().zip(&allowed[usize::from(*byte) * words..][..words]) {
            *steps += 1;
            let next = *word >> 63;
            *word = (*word << 1 | carry) & allowed;
            carry = next;
        }
        if begun[words - 1] & 1 << ((piece.len() - 1) % 64) != 0 {
            return Some(end + 1 - piece.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_within};

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("**", "x", true),
            ("bill*", "billing", true),
            ("*ing", "billing", true),
            ("b*l*g", "billing", true),
            ("b?lling", "billing", true),
            ("*l?n*", "billing", true),
            ("billing", "billing", true),
            ("a*a", "a", false),
            ("bill", "billing", false),
            ("*x*", "billing", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn glob_cost_is_bounded() {
        const TEXT: usize = 64 * 1024;
        let text = "a".repeat(TEXT);
        for pattern in [
            format!("*{}b*", "a".repeat(1_990)),
            format!("*?{}b*", "a".repeat(1_990)),
            "*a?".repeat(600),
            format!("*{}*", "a?b".repeat(600)),
        ] {
            let mut steps = 0;
            matches_within(pattern.as_bytes(), text.as_bytes(), &mut steps);
            assert!(steps <= 40 * TEXT, "{steps} steps");
        }
    }

    /// As short as it can be: what the other has to agree with.
    fn plainly(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.first(), text.first()) {
            (None, None) => true,
            (Some(b'*'), _) => plainly(&pattern[1..], text) || !text.is_empty() && plainly(pattern, &text[1..]),
            (Some(b'?'), Some(_)) => plainly(&pattern[1..], &text[1..]),
            (Some(wanted), Some(byte)) => wanted == byte && plainly(&pattern[1..], &text[1..]),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    proptest::proptest! {
        #[test]
        fn globs_match_the_reference_implementation(pattern in "[ab?*]{0,8}", text in "[ab]{0,10}") {
            proptest::prop_assert_eq!(matches(&pattern, &text), plainly(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn long_glob_pieces_are_found(piece in "[ab?]{17,140}", before in "[ab]{0,90}", fill in "[ab]") {
            let text = format!("{before}{}b", piece.replace('?', &fill));
            let (found, longer) = (format!("*{piece}*"), format!("*{piece}c*"));
            proptest::prop_assert!(matches(&found, &text));
            proptest::prop_assert!(!matches(&longer, &text));
        }
    }
}
