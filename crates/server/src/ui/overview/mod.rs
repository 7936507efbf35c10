//! The front page: what needs a person first, then rates, issues and root causes.

mod read;

use std::collections::BTreeSet;

use maud::{Markup, html};
use redrive_core::breaker::BreakerStateName;
use redrive_core::run::StateName;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{BreakerView, PatternDetail, RunSummary, Severity, StatsPoint};

use self::read::OverviewData;
use super::components::{
    ChartBar, ago, ahead, bars, because_badge, breaker_badge, empty, exact, fact, facts, grouped, head, isolated, of,
    panel, pattern_badges, percent, severity_badge, span, spark, state_word_badge, template,
};
use super::layout::Tab;
use super::links;
use super::page::{PageContent, PageRequest};
use crate::app::App;
use crate::problem::Result;

/// One day.
const SPARK_HOURS: usize = 24;

pub(crate) async fn get(app: App, visit: PageRequest) -> Result<PageContent> {
    let data = OverviewData::read(&app, &visit.who).await?;
    let main = html! {
        (headline(&data))
        (needs_panel(&data))
        div data-live="figures" { (figures(&data)) }
        div.cols { (rates(&data)) div.stack { (trouble_panel(&data)) } }
        (causes(&data))
    };
    Ok(PageContent::new("Overview", Tab::Overview, main))
}

fn headline(data: &OverviewData) -> Markup {
    let waiting = data.needing();
    let largest = data.patterns.first().map(|largest| largest.pattern.open).filter(|open| *open > 1);
    let headline = match (waiting, largest) {
        (0, _) => html! { "Nothing needs a person." },
        (1, _) => html! { "One run needs a person." },
        (waiting, Some(open)) => {
            html! {
                (grouped(waiting)) " runs need a person. One fix may clear " (grouped(open.min(waiting))) " of them."
            }
        }
        (waiting, None) => html! { (grouped(waiting)) " runs need a person." },
    };
    let scheduled = data.standing.of(StateName::Scheduled);
    let why = html! {
        "Automation handles the rest: " (of(scheduled, "run")) " waiting for a retry, "
        (grouped(data.standing.of(StateName::Running))) " running"
        @if let Some(share) = data.recovery_rate() {
            ", " (share) " of the runs that failed in the last 24 hours recovered"
        }
        "."
    };
    let action = html! {
        @if waiting > 0 { a.button.primary href="/runs?state=dead,review" { "Review " (of(waiting, "run")) } }
        @else { a.button.primary href="/patterns" { "See what failed" } }
    };
    head(&headline, &why, &action)
}

/// Every number links to its list.
fn figures(data: &OverviewData) -> Markup {
    let figure = |to: &str, word: &str, number: &Markup, note: &Markup| {
        html! { a href=(to) { span.muted { (word) } b { (number) } span.faint { (note) } } }
    };
    let (dead, day) = (data.standing.of(StateName::Dead), &data.day);
    html! {
        div.figures {
            (figure("/runs?state=dead", "Dead letters", &html! { (grouped(dead)) },
                &html! { "+" (grouped(day.dead)) " in 24 h" }))
            (figure("/runs?state=scheduled", "Waiting for retry", &html! { (grouped(data.standing.of(StateName::Scheduled))) },
                &html! { (grouped(data.standing.held)) " held" }))
            (figure("/runs?state=recovered", "Recovered, 24 h", &html! { (grouped(day.recovered)) },
                &html! { @match data.recovery_rate() { Some(share) => { (share) " of failed runs" } None => "no failures" } }))
            (figure("/runs?state=recovered,resolved", "Time to resolution", &html! { (time(data.by_itself_ms)) },
                &html! { "automatic · " (time(data.by_a_person_ms)) " by a person" }))
        }
    }
}

fn time(ms: Option<u64>) -> String {
    ms.map_or_else(|| "–".into(), span)
}

