//! One pass over a message writes its template. A word is judged by itself ([`super::word`]) and by the words before it
//! ([`Cue`]).

use super::template::Mask;
use super::template::Template;
use super::word::{self, Judgement};

/// Quoted text longer than this, with this many spaces, is data.
const LONGEST_NAME: usize = 80;
const PROSE_SPACES: usize = 6;
/// How far a closing quote is looked for.
const QUOTE_WITHIN: usize = 400;
/// How many words back a word may still explain a quoted value.
const REMEMBERED: usize = 6;

/// Masks a message into a template.
pub(super) fn mask_into(message: &str, template: &mut Template) {
    let cues = [Cue::default(); REMEMBERED];
    let mut scanner =
        Masker { message, at: 0, kept_from: 0, cues, after_number: false, after_equals: false, first: true };
    while scanner.at < message.len() && !template.is_full() {
        scanner.step(template);
    }
    scanner.flush(template);
}

/// A file of the user's code is named without its path; a build's hash in the name is masked.
pub(super) fn mask_file(name: &str, template: &mut Template) {
    let (stem, ending) = name.split_at(name.find('.').unwrap_or(name.len()));
    piece(stem, template);
    template.plain(ending);
}

struct Masker<'a> {
    message: &'a str,
    at: usize,
    /// What stands between here and `at` stays as it is and is written when something else comes.
    kept_from: usize,
    /// What the last words said, the latest first.
    cues: [Cue; REMEMBERED],
    after_number: bool,
    after_equals: bool,
    first: bool,
}

impl Masker<'_> {
    fn step(&mut self, template: &mut Template) {
        let byte = self.message.as_bytes()[self.at];
        if byte.is_ascii_whitespace() || byte == 0 {
            self.space(template);
        } else if is_word_byte(byte) {
            self.word(template);
        } else if matches!(byte, b'"' | b'\'' | b'`') && self.quote(byte, template) {
            // A quoted value was masked as a whole.
        } else {
            // `Key (id)=(42)`: the second pair of brackets holds the value.
            let opens_value = byte == b'(' && self.message[..self.at].ends_with(")=");
            self.after_equals = byte == b'=' || (self.after_equals && (matches!(byte, b'"' | b'\'') || opens_value));
            self.at += 1;
        }
    }

    /// Writes what was kept since the last mask, up to here.
    fn flush(&mut self, template: &mut Template) {
        template.plain(&self.message[self.kept_from..self.at]);
        self.kept_from = self.at;
    }

    /// Masks the next `len` bytes.
    fn mask(&mut self, mask: Mask, len: usize, template: &mut Template) {
        self.flush(template);
        template.mask(mask, &self.message[self.at..self.at + len]);
        self.kept_from = self.at + len;
    }

    /// Any white space is one space.
    fn space(&mut self, template: &mut Template) {
        let rest = &self.message.as_bytes()[self.at..];
        let width = rest.iter().take_while(|b| b.is_ascii_whitespace() || **b == 0).count();
        if width == 1 && rest[0] == b' ' {
            self.at += 1;
            return;
        }
        self.flush(template);
        template.space();
        self.at += width;
        self.kept_from = self.at;
        // `invalid user  from 10.0.0.1`: the name is empty, the place for it is there.
        if width == 2 && self.cues[0].has(Cue::USER) {
            template.mask(Mask::Name, "");
            template.space();
            self.remember(Cue::default());
        }
    }

    /// Masks a quoted text that is a value, and says whether it did.
    fn quote(&mut self, quote: u8, template: &mut Template) -> bool {
        let start = self.at + 1;
        let assigned = self.after_equals && !self.cues[0].has(Cue::NAMING);
        let within = &self.message.as_bytes()[start..self.message.len().min(start + QUOTE_WITHIN)];
        let Some(len) = memchr::memchr(quote, within) else { return false };
        let prose = len > LONGEST_NAME && within[..len].iter().filter(|b| **b == b' ').count() >= PROSE_SPACES;
        if len == 0 || !(prose || assigned || self.introduces_value()) {
            return false;
        }
        self.at = start;
        self.mask(Mask::Text, len, template);
        self.at += len + 1;
        self.after_equals = false;
        true
    }

    /// `could not convert string to float: '…'`: what is quoted is the value that did not fit, not a name.
    fn introduces_value(&self) -> bool {
        let any = |cues: &[Cue], cue: Cue| cues.iter().any(|c| c.has(cue));
        (any(&self.cues[..2], Cue::VALUE) || any(&self.cues, Cue::READING)) && !any(&self.cues, Cue::NAMED)
    }

    fn word(&mut self, template: &mut Template) {
        let rest = &self.message[self.at..];
        let token = Token::at_front_of(rest);
        let word = token.word;
        if word.is_empty() {
            self.at += token.len;
            return;
        }
        if let Some(len) = url_len(rest, &token) {
            self.mask(Mask::Url, len, template);
            return self.pass(len, Cue::default());
        }
        if self.after_number && is_unit(word) {
            // `512 MB` and `1 GB` differ in their number only.
            self.flush(template);
            self.kept_from += word.len();
            return self.pass(word.len(), Cue::default());
        }
        if word == "input_value"
            && let Some(len) = input_value_len(&rest[word.len()..])
        {
            self.at += word.len() + 1;
            self.mask(Mask::Text, len, template);
            return self.pass(len, Cue::default());
        }
        self.write(&token, &rest[word.len()..], template);
        self.pass(word.len(), Cue::of(word));
        self.after_number = token.ends_in_digit();
    }

    fn write(&mut self, token: &Token<'_>, after: &str, template: &mut Template) {
        let word = token.word;
        if token.digits && self.is_code(word) {
            return;
        }
        if let Some(mask) = self.by_neighbour(token, after) {
            return self.mask(mask, word.len(), template);
        }
        if token.is_plain_word() {
            return;
        }
        match word::judge(word) {
            Judgement::Keep if token.colons && !word.contains("::") => self.in_parts(word, template, pieces),
            Judgement::Keep => {}
            Judgement::Mask(mask) => self.mask(mask, word.len(), template),
            Judgement::Digits if word.contains([':', '/']) => self.in_parts(word, template, pieces),
            Judgement::Digits => self.in_parts(word, template, digits),
        }
    }

    fn in_parts(&mut self, word: &str, template: &mut Template, write: fn(&str, &mut Template)) {
        self.flush(template);
        write(word, template);
        self.kept_from = self.at + word.len();
    }

    /// A code that says what failed is kept: `status code 404`, `MCP error -32602`, `[Errno 111]`, `402 Insufficient`.
    fn is_code(&self, word: &str) -> bool {
        const LONGEST_CODE: usize = 6;
        let number = word.strip_prefix('-').unwrap_or(word);
        let plain = word.len() <= LONGEST_CODE && number.bytes().all(|b| b.is_ascii_digit());
        let leading = self.first && number.len() == 3 && number.starts_with(['4', '5']);
        plain && (leading || self.cues[0].has(Cue::CODE))
    }

    /// What the word before says: `user webmaster`, `model deepseek-chat`, `request_id=…`, `uid=0`.
    fn by_neighbour(&self, token: &Token<'_>, after: &str) -> Option<Mask> {
        let (cue, word) = (self.cues[0], token.word);
        if self.after_equals {
            return value_mask(cue, word);
        }
        let marked = token.marked || token.digits;
        if cue.has(Cue::MODEL) && marked {
            return Some(Mask::Model);
        }
        if cue.has(Cue::HOST) && marked {
            return Some(Mask::Host);
        }
        if cue.has(Cue::TASK) && marked && token.digits {
            return Some(Mask::Id);
        }
        let whom = cue.has(Cue::USER) || (cue.has(Cue::FOR) && after.starts_with(" from "));
        if whom && is_somebody(word) {
            return Some(Mask::Name);
        }
        if word.len() == 3 && is_date_word(word, after) {
            return Some(Mask::Number);
        }
        (cue.has(Cue::ID) && word.len() >= 4 && token.digits).then_some(Mask::Id)
    }

    fn pass(&mut self, len: usize, cue: Cue) {
        self.at += len;
        self.remember(cue);
    }

    fn remember(&mut self, cue: Cue) {
        self.cues.copy_within(..REMEMBERED - 1, 1);
        self.cues[0] = cue;
        self.after_equals = false;
        self.after_number = false;
        self.first = false;
    }
}

