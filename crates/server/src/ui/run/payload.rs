//! The payload, three ways: a tree that folds, the text as it is, the bytes. Large ones by piece.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use redrive_core::json::{At, Kind, Tape};
use redrive_core::wire::{PayloadOmitted, RawJson};

use super::super::components::{bytes, panel, visible};
use super::Seen;

/// What a run's own page shows of it; the rest has a page of its own.
const PREVIEW_NODES: usize = 120;
const PREVIEW_BYTES: usize = 64 * 1024;
pub(super) const TREE_NODES: usize = 2_000;
/// Text of one piece.
pub(super) const RAW_PIECE_BYTES: usize = 32 * 1024;
pub(super) const HEX_PIECE_BYTES: usize = 4 * 1024;
const VALUE_MAX_CHARS: usize = 400;
const ROW_BYTES: usize = 16;
/// Levels that stand open.
const OPEN_LEVELS: usize = 2;

/// A payload as it is kept.
pub(super) enum Kept<'a> {
    Json(&'a str),
    Bytes(Vec<u8>),
    Omitted(&'a PayloadOmitted),
    Nothing,
}

impl<'a> Kept<'a> {
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

pub(super) fn panel_of(seen: &Seen) -> Markup {
    let body = &seen.run.body;
    let kept = Kept::of(body.payload.as_ref(), body.payload_base64.as_deref(), body.payload_omitted.as_ref());
    let page = format!("{}/payload", seen.at());
    let size = kept.bytes().len();
    let end = html! {
        "revision " (seen.run.summary.revision) " · " (bytes(size)) " · "
        a href=(format!("{page}?view=tree")) { "tree" } " · " a href=(format!("{page}?view=raw")) { "raw" } " · "
        a href=(format!("{page}?view=hex")) { "hex" }
    };
    let shown = html! { div.body { @match &kept {
        Kept::Json(text) if text.len() <= PREVIEW_BYTES => (tree(text, PREVIEW_NODES)),
        Kept::Json(_) => p.muted { "Large: read it by piece with the links above." },
        Kept::Bytes(all) => (hex(all, 0, 512)),
        Kept::Omitted(omitted) => p.muted { "Too large to send: " (bytes(usize::try_from(omitted.bytes).unwrap_or(usize::MAX)))
            ", SHA-256 " code { (visible(omitted.sha256.as_str())) } ". It can’t be replayed from here." },
        Kept::Nothing => p.muted { "None was sent." },
    } } };
    panel("payload", "Payload", &end, &shown)
}

/// Objects and arrays open and close; what goes beyond the budget is counted, not shown.
pub(super) fn tree(text: &str, nodes: usize) -> Markup {
    let Some(tape) = Tape::of(text) else { return html! { pre tabindex="0" { bdi { (visible(text)) } } } };
    let mut left = nodes;
    html! { div.tree { (value(&tape, tape.root(), 0, &mut left)) @if left == 0 { p.faint { "… there is more: see it raw." } } } }
}

fn value(tape: &Tape<'_>, at: At, level: usize, left: &mut usize) -> Markup {
    if *left == 0 {
        return html! { "…" };
    }
    *left -= 1;
    match tape.kind(at) {
        Kind::Object => {
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
        Kind::Array => {
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
        Kind::String => html! { span.string { bdi { (short(tape.raw(at))) } } },
        Kind::Other => html! { span.other { (short(tape.raw(at))) } },
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
        Some((end, _)) => format!("{}… ({})", visible(&raw[..end]), bytes(raw.len())),
        None => visible(raw).into_owned(),
    }
}

/// Rows of sixteen bytes, from a place on.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_bounded_and_its_text_is_text() {
        let html = tree(r#"{"<b>":["\u202e",1,{"deep":{"er":[]}}],"x":"<script>"}"#, 100).into_string();
        assert!(html.contains("&lt;b&gt;") && html.contains("&lt;script&gt;") && !html.contains("<script"), "{html}");
        let many = format!("[{}]", vec!["1"; 5_000].join(","));
        let html = tree(&many, 50).into_string();
        assert!(html.matches("<li>").count() <= 50 && html.contains("there is more"), "{}", html.len());
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
