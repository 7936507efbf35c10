//! Reading error texts: their ends, their lines (which are frames, which are chatter), their letters.

/// At most `max` bytes from the front, cut between characters.
pub(crate) fn head(all: &str, max: usize) -> &str {
    &all[..all.floor_char_boundary(max)]
}

/// The front and the back of a text; the back is empty if the front holds everything.
pub(crate) fn ends(all: &str, head_max: usize, tail_max: usize) -> (&str, &str) {
    if all.len() <= head_max + tail_max {
        return (all, "");
    }
    (head(all, head_max), &all[all.ceil_char_boundary(all.len() - tail_max)..])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    Plain,
    /// A line of a stack trace that names a place in code.
    Frame,
    /// Source code that a trace shows below a frame.
    Code,
    /// "During handling of the above exception…": what follows wraps what came before.
    Wraps,
    /// "Caused by: …": what follows is nearer to the root.
    Cause,
    /// A log line of a level below warning.
    Chatter,
}

/// The lines of a text, each with its kind.
pub(crate) struct Lines<'a> {
    rest: Option<&'a str>,
    /// Indentation of the Python frame above, whose source line may follow.
    frame_indent: Option<usize>,
    first: bool,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: Some(text), frame_indent: None, first: true }
    }

    fn kind(&mut self, line: &str) -> LineKind {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let under_frame = self.frame_indent.take();
        if is_python_frame(trimmed) {
            self.frame_indent = Some(indent);
            return LineKind::Frame;
        }
        if let Some(frame) = under_frame
            && indent > frame
        {
            // A statement may go on over several lines.
            self.frame_indent = Some(frame);
            return LineKind::Code;
        }
        if is_marker(trimmed) || trimmed.starts_with("raise ") {
            return LineKind::Code;
        }
        if !self.first && is_other_frame(trimmed) {
            return LineKind::Frame;
        }
        if trimmed.starts_with("During handling of the above exception")
            || trimmed.starts_with("The above exception was the direct cause")
        {
            return LineKind::Wraps;
        }
        if trimmed.starts_with("Caused by") || trimmed.starts_with("[cause]") {
            return LineKind::Cause;
        }
        // The only line is the error, whatever its level.
        let alone = self.first && self.rest.is_none();
        if !alone && is_chatter(trimmed) { LineKind::Chatter } else { LineKind::Plain }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (&'a str, LineKind);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest?;
        let (line, after) = match memchr::memchr(b'\n', rest.as_bytes()) {
            Some(end) => (&rest[..end], Some(&rest[end + 1..])),
            None => (rest, None),
        };
        self.rest = after;
        let kind = self.kind(line);
        self.first = false;
        Some((line, kind))
    }
}

/// `File "/app/worker.py", line 18, in run`
pub(crate) fn is_python_frame(trimmed: &str) -> bool {
    trimmed.starts_with("File \"") && trimmed.contains(", line ")
}

/// A frame as JavaScript, Java, .NET, Go or Rust print it.
pub(crate) fn is_other_frame(trimmed: &str) -> bool {
    let Some(first) = trimmed.bytes().next() else { return false };
    match first {
        b'a' => trimmed.strip_prefix("at ").is_some_and(|call| call.contains('(') || ends_in_line_number(call)),
        b'.' => trimmed.starts_with("... ") && trimmed.ends_with(" more"),
        b'/' => trimmed.contains(".go:"),
        b'g' => trimmed.starts_with("goroutine "),
        _ => false,
    }
}

fn ends_in_line_number(call: &str) -> bool {
    let line = call.trim_end().trim_end_matches(|c: char| c.is_ascii_digit());
    line.len() < call.trim_end().len() && line.ends_with(':')
}

/// `    ^^^^^^~~~~` below a source line.
fn is_marker(trimmed: &str) -> bool {
    !trimmed.is_empty() && trimmed.bytes().all(|b| matches!(b, b'^' | b'~' | b' ' | b'\r'))
}

/// Only the front of a line tells its level.
fn is_chatter(trimmed: &str) -> bool {
    const LEVEL_WITHIN: usize = 48;
    let front = &trimmed.as_bytes()[..trimmed.len().min(LEVEL_WITHIN)];
    let is_level = |at: usize| {
        const LEVELS: [&[u8]; 3] = [b"INFO", b"DEBUG", b"TRACE"];
        let apart = at == 0 || !front[at - 1].is_ascii_alphabetic();
        let ends = |level: &[u8]| !front.get(at + level.len()).is_some_and(u8::is_ascii_alphabetic);
        apart && LEVELS.iter().any(|level| front[at..].starts_with(level) && ends(level))
    };
    front.iter().enumerate().any(|(at, byte)| match byte {
        b'I' | b'D' | b'T' => is_level(at),
        b'[' => front[at..].starts_with(b"[info]") || front[at..].starts_with(b"[debug]"),
        _ => false,
    })
}

/// How a letter stands to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joint {
    /// Within a word.
    None,
    /// A hump of camel case.
    Hump,
    /// One `_` or `-` stands between: both are parts of one name.
    Glue,
    /// Something stands between: a space, a sign, the end of a line.
    Gap,
}

/// Letters and digits in lower case, each with how it joins the one before.
/// Escapes of JSON strings and terminal colours count as gaps.
pub(crate) fn squash(line: &str, letters: &mut Vec<u8>, joints: &mut Vec<Joint>) {
    // Room for all of it at once, so that no letter has to ask for it.
    let already = letters.len();
    letters.resize(already + line.len(), 0);
    joints.resize(already + line.len(), Joint::None);
    let written = already + squash_into(line, &mut letters[already..], &mut joints[already..]);
    letters.truncate(written);
    joints.truncate(written);
}

