//! `/operations`: what was done to many runs at once, the newest first.

use maud::{Markup, html};
use redrive_core::wire::{OperationState, OperationView};

use super::components::{ago, empty, grouped, head, of, operation_badge, pager, said};
use super::layout::Tab;
use super::links;
use super::page::{Sheet, Visit};
use crate::api::v1::operations::list::Page;
use crate::app::App;
use crate::problem::Result;

pub(crate) async fn get(app: App, visit: Visit<(), Page>) -> Result<Sheet> {
    let Page { limit, cursor } = visit.query;
    let found = app.store.operations(limit, cursor.clone()).await?;
    let next = found.next_cursor.as_ref().map(|next| links::with("/operations", [("cursor", next.as_str())]));
    let main = html! {
        (heading(&found.operations))
        section.panel aria-label="Operations" {
            @if found.operations.is_empty() {
                (empty("No operation has been made.", &html! {
                    "Open a " a href="/patterns" { "pattern" } " and redrive it, or select runs among the "
                    a href="/runs?state=dead" { "dead letters" } ". Each is previewed, paced, and can be stopped."
                }))
            } @else { (table(&found.operations, visit.now)) }
        }
        (pager(cursor.as_ref().map(|_| "/operations"), next.as_deref()))
    };
    Ok(Sheet::new("Operations", Tab::Operations, main))
}

fn heading(operations: &[OperationView]) -> Markup {
    let in_state = |state| operations.iter().filter(|operation| operation.state == state).count() as u64;
    let (running, waiting) = (in_state(OperationState::Running), in_state(OperationState::Preview));
    let said = html! {
        @match (running, waiting) {
            (0, 0) => "No operation is under way.",
            (0, waiting) => { (of(waiting, "preview")) " wait to be started." }
            (running, _) => { (of(running, "operation")) " under way." }
        }
    };
    let why = html! { "The set is frozen when an operation is made: what was previewed is exactly what moves." };
    let action = html! { a.button.primary href="/runs?state=dead" { "Choose runs" } };
    head(&said, &why, &action)
}

fn table(operations: &[OperationView], now: redrive_core::time::Timestamp) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Operation" } th { "State" } th.num { "Runs" } th.num.wide { "Moved" } th.num.wide { "Succeeded" }
                th.num.wide { "Failed" } th.wide { "By" } th.num { "Made" } } }
            tbody { @for operation in operations { tr {
                td { a href=(format!("/operations/{}", operation.id)) { (operation.action) }
                    div.faint { @if let Some(reason) = &operation.reason { (said(&super::components::line(&reason.decode()))) } } }
                td { (operation_badge(operation.state)) }
                td.num { (grouped(operation.eligible)) }
                td.num.wide { (grouped(operation.moved)) }
                td.num.wide { (grouped(operation.succeeded)) }
                td.num.wide { (grouped(operation.failed)) }
                td.wide.faint { (said(&operation.actor)) }
                td.num.muted { (ago(operation.created_at, now)) }
            } } }
        } }
    }
}
