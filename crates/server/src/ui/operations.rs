//! `/operations`: bulk operations, from the preview to the outcome of each run.

use std::collections::BTreeMap;

use maud::{Markup, html};
use redrive_core::operation::Steer;
use redrive_core::wire::{CanaryState, OperationAction, OperationItemsPage, OperationState, OperationView};
use redrive_engine::ItemsCall;

use super::components::{
    ago, empty, fact, facts, grouped, head, isolated, of, operation_badge, outcome_badge, pager, panel, percent,
    post_form, visible,
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
                (empty("No operations yet.", &html! {
                    "Open a " a href="/patterns" { "pattern" } " and replay its runs, or select runs among the "
                    a href="/runs?state=dead" { "dead letters" } ". Every operation starts with a preview and can be paused or cancelled."
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
    let headline = html! {
        @match (running, waiting) {
            (0, 0) => "No operation is running.",
            (0, waiting) => { (of(waiting, "preview")) " ready to start." }
            (running, _) => { (of(running, "operation")) " running." }
        }
    };
    let why = html! { "An operation freezes its set of runs: exactly the previewed runs move." };
    let action = html! { a.button.primary href="/runs?state=dead" { "Select runs" } };
    head(&headline, &why, &action)
}

fn table(operations: &[OperationView], now: redrive_core::time::Timestamp) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Operation" } th { "State" } th.num { "Runs" } th.num.wide { "Moved" } th.num.wide { "Succeeded" }
                th.num.wide { "Failed" } th.wide { "By" } th.num { "Created" } } }
            tbody { @for operation in operations { tr {
                td { a href=(format!("/operations/{}", operation.id)) { (operation.action) }
                    div.faint { @if let Some(reason) = &operation.reason { (isolated(&super::components::line(&reason.decode()))) } } }
                td { (operation_badge(operation.state)) }
                td.num { (grouped(operation.eligible)) }
                td.num.wide { (grouped(operation.moved)) }
                td.num.wide { (grouped(operation.succeeded)) }
                td.num.wide { (grouped(operation.failed)) }
                td.wide.faint { (isolated(&operation.actor)) }
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
                "Finding runs: " (grouped(operation.matched)) " so far"
            }
            OperationState::Running => { (grouped(operation.moved)) " of " (runs) " moved" }
            OperationState::Paused => { "Paused after " (grouped(operation.moved)) " of " (runs) }
            OperationState::Stopped => { "Stopped after " (grouped(operation.moved)) " of " (runs) }
            OperationState::Cancelled => { "Cancelled after " (grouped(operation.moved)) " of " (runs) }
            OperationState::Completed => { "Done: " (grouped(operation.moved)) " of " (runs) " moved" }
        }
    };
    let why = html! {
        @if let Some(reason) = &operation.reason { "“" (isolated(&reason.decode())) "” " }
        @if let Some(because) = &operation.stopped_because { b { (isolated(because)) } " " }
        @if operation.state == OperationState::Preview && operation.eligible < operation.matched {
            (grouped(operation.matched - operation.eligible))
            " of "
            (grouped(operation.matched))
            " matching runs would not move: see Breakdown."
        }
    };
    head(&headline, &why, &steering(operation, who))
}

/// The actions that its state allows.
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
            OperationState::Preview if operation.preparing => span.muted { "Finding runs…" },
            OperationState::Preview if operation.eligible == 0 => a.button.primary href="/runs?state=dead" { "Select other runs" },
            OperationState::Preview => { (button("cancel", "Cancel", "")) (button("start", &start, "primary")) }
            OperationState::Running => { (button("pause", "Pause", "")) (button("cancel", "Cancel", "danger")) }
            OperationState::Paused => {
                (button("cancel", "Cancel", "danger")) (button("resume", "Resume", "primary"))
            }
            OperationState::Stopped | OperationState::Cancelled | OperationState::Completed => a.button href="/operations" { "All operations" },
        }
    }
}

/// Text and bar; the bar's length is an attribute, not a style.
fn progress(operation: &OperationView) -> Markup {
    let replay = operation.action == OperationAction::Replay;
    // A replay settles with its outcome, any other action when the run has moved.
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
        CanaryState::Waiting => format!("the rest waits for the canary of {size}"),
        CanaryState::Passed => format!("the canary of {size} passed"),
        CanaryState::Failed => format!("the canary of {size} failed, and no more runs move"),
    }
}

fn facts_of(operation: &OperationView, now: redrive_core::time::Timestamp) -> Markup {
    let mut rows = vec![
        fact("Action", &html! { (operation.action) }),
        fact("By", &isolated(&operation.actor)),
        fact("Created", &ago(operation.created_at, now)),
        fact("Matched", &html! { (grouped(operation.matched)) }),
        fact("Eligible", &html! { (grouped(operation.eligible)) }),
        fact("Filter", &html! { code { (visible(operation.filter.get())) } }),
    ];
    rows.extend(operation.rate_per_s.map(|rate| fact("Rate", &html! { (rate) " per second" })));
    rows.extend(operation.started_at.map(|at| fact("Started", &ago(at, now))));
    rows.extend(operation.ended_at.map(|at| fact("Ended", &ago(at, now))));
    panel("facts", "Operation", &html! {}, &html! { div.body { (facts(&rows)) } })
}

fn why_not(operation: &OperationView) -> Markup {
    let table = |title: &str, why: &BTreeMap<String, u64>| {
        html! { @if !why.is_empty() {
            tr { th colspan="2" { (title) } }
            @for (code, n) in why { tr { td { (isolated(&code.replace('_', " "))) } td.num { (grouped(*n)) } } }
        } }
    };
    if operation.ineligible.is_empty() && operation.skipped_because.is_empty() && operation.reasons.is_empty() {
        return html! {};
    }
    panel(
        "why",
        "Breakdown",
        &html! {},
        &html! { div.scroll { table { tbody {
            (table("Ineligible", &operation.ineligible))
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
        p { a href=(links::run(&sample.tenant, &sample.run_id)) { (isolated(sample.run_id.as_str())) } }
        (shown_diff(&sample.changes, sample.more))
    } } };
    panel("samples", "Fix, applied to samples", &html! {}, &body)
}

fn items_of(operation: &OperationView, items: &OperationItemsPage, chosen: &str, later: bool) -> Markup {
    let at = format!("/operations/{}", operation.id);
    let next = items.next_cursor.as_ref().map(|next| {
        let pairs = [("outcome", chosen), ("cursor", next.as_str())];
        links::with(&at, pairs.into_iter().filter(|(_, value)| !value.is_empty()))
    });
    let end = html! { @if !chosen.is_empty() { "only " (chosen.replace(',', ", ")) " · " a href=(at) { "show all" } } };
    let body = html! {
        @if items.items.is_empty() { (empty("No runs.", &html! { "No run of this operation has that outcome." })) } @else {
            div.scroll { table {
                thead { tr { th { "Run" } th { "Outcome" } th { "Why" } } }
                tbody { @for item in &items.items { tr {
                    td.id { @match (&item.tenant, &item.run_id) {
                        (Some(tenant), Some(run_id)) => {
                            a href=(links::run(tenant, run_id)) { (isolated(run_id.as_str())) } " "
                            span.faint { (isolated(tenant.as_str())) }
                        }
                        _ => span.faint { "gone" },
                    } }
                    td { (outcome_badge(item.outcome)) }
                    td.muted { @if let Some(why) = &item.why { (isolated(&why.replace('_', " "))) } }
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
