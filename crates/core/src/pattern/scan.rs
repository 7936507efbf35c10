//! Goes over a message once and writes its template: a word is judged by itself ([`super::word`]) and by what the
//! words before it say ([`super::cue`]).

use super::cue::Cue;
use super::kind::Mask;
use super::parts::{self, Token};
use super::template::Template;
use super::word::{self, Judgement};

/// Quoted text longer than this, with this many spaces, is somebody's data.
const LONGEST_NAME: usize = 80;
const PROSE_SPACES: usize = 6;
/// How far a closing quote is looked for.
const QUOTE_WITHIN: usize = 400;
/// How many words back a word may still explain a quoted value.
const REMEMBERED: usize = 6;

/// Masks a message into a template.
pub(super) fn mask_into(message: &str, template: &mut Template) {
    let mut scanner = Scanner {
        message,
        at: 0,
        cues: [Cue::default(); REMEMBERED],
        after_number: false,
        after_equals: false,
        first: true,
    };
    while scanner.at < message.len() && !template.is_full() {
        scanner.step(template);
    }
}

/// A file of the user's code is named without its path; a build's hash in the name is masked.
pub(super) fn mask_file(name: &str, template: &mut Template) {
    let (stem, ending) = name.split_at(name.find('.').unwrap_or(name.len()));
    parts::piece(stem, template);
    template.plain(ending);
}

struct Scanner<'a> {
    message: &'a str,
    at: usize,
    /// What the last words said, the latest first.
    cues: [Cue; REMEMBERED],
    after_number: bool,
    after_equals: bool,
    first: bool,
}

impl Scanner<'_> {
    fn step(&mut self, template: &mut Template) {
        let byte = self.message.as_bytes()[self.at];
        if byte.is_ascii_whitespace() || byte == 0 {
            self.space(template);
        } else if parts::is_word_byte(byte) {
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

    fn space(&mut self, template: &mut Template) {
        template.space();
        self.at += 1;
        let rest = &self.message.as_bytes()[self.at..];
        // `invalid user  from 10.0.0.1`: the name is empty, the place for it is there.
        if self.cues[0].has(Cue::USER) && matches!(rest, [b' ', next, ..] if *next != b' ') {
            template.mask(Mask::Name, "");
            self.remember(Cue::default());
        }
    }

    /// Masks a quoted text that is a value, and says whether it did.
    fn quote(&mut self, quote: u8, template: &mut Template) -> bool {
        let start = self.at + 1;
        let within = &self.message.as_bytes()[start..self.message.len().min(start + QUOTE_WITHIN)];
        let Some(len) = memchr::memchr(quote, within) else { return false };
        let inside = &self.message[start..start + len];
        let prose = len > LONGEST_NAME && inside.bytes().filter(|b| *b == b' ').count() >= PROSE_SPACES;
        let assigned = self.after_equals && !self.cues[0].has(Cue::NAMING);
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
        let any = |cues: &[Cue], cue: Cue| cues.iter().any(|c| c.has(cue));
        (any(&self.cues[..2], Cue::VALUE) || any(&self.cues, Cue::READING)) && !any(&self.cues, Cue::NAMED)
    }

    fn word(&mut self, template: &mut Template) {
        let rest = &self.message[self.at..];
        let token = Token::at_front_of(rest);
        if let Some(len) = parts::url_len(rest, &token) {
            template.mask(Mask::Url, &rest[..len]);
            return self.pass(len, Cue::default());
        }
        if token.word.is_empty() {
            template.plain(&rest[..token.len]);
            self.at += token.len;
            return;
        }
        if self.after_number && parts::is_unit(token.word) {
            // `512 MB` and `1 GB` differ in their number only.
            return self.pass(token.word.len(), Cue::default());
        }
        if token.word == "input_value"
            && let Some(len) = parts::input_value_len(&rest[token.word.len()..])
        {
            template.plain("input_value=");
            template.mask(Mask::Text, &rest[token.word.len() + 1..token.word.len() + len]);
            return self.pass(token.word.len() + len, Cue::default());
        }
        self.write(&token, &rest[token.word.len()..], template);
        self.pass(token.word.len(), Cue::of(token.word));
        self.after_number = token.word.ends_with(|c: char| c.is_ascii_digit());
    }

    fn write(&mut self, token: &Token<'_>, after: &str, template: &mut Template) {
        let word = token.word;
        if token.digits && self.is_code(word) {
            return template.plain(word);
        }
        if let Some(mask) = self.by_neighbour(token, after) {
            return template.mask(mask, word);
        }
        if token.is_plain_word() {
            return template.plain(word);
        }
        match word::judge(word) {
            Judgement::Keep if token.colons && !word.contains("::") => parts::pieces(word, template),
            Judgement::Keep => template.plain(word),
            Judgement::Mask(mask) => template.mask(mask, word),
            Judgement::Digits if word.contains([':', '/']) => parts::pieces(word, template),
            Judgement::Digits => parts::digits(word, template),
        }
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
            return parts::value_mask(cue, word);
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
        if whom && parts::is_somebody(word) {
            return Some(Mask::Name);
        }
        if word.len() == 3 && parts::is_date_word(word, after) {
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
