//! A stack trace folded to the user's own code: runs of library frames become one line that opens.

use std::collections::BTreeSet;

use maud::{Markup, html};
use redrive_core::pattern::is_own_frame;

use super::super::components::visible;

const LINES_MAX: usize = 400;
/// Fewer than this are not worth folding.
const FOLD_FROM: usize = 3;

struct Piece<'a> {
    lines: Vec<&'a str>,
    library: bool,
}

pub(super) fn folded(trace: &str) -> Markup {
    let all = trace.lines().count();
    html! {
        @for piece in pieces(trace) {
            @if piece.library && piece.lines.len() >= FOLD_FROM {
                details.fold {
                    summary { "(" (frames(&piece)) " frames" (of_whom(&piece)) " folded)" }
                    bdi.faint { (visible(&piece.lines.join("\n"))) }
                }
            } @else { bdi { (visible(&piece.lines.join("\n"))) "\n" } }
        }
        @if all > LINES_MAX { span.faint { "… " (all - LINES_MAX) " more lines" } }
    }
}

/// A line of code below a frame is the frame's.
fn pieces(trace: &str) -> Vec<Piece<'_>> {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let mut in_library = false;
    for line in trace.lines().take(LINES_MAX) {
        in_library = match is_own_frame(line) {
            Some(own) => !own,
            None => in_library && line.starts_with([' ', '\t']),
        };
        match pieces.last_mut() {
            Some(piece) if piece.library == in_library => piece.lines.push(line),
            _ => pieces.push(Piece { lines: vec![line], library: in_library }),
        }
    }
    pieces
}

fn frames(piece: &Piece<'_>) -> usize {
    piece.lines.iter().filter(|line| is_own_frame(line).is_some()).count()
}

/// ` of openai, httpx`
fn of_whom(piece: &Piece<'_>) -> String {
    let names: BTreeSet<&str> = piece.lines.iter().filter_map(|line| package(line)).take(20).collect();
    let names: Vec<&str> = names.into_iter().take(3).collect();
    if names.is_empty() { String::new() } else { format!(" of {}", visible(&names.join(", "))) }
}

fn package(line: &str) -> Option<&str> {
    let folders = ["site-packages/", "dist-packages/", "node_modules/"];
    let after = folders.iter().find_map(|folder| line.split_once(folder).map(|(_, after)| after))?;
    after.split(['/', '"', '.', ')']).next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "Traceback (most recent call last):\n  File \"/srv/app/agent.py\", line 12, in run_turn\n    reply = ask()\n  File \"/venv/lib/python3.12/site-packages/openai/_client.py\", line 3, in post\n    return self.send()\n  File \"/venv/lib/python3.12/site-packages/httpx/_client.py\", line 9, in send\n    raise x\nValueError: <b>";

    #[test]
    fn frames_of_libraries_are_folded_and_ones_own_stay() {
        let html = folded(TRACE).into_string();
        assert!(html.contains("(2 frames of httpx, openai folded)"), "{html}");
        let open = html.split("<details").next().unwrap();
        assert!(open.contains("agent.py") && !open.contains("httpx"), "{html}");
        assert!(html.contains("ValueError: &lt;b&gt;"), "{html}");
    }

    #[test]
    fn a_text_without_frames_stays_as_it_is() {
        assert_eq!(folded("one\ntwo").into_string(), "<bdi>one\ntwo\n</bdi>");
    }
}
