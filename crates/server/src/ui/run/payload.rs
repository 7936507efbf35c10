//! A run's payload as a tree, raw or in hex; and what an attempt was sent.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use redrive_core::ids::{RunId, Tenant};
use redrive_core::json::{At, DiffOperation, JsonKind, Tape};
use redrive_core::wire::{PayloadOmitted, RawJson};

use super::super::components::{bytes, grouped, head, isolated, pager, panel, visible};
use super::super::layout::Tab;
use super::super::links;
use super::super::page::{PageContent, PageRequest};
use super::timeline::words;
use super::{RunPageData, named};
use crate::api::v1::runs::read::read_sent;
use crate::app::App;
use crate::limits::REVISION_MAX;
use crate::path::AttemptNumber;
use crate::problem::{HttpProblem, Result};
use crate::query::{FromQuery, Param, ParamKind, RawQuery, param};

/// The preview on the page of a run.
const PREVIEW_NODES: usize = 120;
const PREVIEW_BYTES: usize = 64 * 1024;
pub(super) const TREE_NODES: usize = 2_000;
/// One page of the raw and of the hex view.
pub(super) const RAW_PIECE_BYTES: usize = 32 * 1024;
pub(super) const HEX_PIECE_BYTES: usize = 4 * 1024;
const VALUE_MAX_CHARS: usize = 400;
const ROW_BYTES: usize = 16;
/// Levels that are expanded at first.
const OPEN_LEVELS: usize = 2;

/// The content of a stored payload.
pub(super) enum PayloadContent<'a> {
    Json(&'a str),
    Bytes(Vec<u8>),
    Omitted(&'a PayloadOmitted),
    Nothing,
}

impl<'a> PayloadContent<'a> {
    pub(super) fn of(json: Option<&'a RawJson>, base64: Option<&str>, omitted: Option<&'a PayloadOmitted>) -> Self {
        match (json, base64, omitted) {
            (Some(json), ..) => Self::Json(json.get()),
            (None, Some(text), _) => Self::Bytes(STANDARD.decode(text).unwrap_or_default()),
            (None, None, Some(omitted)) => Self::Omitted(omitted),
            (None, None, None) => Self::Nothing,
        }
    }

    pub(super) fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Json(text) => Cow::Borrowed(text.as_bytes()),
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::Omitted(_) | Self::Nothing => Cow::Borrowed(&[]),
        }
    }
}

pub(super) fn panel_of(data: &RunPageData) -> Markup {
    let body = &data.run.body;
    let content =
        PayloadContent::of(body.payload.as_ref(), body.payload_base64.as_deref(), body.payload_omitted.as_ref());
    let page = format!("{}/payload", data.at());
    let size = content.bytes().len();
    let end = html! {
        "revision " (data.run.summary.revision) " · " (bytes(size as u64)) " · "
        a href=(format!("{page}?view=tree")) { "tree" } " · " a href=(format!("{page}?view=raw")) { "raw" } " · "
        a href=(format!("{page}?view=hex")) { "hex" }
    };
    let shown = html! { div.body { @match &content {
        PayloadContent::Json(text) if text.len() <= PREVIEW_BYTES => (tree(text, PREVIEW_NODES)),
        PayloadContent::Json(_) => p.muted { "Too large for a preview: open it with the links above." },
        PayloadContent::Bytes(all) => (hex(all, 0, 512)),
        PayloadContent::Omitted(omitted) => p.muted { "Not stored, because it was too large to send: " (bytes(omitted.bytes))
            ", SHA-256 " code { (visible(omitted.sha256.as_str())) } ". The run can’t be replayed." },
        PayloadContent::Nothing => p.muted { "No payload was sent." },
    } } };
    panel("payload", "Payload", &end, &shown)
}

/// A tree that folds, of at most `nodes` values.
pub(super) fn tree(text: &str, nodes: usize) -> Markup {
    let Some(tape) = Tape::of(text) else { return html! { pre tabindex="0" { bdi { (visible(text)) } } } };
    let mut left = nodes;
    html! {
        div.tree {
            (value(&tape, tape.root(), 0, &mut left)) @if left == 0 { p.faint { "… truncated: open the raw view." } }
        }
    }
}

fn value(tape: &Tape<'_>, at: At, level: usize, left: &mut usize) -> Markup {
    if *left == 0 {
        return html! { "…" };
    }
    *left -= 1;
    match tape.kind(at) {
        JsonKind::Object => {
            let members: Vec<(At, At)> = tape.members(at).collect();
            branch(level, "{", "}", members.len(), left, |left| {
                let mut rows = Vec::new();
                for (key, of) in &members {
                    if *left == 0 {
                        break;
                    }
                    let name = tape.string(*key).unwrap_or_default();
                    rows.push(
                        html! { li { span.key { bdi { (visible(&name)) } } ": " (value(tape, *of, level + 1, left)) } },
                    );
                }
                rows
            })
        }
        JsonKind::Array => {
            let items: Vec<At> = tape.items(at).collect();
            branch(level, "[", "]", items.len(), left, |left| {
                let mut rows = Vec::new();
                for item in &items {
                    if *left == 0 {
                        break;
                    }
                    rows.push(html! { li { (value(tape, *item, level + 1, left)) } });
                }
                rows
            })
        }
        JsonKind::String => html! { span.string { bdi { (short(tape.raw(at))) } } },
        JsonKind::Other => html! { span.other { (short(tape.raw(at))) } },
    }
}

