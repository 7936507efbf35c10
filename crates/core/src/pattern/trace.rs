//! Stack traces: the message apart from the frames, and of the frames those in the user's own code.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::scan;
use super::template::Template;
use crate::classify::text::{self, LineKind, Lines};

/// Frames nearest to the failure say most; the entry point differs from worker to worker.
const FRAMES_KEPT: usize = 4;

/// Searches are made once: a trace has many frames.
type Finders<const N: usize> = LazyLock<[Finder<'static>; N]>;

static PYTHON_LIBRARIES: Finders<7> = LazyLock::new(|| {
    ["site-packages", "dist-packages", "/lib/python", "\\lib\\", "\\Lib\\", "<frozen", "<string>"].map(Finder::new)
});
static JAVASCRIPT_LIBRARIES: Finders<5> =
    LazyLock::new(|| ["node_modules", "node:", "internal/", "<anonymous>", "webpack/bootstrap"].map(Finder::new));

fn is_within(path: &str, libraries: &[Finder<'_>]) -> bool {
    libraries.iter().any(|library| library.find(path.as_bytes()).is_some())
}

/// A place in the user's own code, without its line number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) file: &'a str,
    pub(super) function: &'a str,
}

/// Frames as they stand in a trace. Python puts the failing one last, JavaScript first.
#[derive(Debug, Default)]
pub(super) struct Frames<'a> {
    python: Vec<Frame<'a>>,
    javascript: Vec<Frame<'a>>,
}

impl<'a> Frames<'a> {
    fn add(&mut self, line: &'a str) {
        let trimmed = line.trim();
        if let Some(frame) = python_frame(trimmed) {
            if self.python.len() == FRAMES_KEPT {
                self.python.remove(0);
            }
            self.python.push(frame);
        } else if let Some(frame) = javascript_frame(trimmed)
            && self.javascript.len() < FRAMES_KEPT
        {
            self.javascript.push(frame);
        }
    }

    /// The frames of a trace whose message comes from another field.
    pub(super) fn add_all(&mut self, trace: &'a str) {
        Lines::new(trace).filter(|(_, kind)| *kind == LineKind::Frame).for_each(|(line, _)| self.add(line));
    }

    pub(super) fn chosen(&self) -> impl Iterator<Item = Frame<'a>> + '_ {
        self.python.iter().rev().chain(&self.javascript).take(FRAMES_KEPT).copied()
    }
}

/// Whose code a line of a trace stands in: true for the user's own; none where the line is no frame.
pub fn is_own_frame(line: &str) -> Option<bool> {
    let trimmed = line.trim();
    if text::is_python_frame(trimmed) {
        return Some(python_frame(trimmed).is_some());
    }
    text::is_other_frame(trimmed).then(|| javascript_frame(trimmed).is_some())
}

/// Writes the message of a text into the template and collects the frames.
pub(super) fn read<'a>(all: &'a str, template: &mut Template, frames: &mut Frames<'a>) {
    let mut first = true;
    for (line, kind) in Lines::new(all) {
        match kind {
            LineKind::Frame => frames.add(line),
            LineKind::Code | LineKind::Wraps => {}
            // A log line of no weight beside the error comes and goes.
            LineKind::LogNoise if !first => {}
            LineKind::Plain | LineKind::Cause | LineKind::LogNoise => {
                if !line.trim().is_empty() && !line.starts_with("Traceback (most recent call last)") {
                    if !first {
                        template.space();
                    }
                    scan::mask_into(line.trim(), template);
                    first = false;
                }
            }
        }
    }
}

/// `File "/srv/app/tools/refund.py", line 12, in refund`
fn python_frame(line: &str) -> Option<Frame<'_>> {
    if !text::is_python_frame(line) {
        return None;
    }
    let (path, after) = line.strip_prefix("File \"")?.split_once('"')?;
    let function = after.rsplit_once(", in ").map_or("", |(_, name)| name.trim());
    (!is_within(path, PYTHON_LIBRARIES.as_slice())).then(|| Frame { file: file_name(path), function })
}

/// `at charge (/srv/app/tools/charge.js:10:5)`, `at async file:///app/run.mjs:3:1`
fn javascript_frame(line: &str) -> Option<Frame<'_>> {
    let call = line.strip_prefix("at ")?;
    let (function, place) = match call.split_once(" (") {
        Some((function, place)) => (function, place.trim_end_matches(')')),
        None => ("", call),
    };
    let path = strip_position(place.trim_start_matches("async ").trim_start_matches("file://"))?;
    let function = function.trim_start_matches("async ").trim_start_matches("new ");
    (!is_within(path, JAVASCRIPT_LIBRARIES.as_slice())).then(|| Frame { file: file_name(path), function })
}

/// `x.js:10:5` without its line and column; nothing without one.
fn strip_position(place: &str) -> Option<&str> {
    let numbers = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (before, last) = place.rsplit_once(':').filter(|(_, last)| numbers(last))?;
    let _ = last;
    Some(before.rsplit_once(':').filter(|(_, line)| numbers(line)).map_or(before, |(path, _)| path))
}

/// Where a program is installed differs from machine to machine.
fn file_name(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.split('?').next().unwrap_or(name)
}
