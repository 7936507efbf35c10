//! The front page: what needs a person now, first; then how it goes, and what is not as it should be.

mod needs;
mod read;
mod trouble;

use maud::{Markup, html};
use redrive_core::run::StateName;
use redrive_core::wire::{PatternDetail, StatsPoint};

use self::read::Seen;
use super::components::{Bar, exact};
use super::components::{ago, bars, empty, grouped, head, of, panel, pattern_badges, percent, span, spark, template};
use super::layout::Tab;
use super::links;
use super::page::{Sheet, Visit};
use crate::app::App;
use crate::problem::Result;

/// Of a day.
const SPARK_HOURS: usize = 24;

pub(crate) async fn get(app: App, visit: Visit) -> Result<Sheet> {
    let seen = Seen::read(&app, &visit.who).await?;
    let main = html! {
        (headline(&seen))
        (needs::panel_of(&seen))
        div data-live="figures" { (figures(&seen)) }
        div.cols { (rates(&seen)) div.stack { (trouble::panel_of(&seen)) } }
        (causes(&seen))
    };
    Ok(Sheet::new("Overview", Tab::Overview, main))
}

fn headline(seen: &Seen) -> Markup {
    let waiting = seen.needing();
    let largest = seen.patterns.first().map(|largest| largest.pattern.open).filter(|open| *open > 1);
    let said = match (waiting, largest) {
        (0, _) => html! { "Nothing waits for a person." },
        (1, _) => html! { "One run needs a person." },
        (waiting, Some(open)) => {
            html! { (grouped(waiting)) " runs need a person. One fix may clear " (grouped(open.min(waiting))) " of them." }
        }
        (waiting, None) => html! { (grouped(waiting)) " runs need a person." },
    };
    let scheduled = seen.standing.of(StateName::Scheduled);
    let why = html! {
        "Everything else goes by itself: " (of(scheduled, "run")) " waiting for a retry, "
        (grouped(seen.standing.of(StateName::Running))) " running"
        @if let Some(share) = seen.recovery_rate() { ", " (share) " of the runs that failed in the last 24 hours have recovered" }
        "."
    };
    let action = html! {
        @if waiting > 0 { a.button.primary href="/runs?state=dead,review" { "Review the " (grouped(waiting)) } }
        @else { a.button.primary href="/patterns" { "See what failed" } }
    };
    head(&said, &why, &action)
}

/// Every number leads to the list behind it.
fn figures(seen: &Seen) -> Markup {
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

fn rates(seen: &Seen) -> Markup {
    let series = [("s-good", "recovered"), ("s-wait", "retried"), ("s-dead", "dead")];
    let shown: Vec<Bar> = seen.stats.hours.iter().map(bar).collect();
    let (failed, dead) = (seen.day.failed, seen.day.dead);
    let about = format!(
        "By the hour over the last 24 hours: {} failed attempts, {} retried, {} recovered, {} dead",
        grouped(failed),
        grouped(seen.day.retried),
        grouped(seen.day.recovered),
        grouped(dead)
    );
    let legend = html! {
        span.badge.good { "recovered" } " " span.badge.wait { "retried" } " " span.badge.dead { "dead" } " " span.badge { "— failed" }
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

fn bar(point: &StatsPoint) -> Bar {
    let hour = point.hour.to_string();
    Bar {
        name: hour.get(11..16).unwrap_or_default().to_owned(),
        values: vec![point.recovered, point.retried, point.dead],
        line: Some(point.failed),
    }
}

fn causes(seen: &Seen) -> Markup {
    let open: u64 = seen.patterns.iter().map(|detail| detail.pattern.open).sum();
    let all = seen.standing.of(StateName::Dead)
        + seen.standing.of(StateName::Review)
        + seen.standing.of(StateName::Scheduled)
        + seen.standing.of(StateName::Running);
    let end = html! {
        @if let Some(share) = percent(open.min(all), all) { span.wide { (seen.patterns.len()) " explain " (share) " of what is open · " } }
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

fn cause(seen: &Seen, detail: &PatternDetail) -> Markup {
    let pattern = &detail.pattern;
    let to = links::pattern(&pattern.id);
    let hours: Vec<u64> = detail.body.hours.iter().rev().take(SPARK_HOURS).rev().map(|hour| hour.failed).collect();
    html! {
        tr {
            td { (pattern_badges(pattern)) a href=(to) { (template(&super::components::line(&pattern.template))) }
                div.faint { (pattern.reason) " · " (pattern.category) } }
            td.wide { (spark(&hours)) }
            td.num { a href=(links::runs([("pattern", pattern.id.as_str()), ("state", "dead,review,scheduled,running")])) { (grouped(pattern.open)) } }
            td.num.wide { (pattern.tenants.len()) }
            td.nowrap.wide.muted { (ago(pattern.first_seen, seen.now)) }
            td.act {
                @if pattern.category == redrive_core::reason::Category::Transient { span.faint { "retrying by itself" } }
                @else { a.button href=(to) { "Look…" } }
            }
        }
    }
}
