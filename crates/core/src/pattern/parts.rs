//! The small parts of a message: where a word ends, what a URL is, what stands between colons.

use super::cue::Cue;
use super::kind::Mask;
use super::template::Template;
use super::word::{self, Judgement};

/// A word at the front of a text, without the punctuation behind it.
pub(super) struct Token<'a> {
    pub(super) word: &'a str,
    /// How far the token goes, its punctuation included.
    pub(super) len: usize,
    pub(super) digits: bool,
    pub(super) colons: bool,
    /// Punctuation inside: `deepseek-chat`, `agent_7`.
    pub(super) marked: bool,
}

impl<'a> Token<'a> {
    pub(super) fn at_front_of(rest: &'a str) -> Self {
        let bytes = rest.as_bytes();
        let (mut len, mut seen) = (0, 0);
        while let Some(byte) = bytes.get(len)
            && KINDS[usize::from(*byte)] & OUTSIDE == 0
        {
            seen |= KINDS[usize::from(*byte)];
            len += 1;
        }
        let mut end = len;
        if seen & (COLON | STOP) != 0 {
            // Punctuation counts only if something follows it: a full stop ends a sentence.
            while end > 0 && KINDS[usize::from(bytes[end - 1])] & (COLON | STOP) != 0 {
                end -= 1;
            }
            seen = bytes[..end].iter().fold(0, |seen, byte| seen | KINDS[usize::from(*byte)]);
        }
        let marked = seen & (MARK | STOP) != 0;
        Self { word: &rest[..end], len, digits: seen & DIGIT != 0, colons: seen & COLON != 0, marked }
    }

    pub(super) fn ends_in_digit(&self) -> bool {
        self.digits && self.word.ends_with(|c: char| c.is_ascii_digit())
    }

    /// Letters only, and no longer than words are: nothing to judge.
    pub(super) fn is_plain_word(&self) -> bool {
        const LONGEST_WORD: usize = 19;
        !self.digits && !self.colons && !self.marked && self.word.len() <= LONGEST_WORD
    }
}

/// What a byte is to a word. A letter is none of these.
const DIGIT: u8 = 1;
/// Belongs to a word wherever it stands.
const MARK: u8 = 2;
const COLON: u8 = 4;
/// Belongs to a word only within it.
const STOP: u8 = 8;
const OUTSIDE: u8 = 16;

const KINDS: [u8; 256] = {
    let mut table = [OUTSIDE; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => 0,
            b'0'..=b'9' => DIGIT,
            b':' => COLON,
            b'.' | b'-' | b'+' | b'~' | b'\\' | b'%' | b'@' | b'?' | b'&' | b'$' => STOP,
            b'_' | b'/' | 0x80.. => MARK,
            _ => OUTSIDE,
        };
        byte += 1;
    }
    table
};

pub(super) fn is_word_byte(byte: u8) -> bool {
    KINDS[usize::from(byte)] & OUTSIDE == 0
}

/// The length of a URL, or of a rooted path with what it asks for, at the front of a text.
pub(super) fn url_len(rest: &str, token: &Token<'_>) -> Option<usize> {
    let is_url = token.colons && rest[..token.len].split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme));
    let is_query = token.marked && rest.starts_with('/') && rest[..token.len].contains('?');
    if !is_url && !is_query {
        return None;
    }
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | ')' | ']' | '}' | ',' | ';');
    let end = rest.find(ends).unwrap_or(rest.len());
    Some(rest[..end].trim_end_matches(['.', ':']).len())
}

fn is_scheme(word: &str) -> bool {
    const LONGEST_SCHEME: usize = 12;
    (1..=LONGEST_SCHEME).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_alphabetic() || b == b'+')
}

pub(super) fn is_unit(word: &str) -> bool {
    matches!(word, "B" | "KB" | "MB" | "GB" | "TB" | "KiB" | "MiB" | "GiB" | "ms" | "s" | "sec" | "secs")
}

/// Pydantic shows the value that did not fit: `input_value={'id': 'x'}, input_type=dict`.
pub(super) fn input_value_len(after: &str) -> Option<usize> {
    const WITHIN: usize = 400;
    let within = crate::classify::text::head(after.strip_prefix('=')?, WITHIN);
    within.find(", input_type").map(|len| len + 1)
}

/// The value of `key=value`: masked, unless the key says that the value names the failing part.
pub(super) fn value_mask(key: Cue, value: &str) -> Option<Mask> {
    if matches!(value, "true" | "false" | "True" | "False" | "null" | "None") {
        return Some(Mask::Flag);
    }
    let is_word = value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    (!key.has(Cue::NAMING) && is_word).then_some(Mask::Text)
}

/// Somebody's name, not what somebody did.
pub(super) fn is_somebody(word: &str) -> bool {
    let nobody = matches!(
        word,
        "is" | "was"
            | "has"
            | "does"
            | "did"
            | "not"
            | "unknown"
            | "request"
            | "input"
            | "message"
            | "interrupt"
            | "abort"
            | "or"
            | "and"
            | "from"
            | "by"
    );
    let a_deed = word.len() > 4 && word.ends_with("ed");
    !a_deed && !nobody && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@'))
}

/// `Fri Jul 15`: a day or a month, if a date follows.
pub(super) fn is_date_word(word: &str, after: &str) -> bool {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    if !DAYS.contains(&word) && !MONTHS.contains(&word) {
        return false;
    }
    let next = after.trim_start_matches([' ', ',']);
    next.starts_with(|c: char| c.is_ascii_digit()) || next.get(..3).is_some_and(|w| MONTHS.contains(&w))
}

/// Parts of a word with colons or slashes, each judged for itself; a short word before an id belongs to the id.
pub(super) fn pieces(word: &str, template: &mut Template) {
    if let Some((kind, id)) = word.split_once(':')
        && kind.len() <= 8
        && kind.bytes().all(|b| b.is_ascii_alphabetic())
        && word::judge(id) == Judgement::Mask(Mask::Id)
    {
        return template.mask(Mask::Id, word);
    }
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find([':', '/']).unwrap_or(rest.len());
        let (front, after) = rest.split_at(end);
        piece(front, template);
        let (separator, after) = after.split_at(after.len().min(1));
        template.plain(separator);
        rest = after;
    }
}

pub(super) fn piece(piece: &str, template: &mut Template) {
    match word::judge(piece) {
        Judgement::Keep => template.plain(piece),
        Judgement::Mask(mask) => template.mask(mask, piece),
        Judgement::Digits => digits(piece, template),
    }
}

/// Letters stay, runs of digits become one mask each.
pub(super) fn digits(word: &str, template: &mut Template) {
    let mut rest = word;
    while !rest.is_empty() {
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        template.plain(&rest[..letters]);
        rest = &rest[letters..];
        let numbers = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if numbers > 0 {
            template.mask(Mask::Number, &rest[..numbers]);
        }
        rest = &rest[numbers..];
    }
}
