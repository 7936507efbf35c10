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
    let cues = [Cue::default(); REMEMBERED];
    let mut scanner =
        Scanner { message, at: 0, kept_from: 0, cues, after_number: false, after_equals: false, first: true };
    while scanner.at < message.len() && !template.is_full() {
        scanner.step(template);
    }
    scanner.flush(template);
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
    /// What stands between here and `at` stays as it is and is written when something else comes.
    kept_from: usize,
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
        if let Some(len) = parts::url_len(rest, &token) {
            self.mask(Mask::Url, len, template);
            return self.pass(len, Cue::default());
        }
        if self.after_number && parts::is_unit(word) {
            // `512 MB` and `1 GB` differ in their number only.
            self.flush(template);
            self.kept_from += word.len();
            return self.pass(word.len(), Cue::default());
        }
        if word == "input_value"
            && let Some(len) = parts::input_value_len(&rest[word.len()..])
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
            Judgement::Keep if token.colons && !word.contains("::") => self.in_parts(word, template, parts::pieces),
            Judgement::Keep => {}
            Judgement::Mask(mask) => self.mask(mask, word.len(), template),
            Judgement::Digits if word.contains([':', '/']) => self.in_parts(word, template, parts::pieces),
            Judgement::Digits => self.in_parts(word, template, parts::digits),
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
