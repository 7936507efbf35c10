//! What stands beside a run: its facts, what its owner says to do, and what is like it.

use maud::{Markup, html};
use redrive_core::time::Timestamp;
use redrive_core::wire::{Likeness, RunSummary};

use super::super::components::{ago, exact, fact, facts, line, link_or_text, panel, said, state_badge, template};
use super::super::links;
use super::Seen;

pub(super) fn facts_of(seen: &Seen, now: Timestamp) -> Markup {
    let (run, body) = (&seen.run.summary, &seen.run.body);
    let owner = seen.queue.as_ref().and_then(|queue| queue.settings.owner.as_ref());
    let mut rows = vec![
        fact("Tenant", &html! { a href=(format!("/tenants/{}", run.tenant)) { (said(run.tenant.as_str())) } }),
        fact(
            "Queue",
            &html! {
                @if seen.queue.is_some() { a href=(format!("/queues/{}", run.queue)) { (said(run.queue.as_str())) } }
                @else { (said(run.queue.as_str())) }
                @if let Some(owner) = owner { " · owner " (said(owner.as_str())) }
            },
        ),
    ];
    let mut add = |name: &str, value: Option<&str>| rows.extend(value.map(|value| fact(name, &said(value))));
    add("Agent", run.agent.as_ref().map(|label| label.as_str()));
    add("Task", run.task_type.as_ref().map(|label| label.as_str()));
    add("Model", run.model.as_ref().map(|label| label.as_str()));
    add("Provider", run.provider.as_ref().map(|label| label.as_str()));
    add("Customer", run.customer.as_ref().map(|label| label.as_str()));
    add("Severity", Some(run.severity.as_str()));
    add("Environment", Some(run.environment.as_str()));
    add("Key", run.idempotency_key.as_ref().map(|key| key.as_str()));
    add("Order", body.order_key.as_ref().map(|key| key.as_str()));
    add("Assigned to", run.assigned_to.as_ref().map(|label| label.as_str()));
    add("Held by", run.held_by.as_ref().map(|label| label.as_str()));
    add("Goes to", body.destination.as_ref().map(|label| label.as_str()));
    for (kind, version) in &body.versions {
        rows.push(fact(&format!("{kind} version"), &said(version.as_str())));
    }
    let mut time = |name: &str, at: Option<Timestamp>| rows.extend(at.map(|at| fact(name, &ago(at, now))));
    time("Received", Some(run.received_at));
    time("Next attempt", run.next_attempt_at);
    time("Put off until", run.deferred_until);
    rows.push(fact("Resumes", &html! { @if body.resumable { "from its steps" } @else { "no: it begins anew" } }));
    for (name, to) in &body.links {
        rows.push(fact(name, &link_or_text(&to.decode())));
    }
    panel(
        "facts",
        "Run",
        &html! { span title=(exact(run.updated_at)) { "moved " (ago(run.updated_at, now)) } },
        &html! { div.body { (facts(&rows)) } },
    )
}

/// What whoever owns the queue wrote for this moment.
pub(super) fn guidance(seen: &Seen) -> Markup {
    let body = &seen.run.body;
    if body.instructions.is_none() && body.runbook.is_none() {
        return html! {};
    }
    panel(
        "instructions",
        "Instructions",
        &html! {},
        &html! {
            div.body {
                @if let Some(text) = &body.instructions { div.lines { (said(text)) } }
                @if let Some(runbook) = &body.runbook { p.muted { "Runbook: " (link_or_text(runbook)) } }
            }
        },
    )
}

/// The pattern, its other runs, and what may be the same work.
pub(super) fn like_this(seen: &Seen, now: Timestamp) -> Markup {
    let run = &seen.run.summary;
    let Some(pattern) = &run.pattern else { return html! {} };
    let end = html! { a href=(links::pattern(pattern)) { "Pattern" } };
    let body = html! {
        div.body {
            (template(&line(run.template.as_deref().unwrap_or_default())))
            @if seen.neighbours.is_empty() { p.muted { "No other run of this tenant has failed like this." } }
            @else { ul.plain { @for other in &seen.neighbours { (neighbour(other, now)) } }
                p { a href=(links::runs([("pattern", pattern.as_str())])) { "All runs of this pattern" } } }
            @if !seen.duplicates.duplicates.is_empty() {
                p { b { "May be the same work" } }
                ul.plain { @for duplicate in &seen.duplicates.duplicates {
                    li { a href=(links::run(&duplicate.run.tenant, &duplicate.run.run_id)) { (said(duplicate.run.run_id.as_str())) }
                        span.faint { @match duplicate.same { Likeness::IdempotencyKey => " same key", Likeness::Payload => " same payload" } } }
                } }
            }
        }
    };
    panel("like", "Like this one", &end, &body)
}

fn neighbour(other: &RunSummary, now: Timestamp) -> Markup {
    html! {
        li { a href=(links::run(&other.tenant, &other.run_id)) { (said(other.run_id.as_str())) } " " (state_badge(other))
            span.faint { " " (ago(other.received_at, now)) } }
    }
}
