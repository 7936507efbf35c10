//! The front page: what needs a person first, then rates, troubles and root causes.

mod read;

use std::collections::BTreeSet;

use maud::{Markup, html};
use redrive_core::breaker::BreakerStateName;
use redrive_core::run::StateName;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{BreakerView, PatternDetail, RunSummary, Severity, StatsPoint};

use self::read::OverviewData;
use super::components::{
    ChartBar, ago, ahead, bars, because_badge, breaker_badge, empty, exact, fact, facts, grouped, head, of, panel,
    pattern_badges, percent, said, severity_badge, span, spark, state_word_badge, template,
};
use super::layout::Tab;
use super::links;
use super::page::{PageContent, PageRequest};
use crate::app::App;
use crate::problem::Result;

/// One day.
const SPARK_HOURS: usize = 24;

pub(crate) async fn get(app: App, visit: PageRequest) -> Result<PageContent> {
    let seen = OverviewData::read(&app, &visit.who).await?;
    let main = html! {
        (headline(&seen))
        (needs_panel(&seen))
        div data-live="figures" { (figures(&seen)) }
        div.cols { (rates(&seen)) div.stack { (trouble_panel(&seen)) } }
        (causes(&seen))
    };
    Ok(PageContent::new("Overview", Tab::Overview, main))
}

fn headline(seen: &OverviewData) -> Markup {
    let waiting = seen.needing();
    let largest = seen.patterns.first().map(|largest| largest.pattern.open).filter(|open| *open > 1);
    let said = match (waiting, largest) {
        (0, _) => html! { "Nothing waits for a person." },
        (1, _) => html! { "One run needs a person." },
        (waiting, Some(open)) => {
            html! {
                (grouped(waiting)) " runs need a person. One fix may clear " (grouped(open.min(waiting))) " of them."
            }
        }
        (waiting, None) => html! { (grouped(waiting)) " runs need a person." },
    };
    let scheduled = seen.standing.of(StateName::Scheduled);
    let why = html! {
        "Everything else goes by itself: " (of(scheduled, "run")) " waiting for a retry, "
        (grouped(seen.standing.of(StateName::Running))) " running"
        @if let Some(share) = seen.recovery_rate() {
            ", " (share) " of the runs that failed in the last 24 hours have recovered"
        }
        "."
    };
    let action = html! {
        @if waiting > 0 { a.button.primary href="/runs?state=dead,review" { "Review the " (grouped(waiting)) } }
        @else { a.button.primary href="/patterns" { "See what failed" } }
    };
    head(&said, &why, &action)
}

/// Every number links to its list.
fn figures(seen: &OverviewData) -> Markup {
    let figure = |to: &str, word: &str, number: &Markup, note: &Markup| {
        html! { a href=(to) { span.muted { (word) } b { (number) } span.faint { (note) } } }
    };
    let (dead, day) = (seen.standing.of(StateName::Dead), &seen.day);
    html! {
        div.figures {
            (figure("/runs?state=dead", "Dead letters", &html! { (grouped(dead)) },
                &html! { "+" (grouped(day.dead)) " in 24 h" }))
            (figure("/runs?state=scheduled", "Waiting for retry", &html! { (grouped(seen.standing.of(StateName::Scheduled))) },
                &html! { (grouped(seen.standing.held)) " held back" }))
            (figure("/runs?state=recovered", "Recovered, 24 h", &html! { (grouped(day.recovered)) },
                &html! { @match seen.recovery_rate() { Some(share) => { (share) " of failed runs" } None => "nothing failed" } }))
            (figure("/runs?state=recovered,resolved", "Time to resolution", &html! { (time(seen.by_itself_ms)) },
                &html! { "by itself · " (time(seen.by_a_person_ms)) " by a person" }))
        }
    }
}

fn time(ms: Option<u64>) -> String {
    ms.map_or_else(|| "–".into(), span)
}

fn rates(seen: &OverviewData) -> Markup {
    let series = [("s-good", "recovered"), ("s-wait", "retried"), ("s-dead", "dead")];
    let shown: Vec<ChartBar> = seen.stats.hours.iter().map(bar).collect();
    let (failed, dead) = (seen.day.failed, seen.day.dead);
    let about = format!(
        "By the hour over the last 24 hours: {} failed attempts, {} retried, {} recovered, {} dead",
        grouped(failed),
        grouped(seen.day.retried),
        grouped(seen.day.recovered),
        grouped(dead)
    );
    let legend = html! {
        span.badge.good { "recovered" }
        " "
        span.badge.wait { "retried" }
        " "
        span.badge.dead { "dead" }
        " "
        span.badge { "— failed" }
    };
    let body = html! {
        div.body {
            (bars(&about, &series, Some("failed attempts"), &shown))
            p.muted { (grouped(failed)) " failed attempts in all"
                @if let Some(first) = seen.stats.hours.first() { ", since " (exact(first.hour)) } "." }
        }
    };
    panel("rates", "Last 24 hours", &legend, &body)
}

