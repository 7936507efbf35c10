//! `/runs/{tenant}/{run_id}/attempts/{attempt}`: what an attempt got, against its revision's payload.

use maud::{Markup, html};
use redrive_core::ids::{RunId, Tenant};
use redrive_core::json::Operation;

use super::super::components::{head, panel, said, visible};
use super::super::layout::Tab;
use super::super::links;
use super::super::page::{Sheet, Visit};
use super::named;
use super::payload::{TREE_NODES, tree};
use super::timeline::words;
use crate::api::v1::runs::sent;
use crate::app::App;
use crate::path::AttemptNumber;
use crate::problem::Result;

pub(crate) async fn get(app: App, visit: Visit<(Tenant, RunId, AttemptNumber)>) -> Result<Sheet> {
    let (tenant, run_id, AttemptNumber(attempt)) = visit.path;
    let at = named(&visit.who, (tenant, run_id))?;
    let _turn = app.answers.turn(visit.who.holder()).await?;
    let found = sent::read(&app, at.clone(), attempt).await?;
    let why = html! {
        @if found.changes.is_empty() { "It went out as it is." }
        @for change in &found.changes {
            (said(&words(&change.change))) @if !change.applied { " (could not be made)" } ". "
        }
    };
    let main = html! {
        (head(
            &html! { "What attempt " (found.attempt) " of " (said(at.run_id.as_str())) " got" }, &why,
            &html! { a.button.primary href=(links::run(&at.tenant, &at.run_id)) { "Back to the run" } },
        ))
        (panel("diff", "Against the original", &html! { "revision " (found.revision) }, &html! {
            div.body { (diff(&found.diff, found.diff_cut)) }
        }))
        @if let Some(payload) = &found.payload {
            (panel("sent", "As it was sent", &html! {}, &html! { div.body { (tree(payload.get(), TREE_NODES)) } }))
        }
    };
    Ok(Sheet::new(format!("Attempt {attempt} of {}", at.run_id), Tab::Runs, main))
}

/// By pointer, what was and what is.
pub(crate) fn diff(operations: &[Operation], more: bool) -> Markup {
    html! {
        @if operations.is_empty() { p.muted { "Nothing is different." } } @else {
            pre.diff tabindex="0" {
                @for Operation { path, old, new, .. } in operations {
                    span.faint { bdi { (visible(if path.is_empty() { "the whole payload" } else { path })) } } "\n"
                    @if let Some(old) = old { del { bdi { "- " (visible(old)) } } }
                    @if let Some(new) = new { ins { bdi { "+ " (visible(new)) } } }
                }
            }
        }
        @if more { p.muted { "There are more differences than are listed." } }
    }
}
