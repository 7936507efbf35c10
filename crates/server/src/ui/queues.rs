//! `/queues`: named streams of runs, whose they are, and whether anybody works on them.

use maud::{Markup, html};
use redrive_core::policy::RetryBy;
use redrive_core::wire::{QueueView, QueuesAnswer};

use super::components::{ago, empty, grouped, head, of, pager, said};
use super::layout::Tab;
use super::links;
use super::page::{Sheet, Visit};
use crate::api::v1::queues::QueuesQuery;
use crate::app::App;
use crate::problem::Result;

pub(crate) async fn get(app: App, visit: Visit<(), QueuesQuery>) -> Result<Sheet> {
    let QueuesQuery { limit, cursor } = visit.query;
    let QueuesAnswer { queues, next_cursor } = app.store.queues(limit, cursor.clone()).await?;
    let next = next_cursor.as_ref().map(|next| links::with("/queues", [("cursor", next.as_str())]));
    let ownerless = queues.iter().filter(|queue| queue.ownerless);
    let headline = html! {
        (of(queues.len() as u64, "queue"))
        @if next.is_some() || cursor.is_some() { " on this page" }
        @match ownerless.clone().count() { 0 => ", each with an owner.", n => { ", " (n) " without an owner." } }
    };
    let action = html! {
        @if let Some(first) = ownerless.clone().next() {
            a.button.primary href=(format!("/queues/{}", first.name)) {
                "Give " (said(first.name.as_str())) " an owner"
            }
        }
    };
    let main = html! {
        (head(&headline, &html! { "A queue that nobody owns is a queue that nobody answers for." }, &action))
        section.panel aria-label="Queues" {
            @if queues.is_empty() {
                (empty("No queue yet.", &html! {
                    "The first report that names one makes it; or write it into " code { "redrive.toml" } "."
                }))
            }
            @else { div.scroll { table {
                thead {
                    tr {
                        th { "Queue" } th { "Owner" } th.num { "Dead" } th.num { "Waiting" } th.num.wide { "Running" }
                        th.wide { "Retried by" } th.num.wide { "Last lease call" }
                    }
                }
                tbody { @for queue in &queues { (row(queue, visit.now)) } }
            } } }
        }
        (pager(cursor.as_ref().map(|_| "/queues"), next.as_deref()))
    };
    Ok(Sheet::new("Queues", Tab::Queues, main))
}

fn row(queue: &QueueView, now: redrive_core::time::Timestamp) -> Markup {
    let runs = |state: &str| links::runs([("state", state), ("queue", queue.name.as_str())]);
    html! { tr {
        td { a href=(format!("/queues/{}", queue.name)) { (said(queue.name.as_str())) }
            div.faint { @if let Some(text) = &queue.settings.description { (said(&super::components::line(text))) } } }
        td {
            @match &queue.settings.owner { Some(owner) => (said(owner.as_str())), None => span.badge.review { "nobody" } }
        }
        td.num { a href=(runs("dead")) { (grouped(queue.dead)) } }
        td.num { a href=(runs("scheduled")) { (grouped(queue.scheduled)) } }
        td.num.wide { a href=(runs("running")) { (grouped(queue.running)) } }
        td.wide {
            @match queue.settings.retry_by { RetryBy::Worker => "workers", RetryBy::Caller => "whoever reports" }
        }
        td.num.wide.muted { @match queue.last_lease_call_at { Some(at) => (ago(at, now)), None => "never" } }
    } }
}
