//! `/queues`: each queue with its owner, runbook, policy and workers.

use maud::{Markup, html};
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::{Policy, RetryBy, Schedule};
use redrive_core::wire::{QueueSettings, QueueView, QueuesAnswer};

use super::components::{
    ago, empty, fact, facts, field, grouped, head, isolated, link_or_text, of, pager, panel, post_form, span, visible,
};
use super::form::Form;
use super::form::Notice;
use super::layout::Tab;
use super::links;
use super::page::{FormResult, PageContent, PageRequest};
use crate::api::v1::queues::{QueuesQuery, set};
use crate::app::App;
use crate::auth::Visitor;
use crate::problem::Result;

pub(crate) async fn list(app: App, visit: PageRequest<(), QueuesQuery>) -> Result<PageContent> {
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
                "Set an owner for " (isolated(first.name.as_str()))
            }
        }
    };
    let main = html! {
        (head(&headline, &html! { "The owner of a queue is responsible for its dead letters." }, &action))
        section.panel aria-label="Queues" {
            @if queues.is_empty() {
                (empty("No queues yet.", &html! {
                    "A queue is created by the first report that names it, or in " code { "redrive.toml" } "."
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
    Ok(PageContent::new("Queues", Tab::Queues, main))
}

fn row(queue: &QueueView, now: redrive_core::time::Timestamp) -> Markup {
    let runs = |state: &str| links::runs([("state", state), ("queue", queue.name.as_str())]);
    html! { tr {
        td { a href=(format!("/queues/{}", queue.name)) { (isolated(queue.name.as_str())) }
            div.faint { @if let Some(text) = &queue.settings.description { (isolated(&super::components::line(text))) } } }
        td {
            @match &queue.settings.owner { Some(owner) => (isolated(owner.as_str())), None => span.badge.review { "nobody" } }
        }
        td.num { a href=(runs("dead")) { (grouped(queue.dead)) } }
        td.num { a href=(runs("scheduled")) { (grouped(queue.scheduled)) } }
        td.num.wide { a href=(runs("running")) { (grouped(queue.running)) } }
        td.wide {
            @match queue.settings.retry_by { RetryBy::Worker => "workers", RetryBy::Caller => "callers" }
        }
        td.num.wide.muted { @match queue.last_lease_call_at { Some(at) => (ago(at, now)), None => "never" } }
    } }
}

pub(crate) async fn show(app: App, visit: PageRequest<QueueName>) -> Result<PageContent> {
    let queue = app.store.queue(&visit.path).await?;
    let policy = app.store.policy(&Tenant::default_tenant(), &visit.path).await?;
    let main = html! {
        (heading(&queue))
        div.cols {
            div.stack { (documentation(&queue)) (policy_of(&queue, &policy)) }
            div.stack { (facts_of(&queue, visit.now)) @if visit.who.is_admin() { (edit(&queue, &visit.who)) } }
        }
    };
    Ok(PageContent::new(format!("Queue {}", visit.path), Tab::Queues, main))
}

fn heading(queue: &QueueView) -> Markup {
    let headline = html! {
        (isolated(queue.name.as_str())) ": " (of(queue.dead, "dead letter")) ", " (grouped(queue.scheduled)) " waiting"
    };
    let why = html! {
        @match &queue.settings.owner { Some(owner) => {
            "Owned by " (isolated(owner.as_str())) ". "
        } None => "It has no owner: nobody is responsible for its dead letters. " }
        @if let Some(text) = &queue.settings.description { (isolated(&super::components::line(text))) }
    };
    let to = links::runs([("state", "dead"), ("queue", queue.name.as_str())]);
    head(
        &headline,
        &why,
        &html! { @if queue.dead > 0 { a.button.primary href=(to) { "Review " (of(queue.dead, "dead letter")) } } },
    )
}

fn documentation(queue: &QueueView) -> Markup {
    let QueueSettings { description, runbook, instructions, .. } = &queue.settings;
    let body = html! { div.body {
        @if description.is_none() && runbook.is_none() && instructions.is_none() {
            p.muted {
                "No documentation yet. Describe what the queue is for, link its runbook, and say what to do about a dead letter."
            }
        }
        @if let Some(text) = description { div.lines { (isolated(text)) } }
        @if let Some(text) = instructions { p { b { "Instructions for dead letters" } } div.lines { (isolated(text)) } }
        @if let Some(text) = runbook { p.muted { "Runbook: " (link_or_text(text)) } }
    } };
    panel("documentation", "Documentation", &html! {}, &body)
}

/// The policy for tenants without settings of their own.
fn policy_of(queue: &QueueView, policy: &Policy) -> Markup {
    let own = serde_json::to_string_pretty(&queue.settings.policy).unwrap_or_default();
    let rows = [
        fact("Attempts", &html! { "at most " (policy.max_attempts) }),
        fact(
            "Delays",
            &html! { @match &policy.schedule {
                Schedule::Fixed(waits) => {
                    @for (at, ms) in waits.iter().enumerate() { @if at > 0 { ", " } (span(*ms)) }
                }
                Schedule::ByReason => "by reason, increasing, with jitter",
            } },
        ),
        fact("Lease", &html! { (span(policy.lease_ms)) }),
        fact("Deadline", &html! { (span(policy.deadline_ms)) " per attempt" }),
        fact("Unclaimed after", &html! { (span(policy.unclaimed_after_ms)) }),
        fact("Replays", &html! { "at most " (policy.max_replays) }),
    ];
    let body = html! { div.body { (facts(&rows))
    @if own != "{}" { details { summary { "Settings of this queue" } pre tabindex="0" { bdi { (visible(&own)) } } } } } };
    panel("policy", "Policy", &html! {}, &body)
}

fn facts_of(queue: &QueueView, now: redrive_core::time::Timestamp) -> Markup {
    let rows = [
        fact(
            "Retried by",
            &html! {
                @match queue.settings.retry_by { RetryBy::Worker => "workers, by lease", RetryBy::Caller => "the caller that reports the failure" }
            },
        ),
        fact(
            "Last lease call",
            &html! { @match queue.last_lease_call_at { Some(at) => (ago(at, now)), None => "never" } },
        ),
        fact("Running", &html! { (grouped(queue.running)) }),
        fact("Created", &ago(queue.created_at, now)),
    ];
    panel("facts", "Queue", &html! {}, &html! { div.body { (facts(&rows)) } })
}

fn edit(queue: &QueueView, who: &Visitor) -> Markup {
    let QueueSettings { owner, description, runbook, instructions, .. } = &queue.settings;
    let long = |name: &str, label: &str, text: Option<&String>| {
        html! {
            label.field { span { (label) } textarea name=(name) rows="4" { "\n" (text.map_or("", String::as_str)) } }
        }
    };
    let form = html! {
        (field("owner", "Owner", owner.as_ref().map_or("", |owner| owner.as_str()), "team or person"))
        (long("description", "Description", description.as_ref()))
        (field("runbook", "Runbook", runbook.as_deref().unwrap_or_default(), "https://…"))
        (long("instructions", "Instructions for dead letters", instructions.as_ref()))
        button { "Save" }
    };
    panel(
        "edit",
        "Edit",
        &html! {},
        &html! { div.body { details open[queue.ownerless] { summary { "Owner, runbook, instructions" }
        (post_form(&format!("/queues/{}", queue.name), who.csrf(), &form)) } } },
    )
}

/// Changes only the fields of the form; the policy stays.
pub(crate) async fn put(app: App, visit: PageRequest<QueueName>, form: Form) -> Result<FormResult> {
    let text = |name: &str| form.exact(name).filter(|text| !text.trim().is_empty());
    let before = app.store.queue(&visit.path).await?.settings;
    let settings = QueueSettings {
        owner: form.label("owner"),
        description: text("description"),
        runbook: text("runbook"),
        instructions: text("instructions"),
        ..before
    };
    set(&app, visit.path.clone(), settings).await?;
    Ok(FormResult::Go { to: format!("/queues/{}", visit.path), done: Notice::QueueSet })
}