fn rates(data: &OverviewData) -> Markup {
    let series = [("s-good", "recovered"), ("s-wait", "retried"), ("s-dead", "dead")];
    let shown: Vec<ChartBar> = data.stats.hours.iter().map(bar).collect();
    let (failed, dead) = (data.day.failed, data.day.dead);
    let about = format!(
        "By the hour over the last 24 hours: {} failed attempts, {} retried, {} recovered, {} dead",
        grouped(failed),
        grouped(data.day.retried),
        grouped(data.day.recovered),
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
            p.muted { (grouped(failed)) " failed attempts in total"
                @if let Some(first) = data.stats.hours.first() { ", since " (exact(first.hour)) } "." }
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

fn causes(data: &OverviewData) -> Markup {
    let open: u64 = data.patterns.iter().map(|detail| detail.pattern.open).sum();
    let all = data.standing.of(StateName::Dead)
        + data.standing.of(StateName::Review)
        + data.standing.of(StateName::Scheduled)
        + data.standing.of(StateName::Running);
    let end = html! {
        @if let Some(share) = percent(open.min(all), all) {
            span.wide { (data.patterns.len()) " patterns cover " (share) " of open runs · " }
        }
        a href="/patterns" { "All patterns" }
    };
    let body = html! {
        @if data.patterns.is_empty() {
            (empty("No open failures.", &html! {
                "Failed runs are grouped here by root cause, so that one fix can clear many of them."
            }))
        } @else {
            div.scroll { table {
                thead { tr {
                    th { "Root cause" } th.wide { "24 h" } th.num { "Open" } th.num.wide { "Tenants" }
                    th.wide { "First seen" } th { span.faint { "Action" } }
                } }
                tbody { @for detail in &data.patterns { (cause(data, detail)) } }
            } }
        }
    };
    panel("causes", "Root causes", &end, &body)
}

fn cause(data: &OverviewData, detail: &PatternDetail) -> Markup {
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
            td.nowrap.wide.muted { (ago(pattern.first_seen, data.now)) }
            td.act {
                @if pattern.category == redrive_core::reason::Category::Transient { span.faint { "retried automatically" } }
                @else { a.button href=(to) { "Open" } }
            }
        }
    }
}

const NAMED_MAX: usize = 4;

/// By urgency.
const KINDS: [(DeadBecause, &str, &str); 7] = [
    (
        DeadBecause::Unsafe,
        "An effect may have happened, or it happened and can’t be repeated. Check it before you replay.",
        "Reconcile…",
    ),
    (
        DeadBecause::Poison,
        "The same failure keeps coming back, or workers keep going silent. Fix the cause before you replay.",
        "Open",
    ),
    (DeadBecause::Permanent, "No retry can help until code, credentials or data are corrected.", "Fix…"),
    (DeadBecause::Exhausted, "All retries are used up. Replay once the cause is gone.", "Replay…"),
    (DeadBecause::Expired, "An approval request or a deadline expired.", "Decide…"),
    (DeadBecause::Rejected, "No worker took them, or their payload does not fit the model.", "Open"),
    (DeadBecause::Manual, "Stopped by a person.", "Decide…"),
];

fn needs_panel(data: &OverviewData) -> Markup {
    let oldest = data.waiting.iter().map(|run| run.received_at).min();
    let sampled = data.waiting.len() as u64;
    let end = html! {
        @if let Some(oldest) = oldest {
            "oldest" @if data.needing() > sampled { " of the newest " (grouped(sampled)) } ": " (ago(oldest, data.now))
        }
    };
    let kinds: Vec<_> = KINDS.iter().filter(|(because, ..)| data.standing.because(*because) > 0).collect();
    let review = data.standing.of(StateName::Review);
    let body = html! {
        @if kinds.is_empty() && review == 0 {
            (empty("All clear.", &html! {
                "Runs that automation can’t continue are listed here, each with its next action. Everything else is "
                "retried automatically."
            }))
        } @else {
            div.scroll { table { tbody {
                @for (because, says, next) in kinds.iter().take(1) { (kind(data, *because, says, next)) }
                @if review > 0 { (reviews(data, review)) }
                (critical(data))
                @for (because, says, next) in kinds.iter().skip(1) { (kind(data, *because, says, next)) }
            } } }
        }
    };
    panel("needs", "Needs you now", &end, &body)
}

fn kind(data: &OverviewData, because: DeadBecause, says: &str, next: &str) -> Markup {
    let to = links::runs([("state", "dead"), ("dead_because", because.as_str())]);
    row(
        &to,
        &grouped(data.standing.because(because)),
        &because_badge(because),
        &html! { (says) },
        &whom(&data.waiting, |run| run.dead_because == Some(because)),
        next,
    )
}