fn bar(point: &StatsPoint) -> ChartBar {
    let hour = point.hour.to_string();
    ChartBar {
        name: hour.get(11..16).unwrap_or_default().to_owned(),
        values: vec![point.recovered, point.retried, point.dead],
        line: Some(point.failed),
    }
}

fn causes(seen: &OverviewData) -> Markup {
    let open: u64 = seen.patterns.iter().map(|detail| detail.pattern.open).sum();
    let all = seen.standing.of(StateName::Dead)
        + seen.standing.of(StateName::Review)
        + seen.standing.of(StateName::Scheduled)
        + seen.standing.of(StateName::Running);
    let end = html! {
        @if let Some(share) = percent(open.min(all), all) {
            span.wide { (seen.patterns.len()) " explain " (share) " of what is open · " }
        }
        a href="/patterns" { "All patterns" }
    };
    let body = html! {
        @if seen.patterns.is_empty() {
            (empty("No failure is open.", &html! {
                "When runs fail they are grouped here by what they have in common: one cause, one fix, many runs."
            }))
        } @else {
            div.scroll { table {
                thead { tr {
                    th { "Root cause" } th.wide { "24 h" } th.num { "Open" } th.num.wide { "Tenants" }
                    th.wide { "First seen" } th { span.faint { "Next" } }
                } }
                tbody { @for detail in &seen.patterns { (cause(seen, detail)) } }
            } }
        }
    };
    panel("causes", "Root causes", &end, &body)
}

fn cause(seen: &OverviewData, detail: &PatternDetail) -> Markup {
    let pattern = &detail.pattern;
    let to = links::pattern(&pattern.id);
    let hours: Vec<u64> = detail.body.hours.iter().rev().take(SPARK_HOURS).rev().map(|hour| hour.failed).collect();
    html! {
        tr {
            td { (pattern_badges(pattern)) a href=(to) { (template(&super::components::line(&pattern.template))) }
                div.faint { (pattern.reason) " · " (pattern.category) } }
            td.wide { (spark(&hours)) }
            td.num {
                a href=(links::runs([("pattern", pattern.id.as_str()), ("state", "dead,review,scheduled,running")])) { (grouped(pattern.open)) }
            }
            td.num.wide { (pattern.tenants.len()) }
            td.nowrap.wide.muted { (ago(pattern.first_seen, seen.now)) }
            td.act {
                @if pattern.category == redrive_core::reason::Category::Transient { span.faint { "retrying by itself" } }
                @else { a.button href=(to) { "Look…" } }
            }
        }
    }
}

const NAMED_MAX: usize = 4;

/// By urgency.
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

fn needs_panel(seen: &OverviewData) -> Markup {
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

fn kind(seen: &OverviewData, because: DeadBecause, says: &str, next: &str) -> Markup {
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

fn reviews(seen: &OverviewData, review: u64) -> Markup {
    let of_review = |run: &RunSummary| run.state == StateName::Review;
    let says = html! { "Replays that wait for a second pair of eyes." };
    let badge = state_word_badge(StateName::Review);
    row("/runs?state=review", &grouped(review), &badge, &says, &whom(&seen.waiting, of_review), "Approve…")
}

fn critical(seen: &OverviewData) -> Markup {
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

/// The queues and tenants of the sampled runs.
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

const ROWS_MAX: usize = 6;
const TENANTS_MAX: usize = 4;

fn trouble_panel(seen: &OverviewData) -> Markup {
    let mut rows: Vec<Markup> = Vec::new();
    let not_closed = seen.breakers.iter().filter(|breaker| breaker.state != BreakerStateName::Closed);
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

fn says(seen: &OverviewData, breaker: &BreakerView) -> Markup {
    html! {
        (breaker_badge(breaker.state)) " "
        @if let Some(tenant) = &breaker.tenant { a href=(format!("/tenants/{tenant}")) { (said(tenant.as_str())) } " " }
        @if let Some(provider) = &breaker.provider { (said(provider.as_str())) " " }
        @if let Some(model) = &breaker.model { (said(model.as_str())) }
        @if let (Some(failed), Some(attempts)) = (breaker.failed, breaker.attempts) {
            " · " (grouped(failed)) " of " (grouped(attempts)) " failed"
        }
        @if breaker.held > 0 { " · " (grouped(breaker.held)) " held" }
        @if breaker.state == BreakerStateName::Open {
            " · " @if breaker.by_hand { "by hand, " } "until " (ahead(breaker.until, seen.now))
        }
    }
}
