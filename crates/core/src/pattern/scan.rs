//! Goes over a message once and writes its template: words by [`super::word`], and what their neighbours say of them.

use super::kind::Mask;
use super::template::Template;
use super::word::{self, Judgement};

/// Quoted text longer than this is somebody's data.
const LONGEST_NAME: usize = 80;
const PROSE_SPACES: usize = 6;
/// How far a closing quote is looked for.
const QUOTE_WITHIN: usize = 400;

/// Masks a message into a template.
pub(super) fn mask_into(message: &str, template: &mut Template) {
    let mut scanner = Scanner { message, at: 0, before: [""; REMEMBERED], count: 0, after_equals: false, first: true };
    while scanner.at < message.len() && !template.is_full() {
        scanner.step(template);
    }
}

/// A file of the user's code is named without its path; a build's hash in the name is masked.
pub(super) fn mask_file(name: &str, template: &mut Template) {
    let (stem, ending) = name.split_at(name.find('.').unwrap_or(name.len()));
    piece(stem, template);
    template.plain(ending);
}

const REMEMBERED: usize = 6;

struct Scanner<'a> {
    message: &'a str,
    at: usize,
    /// The last words, the latest first.
    before: [&'a str; REMEMBERED],
    count: usize,
    after_equals: bool,
    first: bool,
}

impl<'a> Scanner<'a> {
    fn step(&mut self, template: &mut Template) {
        let bytes = self.message.as_bytes();
        let byte = bytes[self.at];
        if byte.is_ascii_whitespace() || byte == 0 {
            template.space();
            self.at += 1;
            // `invalid user  from 10.0.0.1`: the name is empty, the place for it is there.
            if self.says(&["user"])
                && bytes.get(self.at) == Some(&b' ')
                && bytes.get(self.at + 1).is_some_and(|b| *b != b' ')
            {
                template.mask(Mask::Name, "");
                self.advance("");
            }
        } else if is_word_byte(byte) {
            self.word(template);
        } else if matches!(byte, b'"' | b'\'' | b'`') && self.quote(byte, template) {
            // A quoted value was masked as a whole.
        } else {
            // `Key (id)=(42)`: the second pair of brackets holds the value.
            let opens_value = byte == b'(' && self.message[..self.at].ends_with(")=");
            self.after_equals = byte == b'=' || (self.after_equals && (matches!(byte, b'"' | b'\'') || opens_value));
            template.plain(&self.message[self.at..=self.at]);
            self.at += 1;
        }
    }

    /// Masks a quoted text that is a value, and says whether it did.
    fn quote(&mut self, quote: u8, template: &mut Template) -> bool {
        let start = self.at + 1;
        let within = &self.message.as_bytes()[start..self.message.len().min(start + QUOTE_WITHIN)];
        let Some(len) = memchr::memchr(quote, within) else { return false };
        let inside = &self.message[start..start + len];
        let prose = len > LONGEST_NAME && inside.bytes().filter(|b| *b == b' ').count() >= PROSE_SPACES;
        let assigned = self.after_equals && value_mask(self.before[0], "x").is_some();
        if len == 0 || !(prose || assigned || self.introduces_value()) {
            return false;
        }
        template.plain(&self.message[self.at..start]);
        template.mask(Mask::Text, inside);
        template.plain(&self.message[start + len..=start + len]);
        self.at = start + len + 1;
        self.after_equals = false;
        true
    }