fn branch(
    level: usize,
    begin: &str,
    end: &str,
    all: usize,
    left: &mut usize,
    rows: impl FnOnce(&mut usize) -> Vec<Markup>,
) -> Markup {
    if all == 0 {
        return html! { (begin) (end) };
    }
    let rows = rows(left);
    html! {
        details open[level < OPEN_LEVELS] {
            summary { (begin) span.faint { " " (all) " " } (end) }
            ul { @for row in rows { (row) } }
        }
    }
}

fn short(raw: &str) -> String {
    match raw.char_indices().nth(VALUE_MAX_CHARS) {
        Some((end, _)) => format!("{}… ({})", visible(&raw[..end]), bytes(raw.len() as u64)),
        None => visible(raw).into_owned(),
    }
}

/// Rows of sixteen bytes from an offset.
pub(super) fn hex(all: &[u8], from: usize, most: usize) -> Markup {
    let from = from.min(all.len());
    let piece = &all[from..all.len().min(from.saturating_add(most))];
    let rows = piece.chunks(ROW_BYTES).enumerate().map(|(row, chunk)| {
        let hex: String = chunk.iter().map(|byte| format!("{byte:02x} ")).collect();
        let plain = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '·' };
        let text: String = chunk.iter().map(plain).collect();
        format!("{:08x}  {hex:<48} {text}\n", from + row * ROW_BYTES)
    });
    html! { pre.hex tabindex="0" { (rows.collect::<String>()) } }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PayloadView {
    Tree,
    Raw,
    Hex,
}

pub(crate) struct PayloadQuery {
    view: PayloadView,
    at: usize,
    revision: Option<u32>,
}

impl FromQuery for PayloadQuery {
    const PARAMS: &'static [Param] = &[
        param("view", ParamKind::Word, "tree, raw or hex."),
        param("at", ParamKind::Number { min: 0, max: 1 << 32 }, "From this byte on."),
        param("revision", ParamKind::Number { min: 1, max: REVISION_MAX as u64 }, "As it was."),
    ];

    fn read(given: &mut RawQuery) -> Result<Self> {
        let view = match given.take("view").as_deref() {
            None | Some("tree") => PayloadView::Tree,
            Some("raw") => PayloadView::Raw,
            Some("hex") => PayloadView::Hex,
            Some(_) => return Err(HttpProblem::invalid_parameter("view", "must be tree, raw or hex")),
        };
        let at = given.one("at", "must be a number")?.unwrap_or(0);
        let revision = given.one("revision", "must be a number")?;
        Ok(Self { view, at, revision })
    }
}

pub(crate) async fn payload_page(app: App, visit: PageRequest<(Tenant, RunId), PayloadQuery>) -> Result<PageContent> {
    let at = named(&visit.who, visit.path)?;
    let _turn = app.answers.turn(visit.who.holder()).await?;
    let PayloadQuery { view, at: from, revision } = visit.query;
    let found = app.store.revision(&at, revision).await?;
    let content = PayloadContent::of(found.payload.as_ref(), found.payload_base64.as_deref(), None);
    let all = content.bytes();
    let page = format!("{}/payload", links::run(&at.tenant, &at.run_id));
    let number = found.revision.to_string();
    let to = |view: &str, from: usize| {
        links::with(&page, [("view", view), ("revision", number.as_str()), ("at", from.to_string().as_str())])
    };
    let (body, piece) = shown(&content, &all, view, from);
    let next = piece.filter(|piece| from + piece < all.len()).map(|piece| to(word(view), from + piece));
    let earlier = (1..=found.revision).filter(|one| *one != found.revision).rev().take(20);
    let main = html! {
        (head(
            &html! { "Payload of " (isolated(at.run_id.as_str())) ", " (bytes(all.len() as u64)) },
            &html! {
                "Revision " (found.revision) " by " (isolated(&found.actor))
                ". The original bytes never change; an edit is a new revision."
            },
            &html! { a.button.primary href=(links::run(&at.tenant, &at.run_id)) { "Back to the run" } },
        ))
        div.bar {
            @for name in ["tree", "raw", "hex"] {
                a.button href=(to(name, 0)) aria-current=[(word(view) == name).then_some("true")] { (name) }
            }
            @for one in earlier {
                a href=(links::with(&page, [("view", word(view)), ("revision", one.to_string().as_str())])) { "revision " (one) }
            }
        }
        (panel("piece", if from > 0 { "Continued" } else { "Content" }, &html! {
            "from byte " (grouped(from as u64)) " of " (grouped(all.len() as u64))
        }, &body))
        (pager((from > 0).then(|| to(word(view), 0)).as_deref(), next.as_deref()))
    };
    Ok(PageContent::new(format!("Payload of {}", at.run_id), Tab::Runs, main))
}

