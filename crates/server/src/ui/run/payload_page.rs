//! `/runs/{tenant}/{run_id}/payload`: a payload of any revision, as a tree, as text or as bytes, a piece at a time.

use maud::{Markup, html};
use redrive_core::ids::{RunId, Tenant};

use super::super::components::{bytes, grouped, head, pager, panel, said, visible};
use super::super::layout::Tab;
use super::super::links;
use super::super::page::{Sheet, Visit};
use super::named;
use super::payload::{HEX_PIECE_BYTES, Kept, RAW_PIECE_BYTES, TREE_NODES, hex, tree};
use crate::app::App;
use crate::limits::REVISION_MAX;
use crate::problem::{Problem, Result};
use crate::query::{FromQuery, Given, Kind, Param, param};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Tree,
    Raw,
    Hex,
}

pub(crate) struct PayloadQuery {
    view: View,
    at: usize,
    revision: Option<u32>,
}

impl FromQuery for PayloadQuery {
    const PARAMS: &'static [Param] = &[
        param("view", Kind::Word, "tree, raw or hex."),
        param("at", Kind::Number { min: 0, max: 1 << 32 }, "From this byte on."),
        param("revision", Kind::Number { min: 1, max: REVISION_MAX as u64 }, "As it was."),
    ];

    fn read(given: &mut Given) -> Result<Self> {
        let view = match given.take("view").as_deref() {
            None | Some("tree") => View::Tree,
            Some("raw") => View::Raw,
            Some("hex") => View::Hex,
            Some(_) => return Err(Problem::invalid_parameter("view", "must be tree, raw or hex")),
        };
        let at = given.one("at", "must be a number")?.unwrap_or(0);
        let revision = given.one("revision", "must be a number")?;
        Ok(Self { view, at, revision })
    }
}

pub(crate) async fn get(app: App, visit: Visit<(Tenant, RunId), PayloadQuery>) -> Result<Sheet> {
    let at = named(&visit.who, visit.path)?;
    let _turn = app.answers.turn(visit.who.holder()).await?;
    let PayloadQuery { view, at: from, revision } = visit.query;
    let found = app.store.revision(&at, revision).await?;
    let kept = Kept::of(found.payload.as_ref(), found.payload_base64.as_deref(), None);
    let all = kept.bytes();
    let page = format!("{}/payload", links::run(&at.tenant, &at.run_id));
    let number = found.revision.to_string();
    let to = |view: &str, from: usize| {
        links::with(&page, [("view", view), ("revision", number.as_str()), ("at", from.to_string().as_str())])
    };
    let (body, piece) = shown(&kept, &all, view, from);
    let next = piece.filter(|piece| from + piece < all.len()).map(|piece| to(word(view), from + piece));
    let earlier = (1..=found.revision).filter(|one| *one != found.revision).rev().take(20);
    let main = html! {
        (head(
            &html! { "Payload of " (said(at.run_id.as_str())) ", " (bytes(all.len())) },
            &html! {
                "Revision " (found.revision) " by " (said(&found.actor))
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
        (panel("piece", if from > 0 { "A piece" } else { "From the beginning" }, &html! {
            "byte " (grouped(from as u64)) " of " (grouped(all.len() as u64))
        }, &body))
        (pager((from > 0).then(|| to(word(view), 0)).as_deref(), next.as_deref()))
    };
    Ok(Sheet::new(format!("Payload of {}", at.run_id), Tab::Runs, main))
}

fn word(view: View) -> &'static str {
    match view {
        View::Tree => "tree",
        View::Raw => "raw",
        View::Hex => "hex",
    }
}

/// And how many bytes a piece has, where it is shown by piece.
fn shown(kept: &Kept<'_>, all: &[u8], view: View, from: usize) -> (Markup, Option<usize>) {
    match (view, kept) {
        (_, Kept::Nothing | Kept::Omitted(_)) => (html! { div.body.muted { "Nothing is kept here." } }, None),
        (View::Tree, Kept::Json(text)) => (html! { div.body { (tree(text, TREE_NODES)) } }, None),
        (View::Raw, Kept::Json(text)) => {
            let begin = text.floor_char_boundary(from.min(text.len()));
            let end = text.floor_char_boundary(text.len().min(begin + RAW_PIECE_BYTES));
            (
                html! { div.body { pre.wrap tabindex="0" { bdi { (visible(&text[begin..end])) } } } },
                Some((end - begin).max(1)),
            )
        }
        (View::Hex, _) | (View::Tree | View::Raw, Kept::Bytes(_)) => {
            (html! { div.body { (hex(all, from, HEX_PIECE_BYTES)) } }, Some(HEX_PIECE_BYTES))
        }
    }
}