    /// `could not convert string to float: '…'`: what is quoted is the value that did not fit, not a name.
    fn introduces_value(&self) -> bool {
        const NEAR: [&str; 9] =
            ["value", "received", "got", "input", "content", "completion", "text", "date", "string"];
        const AROUND: [&str; 5] = ["convert", "literal", "isoformat", "parse", "parsing"];
        const NAMES: [&str; 3] = ["KeyError", "AttributeError", "NameError"];
        let recent = &self.before[..self.count.min(REMEMBERED)];
        let any = |words: &[&str], set: &[&str]| words.iter().any(|w| set.iter().any(|v| w.eq_ignore_ascii_case(v)));
        (any(&recent[..recent.len().min(2)], &NEAR) || any(recent, &AROUND)) && !any(recent, &NAMES)
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|w| self.before[0].eq_ignore_ascii_case(w))
    }

    fn word(&mut self, template: &mut Template) {
        let rest = &self.message[self.at..];
        if let Some(len) = url_len(rest) {
            template.mask(Mask::Url, &rest[..len]);
            return self.advance(&rest[..len]);
        }
        let end = rest.bytes().position(|b| !is_word_byte(b)).unwrap_or(rest.len());
        let token = &rest[..end];
        let word = token.trim_end_matches(['.', ':', '-', '+', '~', '\\', '%', '@', '?', '&', '$']);
        if word.is_empty() {
            template.plain(token);
            return self.advance_silently(token.len());
        }
        if self.is_unit(word) {
            return self.advance_silently(word.len());
        }
        if word == "input_value"
            && let Some(len) = input_value_len(&rest[word.len()..])
        {
            template.plain("input_value=");
            template.mask(Mask::Text, &rest[word.len() + 1..word.len() + len]);
            return self.advance_silently(word.len() + len);
        }
        self.write(word, &rest[word.len()..], template);
        self.advance(word);
    }

    /// `512 MB` and `1 GB` differ in their number only.
    fn is_unit(&self, word: &str) -> bool {
        const UNITS: [&str; 12] = ["B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "ms", "s", "sec", "secs"];
        UNITS.contains(&word) && self.before[0].ends_with(|c: char| c.is_ascii_digit())
    }

    fn write(&mut self, word: &'a str, after: &str, template: &mut Template) {
        if self.is_status(word) {
            return template.plain(word);
        }
        if let Some(mask) = self.by_neighbour(word, after) {
            return template.mask(mask, word);
        }
        match word::judge(word) {
            Judgement::Keep if word.contains(':') && !word.contains("::") => pieces(word, template),
            Judgement::Keep => template.plain(word),
            Judgement::Mask(mask) => template.mask(mask, word),
            Judgement::Digits if word.contains([':', '/']) => pieces(word, template),
            Judgement::Digits => digits(word, template),
        }
    }

    /// A code that says what failed is kept: `status code 404`, `MCP error -32602`, `[Errno 111]`, `402 Insufficient`.
    fn is_status(&self, word: &str) -> bool {
        const LONGEST_CODE: usize = 6;
        let number = word.strip_prefix('-').unwrap_or(word);
        let plain = !number.is_empty() && word.len() <= LONGEST_CODE && number.bytes().all(|b| b.is_ascii_digit());
        if !plain {
            return false;
        }
        if self.first {
            return number.len() == 3 && number.starts_with(['4', '5']);
        }
        const INTRODUCE: [&str; 5] = ["code", "http", "errno", "sqlstate", "error"];
        INTRODUCE.iter().any(|w| self.before[0].eq_ignore_ascii_case(w))
    }

    /// What the word before says: `user webmaster`, `model deepseek-chat`, `request_id=…`, `uid=0`.
    fn by_neighbour(&self, word: &str, after: &str) -> Option<Mask> {
        let before = self.before[0];
        if self.after_equals {
            return value_mask(before, word);
        }
        let marked = word.contains(['-', '/', '_', '.', '@']) || has_digit(word);
        if self.says(&["model", "engine", "deployment"]) && marked {
            return Some(Mask::Model);
        }
        if self.says(&["host", "node", "hostname", "pod", "instance", "machine"]) && marked {
            return Some(Mask::Host);
        }
        if self.says(&["run", "task", "job", "request", "workflow", "execution", "conversation", "thread", "trace"])
            && marked
            && has_digit(word)
        {
            return Some(Mask::Id);
        }
        let whom = self.says(&["user", "username"]) || (self.says(&["for"]) && after.starts_with(" from "));
        if whom && is_somebody(word) {
            return Some(Mask::Name);
        }
        if is_date_word(word, after) {
            return Some(Mask::Number);
        }
        (is_id_key(before) && word.len() >= 4 && has_digit(word)).then_some(Mask::Id)
    }

    fn advance(&mut self, word: &'a str) {
        self.before.rotate_right(1);
        self.before[0] = word;
        self.count += 1;
        self.after_equals = false;
        self.advance_silently(word.len());
    }

    fn advance_silently(&mut self, len: usize) {
        self.at += len;
        self.first = false;
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'\\' | b'@' | b'%' | b'+' | b'~' | b':' | b'$' | b'?' | b'&')
        || byte >= 0x80
}

