//! The timeline of a run: attempts with their errors and stack traces, moves and notes.

use std::collections::BTreeSet;

use maud::{Markup, html};
use redrive_core::pattern::is_own_frame;
use redrive_core::run::StateName;
use redrive_core::time::{ClientTime, Timestamp};
use redrive_core::verdict::{Change, Verdict};
use redrive_core::wire::{AttemptView, ErrorReport, HistoryEntry, Usage};

use super::super::components::{clock, grouped, isolated, of, panel, span, state_word_badge, visible};
use super::super::links;
use super::RunPageData;

/// Attempts that are shown with their evidence; earlier ones are one line each.
const WHOLE_MAX: usize = 8;
const ENTRIES_MAX: usize = 60;
const TEXT_MAX_CHARS: usize = 2_000;

enum TimelineEntry<'a> {
    Attempt(&'a AttemptView),
    Move(&'a HistoryEntry),
}

impl TimelineEntry<'_> {
    fn at(&self) -> Timestamp {
        match self {
            Self::Attempt(attempt) => attempt.recorded_at,
            Self::Move(entry) => entry.at,
        }
    }
}

pub(super) fn panel_of(data: &RunPageData, now: Timestamp) -> Markup {
    let attempts = &data.run.body.attempts;
    let is_attempt = |entry: &&HistoryEntry| {
        attempts.iter().any(|attempt| attempt.recorded_at == entry.at && attempt.outcome == entry.event)
    };
    let moves = data.run.body.history.iter().filter(|entry| !is_attempt(entry)).map(TimelineEntry::Move);
    let mut entries: Vec<TimelineEntry<'_>> = attempts.iter().map(TimelineEntry::Attempt).chain(moves).collect();
    // Newest first, also among equal times: both lists come oldest first, and the sort is stable.
    entries.reverse();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.at()));
    let left = entries.len().saturating_sub(ENTRIES_MAX);
    let whole_from = attempts.len().saturating_sub(WHOLE_MAX);
    let body = html! {
        div.body {
            ol.timeline data-live="timeline" {
                @for entry in entries.iter().take(ENTRIES_MAX) {
                    @match entry {
                        TimelineEntry::Attempt(attempt) => (self::attempt(data, attempt, now,
                            attempts.iter().position(|one| one.attempt == attempt.attempt).is_some_and(|at| at >= whole_from))),
                        TimelineEntry::Move(entry) => (moved(entry, now)),
                    }
                }
            }
            @if left > 0 { p.muted { (grouped(left as u64)) " earlier entries are available through the API." } }
            @if let Some(older) = older(data) { p { a href=(older) rel="next" { "Show older" } } }
        }
    };
    let end = html! {
        "attempt " (data.run.summary.attempt)
        @if data.run.summary.replays > 0 { " · " (of(data.run.summary.replays.into(), "replay")) }
    };
    panel("happened", "Timeline", &end, &body)
}

/// A link to older entries, if there are any.
fn older(data: &RunPageData) -> Option<String> {
    let run = &data.run.body;
    let cursors = [
        ("attempts_cursor", &run.next_attempts_cursor),
        ("steps_cursor", &run.next_steps_cursor),
        ("history_cursor", &run.next_history_cursor),
    ];
    let given: Vec<(&str, &str)> =
        cursors.iter().filter_map(|(name, cursor)| Some((*name, cursor.as_deref()?))).collect();
    (!given.is_empty()).then(|| links::with(&data.at(), given))
}

fn attempt(data: &RunPageData, attempt: &AttemptView, now: Timestamp, whole: bool) -> Markup {
    let dot = match (attempt.outcome.as_str(), attempt.verdict.as_ref().and_then(|verdict| verdict.dead_because)) {
        ("succeeded", _) => "dot good",
        (_, Some(redrive_core::verdict::DeadBecause::Unsafe)) => "dot review",
        (_, Some(_)) => "dot dead",
        (_, None) => "dot wait",
    };
    html! {
        li {
            (clock(attempt.recorded_at, now))
            span class=(dot) {}
            div {
                b { "Attempt " (attempt.attempt) " " (attempt.outcome) }
                @if let Some(verdict) = &attempt.verdict {
                    ": " (verdict.reason) ". " span.faint { "rule " (isolated(&verdict.rule)) }
                }
                @if let Some(verdict) = &attempt.verdict { div { (isolated(&verdict.why)) (changes(verdict)) } }
                div.faint { (about(attempt)) }
                @if attempt.changed {
                    p {
                        a href=(format!("{}/attempts/{}", data.at(), attempt.attempt)) { "Payload compared with the original" }
                    }
                }
                @if whole { (evidence(attempt)) }
            }
        }
    }
}

fn evidence(attempt: &AttemptView) -> Markup {
    html! {
        @if let Some(error) = &attempt.error { (error_of(error)) }
        @if let Some(late) = &attempt.late { p.faint { "Reported after the lease expired:" } (error_of(late)) }
        @if let Some(response) = &attempt.response {
            details {
                summary { "Response" @if let Some(status) = response.status { " " (status) } }
                pre tabindex="0" { bdi {
                    @for (name, value) in &response.headers { (visible(name)) ": " (cut(&value.decode())) "\n" }
                    @if let Some(body) = &response.body { "\n" (cut(&body.decode())) }
                } }
            }
        }
        @if let Some(partial) = &attempt.partial_output { (folded_text("Partial output", &partial.decode())) }
        @if let Some(output) = &attempt.output { (folded_text("Output", output.get())) }
    }
}