/// A set of hints, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cue(u16);

impl Cue {
    pub(super) const MODEL: Self = Self(1);
    pub(super) const HOST: Self = Self(1 << 1);
    /// A unit of work, which has an id.
    pub(super) const TASK: Self = Self(1 << 2);
    pub(super) const USER: Self = Self(1 << 3);
    pub(super) const FOR: Self = Self(1 << 4);
    pub(super) const ID: Self = Self(1 << 5);
    /// A code follows that says what failed.
    pub(super) const CODE: Self = Self(1 << 6);
    /// A value is near: the next or the one after.
    pub(super) const VALUE: Self = Self(1 << 7);
    /// What is being read is a value, wherever in the sentence.
    pub(super) const READING: Self = Self(1 << 8);
    /// A class whose quoted word is a name.
    pub(super) const NAMED: Self = Self(1 << 9);
    /// A key whose value names the failing part.
    pub(super) const NAMING: Self = Self(1 << 10);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn of(word: &str) -> Self {
        const LONGEST: usize = 14;
        let id = if word.ends_with("_id") || word.ends_with("Id") || word.ends_with("ID") {
            Self::ID
        } else {
            Self::default()
        };
        if word.len() > LONGEST {
            return id;
        }
        let mut lower = [0; LONGEST];
        for (to, from) in lower.iter_mut().zip(word.bytes()) {
            *to = from.to_ascii_lowercase();
        }
        id.and(Self::of_lower(&lower[..word.len()]))
    }

    fn of_lower(word: &[u8]) -> Self {
        match word {
            b"model" | b"engine" | b"deployment" => Self::MODEL,
            b"host" | b"node" | b"hostname" | b"pod" | b"instance" | b"machine" => Self::HOST,
            b"run" | b"task" | b"job" | b"request" | b"workflow" | b"execution" | b"conversation" | b"thread" => {
                Self::TASK
            }
            b"trace" => Self::TASK.and(Self::ID),
            b"user" | b"username" => Self::USER,
            b"for" => Self::FOR,
            b"id" | b"uuid" | b"ray" | b"session" | b"token" | b"hash" | b"sha" | b"digest" | b"sessionid" => Self::ID,
            b"http" | b"errno" | b"sqlstate" => Self::CODE,
            b"code" | b"error" => Self::CODE.and(Self::NAMING),
            b"value" | b"received" | b"got" | b"input" | b"content" | b"completion" | b"text" | b"date" | b"string" => {
                Self::VALUE
            }
            b"convert" | b"literal" | b"isoformat" | b"parse" | b"parsing" => Self::READING,
            b"keyerror" | b"attributeerror" | b"nameerror" => Self::NAMED,
            b"tool" | b"tool_name" | b"function" | b"op" | b"operation" | b"type" | b"reason" | b"constraint"
            | b"column" | b"table" | b"field" | b"key" | b"param" | b"parameter" | b"method" | b"action" | b"step"
            | b"input_type" | b"status" | b"event" | b"name" => Self::NAMING,
            _ => Self::default(),
        }
    }
}

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
