//! Error texts by line: stack frames, source code, causes, log noise.

/// At most `max` bytes from the front, cut between characters.
pub(crate) fn head(all: &str, max: usize) -> &str {
    &all[..all.floor_char_boundary(max)]
}

/// The front and the back of a text; the back is empty if the front holds all of it.
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
    LogNoise,
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
        if !alone && is_log_noise(trimmed) { LineKind::LogNoise } else { LineKind::Plain }
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
fn is_log_noise(trimmed: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_source_lines_are_recognised() {
        let trace = "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in f\n    raise TimeoutError(\n      ^^^^\nKeyError: 'x'\n    at run (/app/x.js:1:2)";
        let kinds: Vec<LineKind> = Lines::new(trace).map(|(_, kind)| kind).collect();
        use LineKind::{Code, Frame, Plain};
        assert_eq!(kinds, [Plain, Frame, Code, Code, Plain, Frame]);
    }
}