fn error_of(error: &ErrorReport) -> Markup {
    let kind = error.error_type.as_ref().map(|kind| kind.decode().into_owned());
    html! {
        div.code tabindex="0" {
            bdi {
                @if let Some(kind) = &kind { (visible(kind)) ": " }
                @if let Some(status) = error.http_status { "HTTP " (status) " " }
                (cut(&error.message.decode()))
            }
            @if let Some(detail) = &error.detail { "\n" (folded(&detail.decode())) }
        }
    }
}

fn folded_text(name: &str, text: &str) -> Markup {
    html! { details { summary { (name) } pre tabindex="0" { bdi { (cut(text)) } } } }
}

/// Cut for the page; the API returns the whole text.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX_CHARS) {
        Some((end, _)) => format!("{} … ({} bytes in total)", visible(&text[..end]), grouped(text.len() as u64)),
        None => visible(text).into_owned(),
    }
}

fn about(attempt: &AttemptView) -> Markup {
    let instant = |time: &Option<ClientTime>| time.as_ref().and_then(ClientTime::instant);
    let began = attempt.began_at.or_else(|| instant(&attempt.started_at));
    let took = began.map(|began| span(instant(&attempt.ended_at).unwrap_or(attempt.recorded_at).since(began)));
    html! {
        @if let Some(worker) = &attempt.worker { "worker " (isolated(worker.as_str())) " · " }
        @for (kind, version) in &attempt.versions { (isolated(kind)) " " (isolated(version.as_str())) " · " }
        @if let Some(model) = &attempt.model { (isolated(model.as_str())) " · " }
        @if let Some(tool) = &attempt.tool { "tool " (isolated(tool.as_str())) " · " }
        @if let Some(step) = &attempt.step { "step " (isolated(step.as_str())) " · " }
        @if let Some(usage) = &attempt.usage { (used(usage)) }
        @if let Some(took) = took { "took " (took) " · " }
        "revision " (attempt.revision) @if attempt.replay { " · replay" }
        @if let Some(finish) = &attempt.finish_reason { " · finish reason " (isolated(finish.as_str())) }
    }
}

fn used(usage: &Usage) -> Markup {
    html! {
        @if usage.input_tokens.is_some() || usage.output_tokens.is_some() {
            (grouped(usage.input_tokens.unwrap_or(0))) " in / " (grouped(usage.output_tokens.unwrap_or(0))) " out · "
        }
        @if let Some(cost) = usage.cost_usd { "$" (format!("{cost:.4}")) " · " }
    }
}

fn changes(verdict: &Verdict) -> Markup {
    html! {
        @if !verdict.changes.is_empty() {
            " Changes for the retry: "
            @for (at, change) in verdict.changes.iter().enumerate() { @if at > 0 { ", " } (isolated(&words(change))) }
            "."
        }
        @if let Some(model) = &verdict.target.model { " It goes to model " (isolated(model.as_str())) "." }
        @if let Some(agent) = &verdict.target.agent { " It goes to agent " (isolated(agent.as_str())) "." }
        @if let Some(queue) = &verdict.target.queue { " It goes to queue " (isolated(queue.as_str())) "." }
    }
}

pub(super) fn words(change: &Change) -> String {
    match change {
        Change::CompressContext { to_tokens: Some(tokens) } => {
            format!("context compressed to {} tokens", grouped(*tokens))
        }
        Change::CompressContext { to_tokens: None } => "context compressed".into(),
        Change::AddInstruction { text } => format!("instruction added (“{}”)", super::super::components::line(text)),
        Change::AddConstraint { text } => format!("constraint added (“{}”)", super::super::components::line(text)),
        Change::AddLastError { .. } => "the last error added".into(),
        Change::ScaleOutputBudget { factor } => format!("output budget × {factor}"),
        Change::SetModel { model } => format!("model {model}"),
    }
}

fn moved(entry: &HistoryEntry, now: Timestamp) -> Markup {
    let dot = match entry.to {
        Some(StateName::Dead) => "dot dead",
        Some(StateName::Review) => "dot review",
        Some(StateName::Scheduled | StateName::Running) => "dot wait",
        Some(StateName::Succeeded | StateName::Recovered) => "dot good",
        Some(StateName::Resolved | StateName::Discarded | StateName::Merged) | None => "dot",
    };
    html! {
        li {
            (clock(entry.at, now))
            span class=(dot) {}
            div {
                b { (isolated(&entry.event.replace('_', " "))) } " by " (isolated(&entry.actor))
                @if let Some(to) = entry.to.filter(|to| Some(*to) != entry.from) { " → " (state_word_badge(to)) }
                @if let Some(note) = &entry.note { div { (isolated(&cut(&note.decode()))) } }
            }
        }
    }
}

const LINES_MAX: usize = 400;
/// Fewer than this are not worth folding.
const FOLD_FROM: usize = 3;

struct StackPiece<'a> {
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

/// A line of code below a frame belongs to that frame.
fn pieces(trace: &str) -> Vec<StackPiece<'_>> {
    let mut pieces: Vec<StackPiece<'_>> = Vec::new();
    let mut in_library = false;
    for line in trace.lines().take(LINES_MAX) {
        in_library = match is_own_frame(line) {
            Some(own) => !own,
            None => in_library && line.starts_with([' ', '\t']),
        };
        match pieces.last_mut() {
            Some(piece) if piece.library == in_library => piece.lines.push(line),
            _ => pieces.push(StackPiece { lines: vec![line], library: in_library }),
        }
    }
    pieces
}

fn frames(piece: &StackPiece<'_>) -> usize {
    piece.lines.iter().filter(|line| is_own_frame(line).is_some()).count()
}

/// ` of openai, httpx`
fn of_whom(piece: &StackPiece<'_>) -> String {
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