/// Writes what [`squash`] finds into slices as long as the line, and says how much it was.
fn squash_into(line: &str, letters: &mut [u8], joints: &mut [Joint]) -> usize {
    let bytes = line.as_bytes();
    let (mut written, mut at) = (0, 0);
    let (mut joint, mut before) = (Joint::Gap, Before::Other);
    while at < bytes.len() && written < letters.len() && written < joints.len() {
        let byte = bytes[at];
        at += 1;
        match KINDS[usize::from(byte)] {
            Kind::Lower => {
                (letters[written], joints[written]) = (byte, joint);
                written += 1;
                (joint, before) = (Joint::None, Before::Lower);
            }
            Kind::Digit => {
                (letters[written], joints[written]) = (byte, joint);
                written += 1;
                (joint, before) = (Joint::None, Before::Other);
            }
            Kind::Upper => {
                let next_is_lower = || bytes.get(at).is_some_and(u8::is_ascii_lowercase);
                let hump = before == Before::Lower || (before == Before::Upper && next_is_lower());
                (letters[written], joints[written]) = (byte | 0x20, if hump { Joint::Hump } else { joint });
                written += 1;
                (joint, before) = (Joint::None, Before::Upper);
            }
            Kind::Glue => {
                joint = if joint == Joint::None { Joint::Glue } else { Joint::Gap };
                before = Before::Other;
            }
            Kind::Gap => (joint, before) = (Joint::Gap, Before::Other),
            Kind::Escape => {
                at += if byte == b'\\' { escape_len(&bytes[at..]) } else { colour_len(&bytes[at..]) };
                (joint, before) = (Joint::Gap, Before::Other);
            }
            Kind::Wide => {
                let width = bytes[at..].iter().take_while(|b| (0x80..0xc0).contains(*b)).count();
                // Letters of other scripts stand for themselves; typographic quotes and dashes are gaps.
                if line.get(at - 1..).and_then(|rest| rest.chars().next()).is_some_and(char::is_alphabetic) {
                    letters[written..=written + width].copy_from_slice(&bytes[at - 1..at + width]);
                    joints[written] = Joint::Gap;
                    written += width + 1;
                }
                at += width;
                (joint, before) = (Joint::Gap, Before::Other);
            }
        }
    }
    written
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Lower,
    Upper,
    Other,
}

#[derive(Clone, Copy)]
enum Kind {
    Lower,
    Upper,
    Digit,
    /// `_` and `-`.
    Glue,
    Gap,
    /// A backslash, or the escape before a colour.
    Escape,
    /// The first byte of a character beyond ASCII.
    Wide,
}

const KINDS: [Kind; 256] = {
    let mut table = [Kind::Gap; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' => Kind::Lower,
            b'A'..=b'Z' => Kind::Upper,
            b'0'..=b'9' => Kind::Digit,
            b'_' | b'-' => Kind::Glue,
            b'\\' | 0x1b => Kind::Escape,
            0x80.. => Kind::Wide,
            _ => Kind::Gap,
        };
        byte += 1;
    }
    table
};

/// How much of a JSON escape to step over: `\n` is a gap, not the letter n. `\new` in a path is taken for one too;
/// it costs a letter.
fn escape_len(after: &[u8]) -> usize {
    match after.first() {
        Some(b'n' | b't' | b'r' | b'"' | b'\'') => 1,
        Some(b'u') if after.len() >= 5 && after[1..5].iter().all(u8::is_ascii_hexdigit) => 5,
        _ => 0,
    }
}

fn colour_len(after: &[u8]) -> usize {
    if after.first() != Some(&b'[') {
        return 0;
    }
    let parameters = after[1..].iter().take(16).take_while(|b| b.is_ascii_digit() || **b == b';').count();
    1 + parameters + usize::from(after.get(1 + parameters).is_some_and(u8::is_ascii_alphabetic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squashed(line: &str) -> String {
        let (mut letters, mut joints) = (Vec::new(), Vec::new());
        squash(line, &mut letters, &mut joints);
        let mut out = String::new();
        for (letter, joint) in letters.into_iter().zip(joints) {
            if joint != Joint::None && !out.is_empty() {
                out.push(' ');
            }
            out.push(letter as char);
        }
        out
    }

    #[test]
    fn one_wording_in_four_spellings_reads_the_same() {
        for spelling in ["DEADLINE_EXCEEDED", "deadline exceeded", "DeadlineExceeded", "deadline-exceeded"] {
            assert_eq!(squashed(spelling).replace(' ', ""), "deadlineexceeded");
        }
        assert_eq!(squashed("JSONDecodeError: model's\\nname"), "json decode error model s name");
        assert_eq!(squashed("\u{1b}[31mboom\u{1b}[0m"), "boom");
    }

    #[test]
    fn frames_and_their_source_are_told_from_the_error() {
        let trace = "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in f\n    raise TimeoutError(\n      ^^^^\nKeyError: 'x'\n    at run (/app/x.js:1:2)";
        let kinds: Vec<LineKind> = Lines::new(trace).map(|(_, kind)| kind).collect();
        use LineKind::{Code, Frame, Plain};
        assert_eq!(kinds, [Plain, Frame, Code, Code, Plain, Frame]);
    }
}
