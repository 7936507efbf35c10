//! What is not as it should be: breakers that hold work, a clock that was set, queues without workers or owners, tenants with most dead
//! letters.

use maud::{Markup, html};
use redrive_core::breaker::StateName;
use redrive_core::wire::BreakerView;

use super::super::components::{ago, ahead, breaker_badge, fact, facts, grouped, panel, said};
use super::Seen;

const ROWS_MAX: usize = 6;
const TENANTS_MAX: usize = 4;

pub(super) fn panel_of(seen: &Seen) -> Markup {
    let mut rows: Vec<Markup> = Vec::new();
    let not_closed = seen.breakers.iter().filter(|breaker| breaker.state != StateName::Closed);
    rows.extend(not_closed.take(ROWS_MAX).map(|breaker| fact("Breaker", &says(seen, breaker))));
    if let Some(jump) = seen.health.clock {
        let way = if jump.by_ms < 0 { "back" } else { "forward" };
        let says = html! {
            "The server's clock was set " (way) " " (ago(jump.jumped_at, seen.now))
            @if jump.ahead_ms > 0 { "; times here are ahead of it by " (grouped(jump.ahead_ms / 1_000)) " s" }
        };
        rows.push(fact("Clock", &says));
    }
    for queue in seen.health.queues_without_workers.iter().take(ROWS_MAX) {
        let says = html! {
            a href=(format!("/queues/{}", queue.queue)) { (said(queue.queue.as_str())) }
            " has due runs and no worker, the oldest due " (ago(queue.oldest_due_at, seen.now))
        };
        rows.push(fact("Queue", &says));
    }
    for queue in seen.health.queues_without_owner.iter().take(ROWS_MAX) {
        rows.push(fact(
            "Queue",
            &html! { a href=(format!("/queues/{queue}")) { (said(queue.as_str())) } " has no owner" },
        ));
    }
    for tenant in seen.tenants.iter().filter(|tenant| tenant.dead > 0).take(TENANTS_MAX) {
        let to = super::links::runs([("state", "dead"), ("tenant", tenant.tenant.as_str())]);
        let says = html! {
            a href=(format!("/tenants/{}", tenant.tenant)) { (said(tenant.tenant.as_str())) } " has "
            a href=(to) { (grouped(tenant.dead)) " dead" }
            @if let Some(at) = tenant.last_failure_at { ", last failure " (ago(at, seen.now)) }
        };
        rows.push(fact("Tenant", &says));
    }
    let body = html! {
        div.body { @if rows.is_empty() { span.muted { "Every breaker is closed, every queue has a worker and an owner." } }
            @else { (facts(&rows)) } }
    };
    panel("trouble", "Not as it should be", &html! {}, &body)
}

fn says(seen: &Seen, breaker: &BreakerView) -> Markup {
    html! {
        (breaker_badge(breaker.state)) " "
        @if let Some(tenant) = &breaker.tenant { a href=(format!("/tenants/{tenant}")) { (said(tenant.as_str())) } " " }
        @if let Some(provider) = &breaker.provider { (said(provider.as_str())) " " }
        @if let Some(model) = &breaker.model { (said(model.as_str())) }
        @if let (Some(failed), Some(attempts)) = (breaker.failed, breaker.attempts) {
            " · " (grouped(failed)) " of " (grouped(attempts)) " failed"
        }
        @if breaker.held > 0 { " · " (grouped(breaker.held)) " held" }
        @if breaker.state == StateName::Open {
            " · " @if breaker.by_hand { "by hand, " } "until " (ahead(breaker.until, seen.now))
        }
    }
}