/// The value of `key=value`: masked, unless the key says that the value names the failing part.
fn value_mask(key: &str, value: &str) -> Option<Mask> {
    const NAMING: [&str; 22] = [
        "tool",
        "tool_name",
        "function",
        "op",
        "operation",
        "code",
        "type",
        "error",
        "reason",
        "constraint",
        "column",
        "table",
        "field",
        "key",
        "param",
        "parameter",
        "method",
        "action",
        "step",
        "input_type",
        "status",
        "event",
    ];
    let names = NAMING.iter().any(|n| key.eq_ignore_ascii_case(n));
    if matches!(value, "true" | "false" | "True" | "False" | "null" | "None") {
        return Some(Mask::Flag);
    }
    let is_word = value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    (!names && is_word).then_some(Mask::Text)
}

/// Somebody's name, not what somebody did.
fn is_somebody(word: &str) -> bool {
    const NOBODY: &[&str] = &[
        "is",
        "was",
        "has",
        "does",
        "did",
        "not",
        "unknown",
        "request",
        "input",
        "message",
        "interrupt",
        "abort",
        "or",
        "and",
        "from",
        "by",
    ];
    !(word.len() > 4 && word.ends_with("ed"))
        && !NOBODY.contains(&word)
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@'))
}

fn is_id_key(word: &str) -> bool {
    const KEYS: [&str; 10] = ["id", "uuid", "ray", "trace", "session", "token", "hash", "sha", "digest", "sessionid"];
    KEYS.iter().any(|k| word.eq_ignore_ascii_case(k))
        || word.ends_with("_id")
        || word.ends_with("Id")
        || word.ends_with("ID")
}

fn has_digit(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit())
}

/// `Fri Jul 15`: a day or a month, if a date follows.
fn is_date_word(word: &str, after: &str) -> bool {
    const DATE_WORDS: [&str; 19] = [
        "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep",
        "Oct", "Nov", "Dec",
    ];
    let next = after.trim_start_matches([' ', ',']);
    let dated =
        next.starts_with(|c: char| c.is_ascii_digit()) || next.get(..3).is_some_and(|w| DATE_WORDS[7..].contains(&w));
    word.len() == 3 && dated && DATE_WORDS.contains(&word)
}

/// Pydantic shows the value that did not fit: `input_value={'id': 'x'}, input_type=dict`.
fn input_value_len(after: &str) -> Option<usize> {
    const WITHIN: usize = 400;
    let within = crate::classify::text::head(after.strip_prefix('=')?, WITHIN);
    within.find(", input_type").map(|len| len + 1)
}

/// Parts of a word with colons or slashes, each judged for itself; a short word before an id belongs to the id.
fn pieces(word: &str, template: &mut Template) {
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

fn piece(piece: &str, template: &mut Template) {
    match word::judge(piece) {
        Judgement::Keep => template.plain(piece),
        Judgement::Mask(mask) => template.mask(mask, piece),
        Judgement::Digits => digits(piece, template),
    }
}

/// Letters stay, runs of digits become one mask each.
fn digits(word: &str, template: &mut Template) {
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

/// The length of a URL, or of a rooted path with what it asks for, at the front of a text.
fn url_len(rest: &str) -> Option<usize> {
    const LONGEST_SCHEME: usize = 12;
    let scheme = rest.bytes().take(LONGEST_SCHEME).take_while(|b| b.is_ascii_alphabetic() || *b == b'+').count();
    let is_url = scheme > 0 && rest[scheme..].starts_with("://");
    let is_query = rest.starts_with('/') && rest.bytes().take_while(|b| is_word_byte(*b)).any(|b| b == b'?');
    if !is_url && !is_query {
        return None;
    }
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | ')' | ']' | '}' | ',' | ';');
    let end = rest.find(ends).unwrap_or(rest.len());
    Some(rest[..end].trim_end_matches(['.', ':']).len())
}