fn reviews(data: &OverviewData, review: u64) -> Markup {
    let of_review = |run: &RunSummary| run.state == StateName::Review;
    let says = html! { "Replays waiting for approval." };
    let badge = state_word_badge(StateName::Review);
    row("/runs?state=review", &grouped(review), &badge, &says, &whom(&data.waiting, of_review), "Approve…")
}

fn critical(data: &OverviewData) -> Markup {
    let n = data.critical.total.unwrap_or(0);
    if n == 0 {
        return html! {};
    }
    let more = if data.critical.total_capped { "+" } else { "" };
    let count = format!("{}{more}", grouped(n));
    let says = html! { "Reported as critical." };
    let to = "/runs?state=dead&severity=critical";
    row(to, &count, &severity_badge(Severity::Critical), &says, &whom(&data.critical.runs, |_| true), "Open")
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
            @for (at, name) in names.iter().take(NAMED_MAX).enumerate() { @if at > 0 { ", " } (isolated(name)) }
            @if names.len() > NAMED_MAX { " and " (names.len() - NAMED_MAX) " more" }
        }
    }
}

const ROWS_MAX: usize = 6;
const TENANTS_MAX: usize = 4;

fn trouble_panel(data: &OverviewData) -> Markup {
    let mut rows: Vec<Markup> = Vec::new();
    let not_closed = data.breakers.iter().filter(|breaker| breaker.state != BreakerStateName::Closed);
    rows.extend(not_closed.take(ROWS_MAX).map(|breaker| fact("Breaker", &says(data, breaker))));
    if let Some(jump) = data.health.clock {
        let way = if jump.by_ms < 0 { "back" } else { "forward" };
        let says = html! {
            "The server’s clock was set " (way) " " (ago(jump.jumped_at, data.now))
            @if jump.ahead_ms > 0 { "; times shown here are " (grouped(jump.ahead_ms / 1_000)) " s ahead of it" }
        };
        rows.push(fact("Clock", &says));
    }
    for queue in data.health.queues_without_workers.iter().take(ROWS_MAX) {
        let says = html! {
            a href=(format!("/queues/{}", queue.queue)) { (isolated(queue.queue.as_str())) }
            " has due runs and no worker; oldest due " (ago(queue.oldest_due_at, data.now))
        };
        rows.push(fact("Queue", &says));
    }
    for queue in data.health.queues_without_owner.iter().take(ROWS_MAX) {
        rows.push(fact(
            "Queue",
            &html! { a href=(format!("/queues/{queue}")) { (isolated(queue.as_str())) } " has no owner" },
        ));
    }
    for tenant in data.tenants.iter().filter(|tenant| tenant.dead > 0).take(TENANTS_MAX) {
        let to = super::links::runs([("state", "dead"), ("tenant", tenant.tenant.as_str())]);
        let says = html! {
            a href=(format!("/tenants/{}", tenant.tenant)) { (isolated(tenant.tenant.as_str())) } " has "
            a href=(to) { (grouped(tenant.dead)) " dead" }
            @if let Some(at) = tenant.last_failure_at { ", last failure " (ago(at, data.now)) }
        };
        rows.push(fact("Tenant", &says));
    }
    let body = html! {
        div.body { @if rows.is_empty() { span.muted { "No issues: every breaker is closed, every queue has a worker and an owner." } }
            @else { (facts(&rows)) } }
    };
    panel("trouble", "Issues", &html! {}, &body)
}

fn says(data: &OverviewData, breaker: &BreakerView) -> Markup {
    html! {
        (breaker_badge(breaker.state)) " "
        @if let Some(tenant) = &breaker.tenant { a href=(format!("/tenants/{tenant}")) { (isolated(tenant.as_str())) } " " }
        @if let Some(provider) = &breaker.provider { (isolated(provider.as_str())) " " }
        @if let Some(model) = &breaker.model { (isolated(model.as_str())) }
        @if let (Some(failed), Some(attempts)) = (breaker.failed, breaker.attempts) {
            " · " (grouped(failed)) " of " (grouped(attempts)) " failed"
        }
        @if breaker.held > 0 { " · " (grouped(breaker.held)) " held" }
        @if breaker.state == BreakerStateName::Open {
            " · " @if breaker.by_hand { "opened manually, " } "until " (ahead(breaker.until, data.now))
        }
    }
}
