//! What needs a person now: a row for each kind of decision, with its one next action. The counts are kept ones; whom
//! they are of is read off the newest.

use std::collections::BTreeSet;

use maud::{Markup, html};
use redrive_core::run::StateName;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{RunSummary, Severity};

use super::super::components::{ago, because_badge, empty, grouped, panel, said, severity_badge, state_word_badge};
use super::super::links;
use super::Seen;

const NAMED_MAX: usize = 4;

/// In the order in which they hurt.
const KINDS: [(DeadBecause, &str, &str); 7] = [
    (
        DeadBecause::Unsafe,
        "An effect was begun and nobody knows whether it happened, or it is done and can’t be repeated. Check, then go on.",
        "Reconcile…",
    ),
    (
        DeadBecause::Poison,
        "The same failure again and again, or it kills its workers. Mend the cause before it goes round once more.",
        "Look…",
    ),
    (DeadBecause::Permanent, "No retry can help: code, credentials or data have to be corrected first.", "Fix…"),
    (DeadBecause::Exhausted, "Every retry was used up. Once the cause has passed, send them round again.", "Redrive…"),
    (DeadBecause::Expired, "An approval or a deadline passed before anybody answered.", "Decide…"),
    (DeadBecause::Rejected, "Nobody took them: no worker, no consumer, or they could not fit.", "Look…"),
    (DeadBecause::Manual, "Somebody stopped them.", "Decide…"),
];

pub(super) fn panel_of(seen: &Seen) -> Markup {
    let oldest = seen.waiting.iter().map(|run| run.received_at).min();
    let end = html! { @if let Some(oldest) = oldest { "of the newest, the oldest came " (ago(oldest, seen.now)) } };
    let kinds: Vec<_> = KINDS.iter().filter(|(because, ..)| seen.standing.because(*because) > 0).collect();
    let review = seen.standing.of(StateName::Review);
    let body = html! {
        @if kinds.is_empty() && review == 0 {
            (empty("All clear.", &html! {
                "Runs that automation must not continue alone will stand here, each with its next action. What only "
                "needs time is retried without you."
            }))
        } @else {
            div.scroll { table { tbody {
                @for (because, says, next) in kinds.iter().take(1) { (kind(seen, *because, says, next)) }
                @if review > 0 { (reviews(seen, review)) }
                (critical(seen))
                @for (because, says, next) in kinds.iter().skip(1) { (kind(seen, *because, says, next)) }
            } } }
        }
    };
    panel("needs", "Needs you now", &end, &body)
}

fn kind(seen: &Seen, because: DeadBecause, says: &str, next: &str) -> Markup {
    let to = links::runs([("state", "dead"), ("dead_because", because.as_str())]);
    row(
        &to,
        &grouped(seen.standing.because(because)),
        &because_badge(because),
        &html! { (says) },
        &whom(&seen.waiting, |run| run.dead_because == Some(because)),
        next,
    )
}

fn reviews(seen: &Seen, review: u64) -> Markup {
    let of_review = |run: &RunSummary| run.state == StateName::Review;
    let says = html! { "Replays that wait for a second pair of eyes." };
    let badge = state_word_badge(StateName::Review);
    row("/runs?state=review", &grouped(review), &badge, &says, &whom(&seen.waiting, of_review), "Approve…")
}

fn critical(seen: &Seen) -> Markup {
    let n = seen.critical.total.unwrap_or(0);
    if n == 0 {
        return html! {};
    }
    let more = if seen.critical.total_capped { "+" } else { "" };
    let count = format!("{}{more}", grouped(n));
    let says = html! { "Whoever sent them said that they matter most." };
    let to = "/runs?state=dead&severity=critical";
    row(to, &count, &severity_badge(Severity::Critical), &says, &whom(&seen.critical.runs, |_| true), "Open")
}

fn row(to: &str, count: &str, badge: &Markup, says: &Markup, whom: &Markup, next: &str) -> Markup {
    html! {
        tr {
            td.num.lead { a href=(to) { b { (count) } } }
            td { (badge) " " (says) div.faint { (whom) } }
            td.act { a.button href=(to) { (next) } }
        }
    }
}

/// Queues and tenants, as far as the newest name them.
fn whom(waiting: &[RunSummary], fits: impl Fn(&RunSummary) -> bool) -> Markup {
    let runs: Vec<&RunSummary> = waiting.iter().filter(|run| fits(run)).collect();
    let queues: BTreeSet<&str> = runs.iter().map(|run| run.queue.as_str()).collect();
    let tenants: BTreeSet<&str> = runs.iter().map(|run| run.tenant.as_str()).collect();
    html! { (named("queue", &queues)) @if !queues.is_empty() { " · " } (named("tenant", &tenants)) }
}

fn named(one: &str, names: &BTreeSet<&str>) -> Markup {
    html! {
        @if !names.is_empty() {
            (one) @if names.len() > 1 { "s" } " "
            @for (at, name) in names.iter().take(NAMED_MAX).enumerate() { @if at > 0 { ", " } (said(name)) }
            @if names.len() > NAMED_MAX { " and " (names.len() - NAMED_MAX) " more" }
        }
    }
}
