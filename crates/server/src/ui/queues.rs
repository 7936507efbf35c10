//! `/queues`: each queue with its owner, runbook, policy and workers.

use maud::{Markup, html};
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::{Policy, RetryBy, Schedule};
use redrive_core::wire::{QueueSettings, QueueView, QueuesAnswer};

use super::components::{
    ago, empty, fact, facts, field, grouped, head, link_or_text, of, pager, panel, post_form, said, span, visible,
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
    Ok(PageContent::new("Queues", Tab::Queues, main))
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
        (said(queue.name.as_str())) ": " (of(queue.dead, "dead letter")) ", " (grouped(queue.scheduled)) " waiting"
    };
    let why = html! {
        @match &queue.settings.owner { Some(owner) => {
            "Owned by " (said(owner.as_str())) ". "
        } None => "Nobody owns it: dead letters here have nobody to go to. " }
        @if let Some(text) = &queue.settings.description { (said(&super::components::line(text))) }
    };
    let to = links::runs([("state", "dead"), ("queue", queue.name.as_str())]);
    head(
        &headline,
        &why,
        &html! { @if queue.dead > 0 { a.button.primary href=(to) { "Review the " (grouped(queue.dead)) } } },
    )
}

fn documentation(queue: &QueueView) -> Markup {
    let QueueSettings { description, runbook, instructions, .. } = &queue.settings;
    let body = html! { div.body {
        @if description.is_none() && runbook.is_none() && instructions.is_none() {
            p.muted {
                "Nothing is written down yet. Whoever opens a dead letter of this queue at night reads what stands here: what it is for, where the runbook is, what to do."
            }
        }
        @if let Some(text) = description { div.lines { (said(text)) } }
        @if let Some(text) = instructions { p { b { "When a run of it is dead" } } div.lines { (said(text)) } }
        @if let Some(text) = runbook { p.muted { "Runbook: " (link_or_text(text)) } }
    } };
    panel("documentation", "Documentation", &html! {}, &body)
}

/// As it holds for a tenant that has no settings of its own.
fn policy_of(queue: &QueueView, policy: &Policy) -> Markup {
    let own = serde_json::to_string_pretty(&queue.settings.policy).unwrap_or_default();
    let rows = [
        fact("Attempts", &html! { "at most " (policy.max_attempts) }),
        fact(
            "Waits",
            &html! { @match &policy.schedule {
                Schedule::Fixed(waits) => {
                    @for (at, ms) in waits.iter().enumerate() { @if at > 0 { ", " } (span(*ms)) }
                }
                Schedule::ByReason => "by reason, growing, with jitter",
            } },
        ),
        fact("Lease", &html! { (span(policy.lease_ms)) }),
        fact("Deadline", &html! { (span(policy.deadline_ms)) " an attempt" }),
        fact("Unclaimed after", &html! { (span(policy.unclaimed_after_ms)) }),
        fact("Replays", &html! { "at most " (policy.max_replays) }),
    ];
    let body = html! { div.body { (facts(&rows))
    @if own != "{}" { details { summary { "What this queue sets itself" } pre tabindex="0" { bdi { (visible(&own)) } } } } } };
    panel("policy", "Policy", &html! {}, &body)
}

fn facts_of(queue: &QueueView, now: redrive_core::time::Timestamp) -> Markup {
    let rows = [
        fact(
            "Retried by",
            &html! {
                @match queue.settings.retry_by { RetryBy::Worker => "workers that lease it", RetryBy::Caller => "whoever reports its failures" }
            },
        ),
        fact(
            "Last lease call",
            &html! { @match queue.last_lease_call_at { Some(at) => (ago(at, now)), None => "never" } },
        ),
        fact("Running", &html! { (grouped(queue.running)) }),
        fact("Known since", &ago(queue.created_at, now)),
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
        (long("description", "What it is for", description.as_ref()))
        (field("runbook", "Runbook", runbook.as_deref().unwrap_or_default(), "https://…"))
        (long("instructions", "What to do when a run of it is dead", instructions.as_ref()))
        button { "Save" }
    };
    panel(
        "edit",
        "Write it down",
        &html! {},
        &html! { div.body { details open[queue.ownerless] { summary { "Owner, runbook, instructions" }
        (post_form(&format!("/queues/{}", queue.name), who.csrf(), &form)) } } },
    )
}

/// Only what the form shows is set; the policy stays.
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