fn word(view: PayloadView) -> &'static str {
    match view {
        PayloadView::Tree => "tree",
        PayloadView::Raw => "raw",
        PayloadView::Hex => "hex",
    }
}

/// One page of a view, and its size in bytes if the view has several.
fn shown(content: &PayloadContent<'_>, all: &[u8], view: PayloadView, from: usize) -> (Markup, Option<usize>) {
    match (view, content) {
        (_, PayloadContent::Nothing | PayloadContent::Omitted(_)) => {
            (html! { div.body.muted { "Nothing is stored." } }, None)
        }
        (PayloadView::Tree, PayloadContent::Json(text)) => (html! { div.body { (tree(text, TREE_NODES)) } }, None),
        (PayloadView::Raw, PayloadContent::Json(text)) => {
            let begin = text.floor_char_boundary(from.min(text.len()));
            let end = text.floor_char_boundary(text.len().min(begin + RAW_PIECE_BYTES));
            (
                html! { div.body { pre.wrap tabindex="0" { bdi { (visible(&text[begin..end])) } } } },
                Some((end - begin).max(1)),
            )
        }
        (PayloadView::Hex, _) | (PayloadView::Tree | PayloadView::Raw, PayloadContent::Bytes(_)) => {
            (html! { div.body { (hex(all, from, HEX_PIECE_BYTES)) } }, Some(HEX_PIECE_BYTES))
        }
    }
}

pub(crate) async fn sent_page(app: App, visit: PageRequest<(Tenant, RunId, AttemptNumber)>) -> Result<PageContent> {
    let (tenant, run_id, AttemptNumber(attempt)) = visit.path;
    let at = named(&visit.who, (tenant, run_id))?;
    let _turn = app.answers.turn(visit.who.holder()).await?;
    let found = read_sent(&app, at.clone(), attempt).await?;
    let why = html! {
        @if found.changes.is_empty() { "Sent unchanged." }
        @for change in &found.changes {
            (isolated(&words(&change.change))) @if !change.applied { " (could not be applied)" } ". "
        }
    };
    let main = html! {
        (head(
            &html! { "Payload of attempt " (found.attempt) " of " (isolated(at.run_id.as_str())) }, &why,
            &html! { a.button.primary href=(links::run(&at.tenant, &at.run_id)) { "Back to the run" } },
        ))
        (panel("diff", "Changes from the original", &html! { "revision " (found.revision) }, &html! {
            div.body { (diff(&found.diff, found.diff_cut)) }
        }))
        @if let Some(payload) = &found.payload {
            (panel("sent", "As sent", &html! {}, &html! { div.body { (tree(payload.get(), TREE_NODES)) } }))
        }
    };
    Ok(PageContent::new(format!("Attempt {attempt} of {}", at.run_id), Tab::Runs, main))
}

/// The old and the new value at each pointer.
pub(crate) fn diff(operations: &[DiffOperation], more: bool) -> Markup {
    html! {
        @if operations.is_empty() { p.muted { "No differences." } } @else {
            pre.diff tabindex="0" {
                @for DiffOperation { path, old, new, .. } in operations {
                    span.faint { bdi { (visible(if path.is_empty() { "the whole payload" } else { path })) } } "\n"
                    @if let Some(old) = old { del { bdi { "- " (visible(old)) } } }
                    @if let Some(new) = new { ins { bdi { "+ " (visible(new)) } } }
                }
            }
        }
        @if more { p.muted { "Not all differences are listed." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_bounded_and_its_text_is_text() {
        let html = tree(r#"{"<b>":["\u202e",1,{"deep":{"er":[]}}],"x":"<script>"}"#, 100).into_string();
        assert!(html.contains("&lt;b&gt;") && html.contains("&lt;script&gt;") && !html.contains("<script"), "{html}");
        let many = format!("[{}]", vec!["1"; 5_000].join(","));
        let html = tree(&many, 50).into_string();
        assert!(html.matches("<li>").count() <= 50 && html.contains("truncated"), "{}", html.len());
    }

    #[test]
    fn bytes_are_shown_in_rows_with_their_place() {
        let html = hex(b"0123456789abcdef\0<", 0, 100).into_string();
        assert!(
            html.contains("00000000  30 31") && html.contains("00000010  00 3c") && html.contains("·&lt;"),
            "{html}"
        );
        assert!(hex(b"abc", 99, 10).into_string().contains("hex"));
    }
}
