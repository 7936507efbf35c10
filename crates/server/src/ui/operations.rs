//! `/operations`: bulk operations, from the preview to what became of each run.

use std::collections::BTreeMap;

use maud::{Markup, html};
use redrive_core::operation::Steer;
use redrive_core::wire::{CanaryState, OperationAction, OperationItemsPage, OperationState, OperationView};
use redrive_engine::ItemsCall;

use super::components::{
    ago, empty, fact, facts, grouped, head, of, operation_badge, outcome_badge, pager, panel, percent, post_form, said,
    visible,
};
use super::form::Form;
use super::form::Notice;
use super::layout::Tab;
use super::links;
use super::page::{FormResult, PageContent, PageRequest};
use super::run::shown_diff;
use crate::api::v1::operations::ItemsQuery;
use crate::api::v1::operations::OperationListQuery;
use crate::app::App;
use crate::auth::Visitor;
use crate::path::ServerId;
use crate::problem::Result;

pub(crate) async fn list(app: App, visit: PageRequest<(), OperationListQuery>) -> Result<PageContent> {
    let OperationListQuery { limit, cursor } = visit.query;
    let found = app.store.operations(limit, cursor.clone()).await?;
    let next = found.next_cursor.as_ref().map(|next| links::with("/operations", [("cursor", next.as_str())]));
    let main = html! {
        (list_heading(&found.operations))
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
    Ok(PageContent::new("Operations", Tab::Operations, main))
}

fn list_heading(operations: &[OperationView]) -> Markup {
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

pub(crate) async fn show(app: App, visit: PageRequest<ServerId, ItemsQuery>) -> Result<PageContent> {
    let id = visit.path.0;
    let ItemsQuery { outcomes, limit, cursor } = visit.query;
    let operation = app.store.operation(&id).await?;
    let chosen: Vec<&str> = outcomes.iter().map(|outcome| outcome.as_str()).collect();
    let chosen = chosen.join(",");
    let items = app.store.operation_items(&id, ItemsCall { outcomes, limit, cursor: cursor.clone() }).await?;
    let busy = operation.state == OperationState::Running || operation.preparing;
    let main = html! {
        div data-live="head" data-busy=[busy.then_some("")] { (heading(&operation, &visit.who)) }
        div.cols {
            div.stack {
                div data-live="progress" aria-live="polite" { (progress(&operation)) }
                (samples(&operation))
                div data-live="items" { (items_of(&operation, &items, &chosen, cursor.is_some())) }
            }
            div.stack { (facts_of(&operation, visit.now)) (why_not(&operation)) }
        }
    };
    Ok(PageContent::new(format!("Operation {id}"), Tab::Operations, main))
}

fn heading(operation: &OperationView, who: &Visitor) -> Markup {
    let runs = of(operation.eligible, "run");
    let did = operation.action;
    let headline = html! {
        (operation_badge(operation.state)) " "
        @match operation.state {
            OperationState::Preview => { "Would " (did) " " (runs) }
            OperationState::Running if operation.preparing => {
                "Finding the runs: " (grouped(operation.matched)) " so far"
            }
            OperationState::Running => { (grouped(operation.moved)) " of " (runs) " moved" }
            OperationState::Paused => { "Paused after " (grouped(operation.moved)) " of " (runs) }
            OperationState::Stopped => { "Stopped after " (grouped(operation.moved)) " of " (runs) }
            OperationState::Cancelled => { "Cancelled after " (grouped(operation.moved)) " of " (runs) }
            OperationState::Completed => { "Done: " (grouped(operation.moved)) " of " (runs) " moved" }
        }
    };
    let why = html! {
        @if let Some(reason) = &operation.reason { "“" (said(&reason.decode())) "” " }
        @if let Some(because) = &operation.stopped_because { b { (said(because)) } " " }
        @if operation.state == OperationState::Preview && operation.eligible < operation.matched {
            (grouped(operation.matched - operation.eligible))
            " of the "
            (grouped(operation.matched))
            " that match would not move; why is said beside."
        }
    };
    head(&headline, &why, &steering(operation, who))
}

/// What can be done with it now; the first is the advised one.
fn steering(operation: &OperationView, who: &Visitor) -> Markup {
    let button = |verb: &str, word: &str, class: &str| {
        post_form(
            &format!("/operations/{}/{verb}", operation.id),
            who.csrf(),
            &html! { button class=(class) { (word) } },
        )
    };
    let start = format!("Start: {} {}", operation.action, of(operation.eligible, "run"));
    html! {
        @match operation.state {
            OperationState::Preview if operation.preparing => span.muted { "still finding the runs" },
            OperationState::Preview if operation.eligible == 0 => a.button.primary href="/runs?state=dead" { "Choose other runs" },
            OperationState::Preview => { (button("cancel", "Drop it", "")) (button("start", &start, "primary")) }
            OperationState::Running => { (button("pause", "Pause", "")) (button("cancel", "Stop here", "danger")) }
            OperationState::Paused => {
                (button("cancel", "Stop here", "danger")) (button("resume", "Go on", "primary"))
            }
            OperationState::Stopped | OperationState::Cancelled | OperationState::Completed => a.button href="/operations" { "All operations" },
        }
    }
}

/// Text and bar; the bar's length is an attribute, not a style.
fn progress(operation: &OperationView) -> Markup {
    let replay = operation.action == OperationAction::Replay;
    // A replay is done with when its outcome is known, anything else when it has moved.
    let settled = if replay { operation.succeeded + operation.failed } else { operation.moved };
    let done = settled + operation.skipped;
    let share = percent(done, operation.eligible).unwrap_or_else(|| "0 %".into());
    let figure = |word: &str, n: u64, outcome: &str| {
        html! {
            a href=(links::with(&format!("/operations/{}", operation.id), [("outcome", outcome)])) {
                span.muted { (word) } b { (grouped(n)) }
            }
        }
    };
    let body = html! {
        div.body {
            progress max=(operation.eligible.max(1)) value=(done) aria-label=(format!("{share} done")) {}
            p.muted { (share) " done"
                @if let Some(canary) = &operation.canary { " · " (canary_says(canary.state, canary.size)) } }
        }
        div.figures.inner {
            (figure("Moved", operation.moved, "moved,succeeded,failed"))
            @if replay {
                (figure("Succeeded", operation.succeeded, "succeeded"))
                (figure("Failed again", operation.failed, "failed"))
            }
            (figure("Skipped", operation.skipped, "skipped"))
        }
    };
    panel("progress", "Progress", &operation_badge(operation.state), &body)
}

fn canary_says(state: CanaryState, size: u32) -> String {
    match state {
        CanaryState::Waiting => format!("the canary of {size} goes first; the rest waits for it"),
        CanaryState::Passed => format!("the canary of {size} came through"),
        CanaryState::Failed => format!("the canary of {size} failed: nothing more moves"),
    }
}

fn facts_of(operation: &OperationView, now: redrive_core::time::Timestamp) -> Markup {
    let mut rows = vec![
        fact("Action", &html! { (operation.action) }),
        fact("By", &said(&operation.actor)),
        fact("Made", &ago(operation.created_at, now)),
        fact("Matched", &html! { (grouped(operation.matched)) }),
        fact("Would move", &html! { (grouped(operation.eligible)) }),
        fact("Over", &html! { code { (visible(operation.filter.get())) } }),
    ];
    rows.extend(operation.rate_per_s.map(|rate| fact("Pace", &html! { (rate) " a second" })));
    rows.extend(operation.started_at.map(|at| fact("Started", &ago(at, now))));
    rows.extend(operation.ended_at.map(|at| fact("Ended", &ago(at, now))));
    panel("facts", "Operation", &html! {}, &html! { div.body { (facts(&rows)) } })
}

fn why_not(operation: &OperationView) -> Markup {
    let table = |title: &str, why: &BTreeMap<String, u64>| {
        html! { @if !why.is_empty() {
            tr { th colspan="2" { (title) } }
            @for (code, n) in why { tr { td { (said(&code.replace('_', " "))) } td.num { (grouped(*n)) } } }
        } }
    };
    if operation.ineligible.is_empty() && operation.skipped_because.is_empty() && operation.reasons.is_empty() {
        return html! {};
    }
    panel(
        "why",
        "What is in the set",
        &html! {},
        &html! { div.scroll { table { tbody {
            (table("Would not move", &operation.ineligible))
            (table("Skipped", &operation.skipped_because))
            (table("By reason", &operation.reasons))
        } } } },
    )
}

fn samples(operation: &OperationView) -> Markup {
    if operation.samples.is_empty() {
        return html! {};
    }
    let body = html! { div.body { @for sample in &operation.samples {
        p { a href=(links::run(&sample.tenant, &sample.run_id)) { (said(sample.run_id.as_str())) } }
        (shown_diff(&sample.changes, sample.more))
    } } };
    panel("samples", "The fix on some of them", &html! {}, &body)
}

fn items_of(operation: &OperationView, items: &OperationItemsPage, chosen: &str, later: bool) -> Markup {
    let at = format!("/operations/{}", operation.id);
    let next = items.next_cursor.as_ref().map(|next| {
        let pairs = [("outcome", chosen), ("cursor", next.as_str())];
        links::with(&at, pairs.into_iter().filter(|(_, value)| !value.is_empty()))
    });
    let end = html! { @if !chosen.is_empty() { "only " (chosen.replace(',', ", ")) " · " a href=(at) { "show all" } } };
    let body = html! {
        @if items.items.is_empty() { (empty("No run here.", &html! { "None of the set has come to this." })) } @else {
            div.scroll { table {
                thead { tr { th { "Run" } th { "Outcome" } th { "Why" } } }
                tbody { @for item in &items.items { tr {
                    td.id { @match (&item.tenant, &item.run_id) {
                        (Some(tenant), Some(run_id)) => {
                            a href=(links::run(tenant, run_id)) { (said(run_id.as_str())) } " "
                            span.faint { (said(tenant.as_str())) }
                        }
                        _ => span.faint { "gone" },
                    } }
                    td { (outcome_badge(item.outcome)) }
                    td.muted { @if let Some(why) = &item.why { (said(&why.replace('_', " "))) } }
                } } }
            } }
        }
        div.body { (pager(later.then_some(at.as_str()), next.as_deref())) }
    };
    panel("items", "Runs", &end, &body)
}

type OnOperation = PageRequest<ServerId>;

async fn steer(app: &App, visit: OnOperation, by: Steer, done: Notice) -> Result<FormResult> {
    let operation = app.store.steer_operation(&visit.path.0, by).await?;
    Ok(FormResult::Go { to: format!("/operations/{}", operation.id), done })
}

pub(crate) async fn start(app: App, visit: OnOperation, _: Form) -> Result<FormResult> {
    steer(&app, visit, Steer::Start, Notice::Started).await
}

pub(crate) async fn pause(app: App, visit: OnOperation, _: Form) -> Result<FormResult> {
    steer(&app, visit, Steer::Pause, Notice::Paused).await
}

pub(crate) async fn resume(app: App, visit: OnOperation, _: Form) -> Result<FormResult> {
    steer(&app, visit, Steer::Resume, Notice::Resumed).await
}

pub(crate) async fn cancel(app: App, visit: OnOperation, _: Form) -> Result<FormResult> {
    steer(&app, visit, Steer::Cancel, Notice::Stopped).await
}
