//! `/patterns`: root causes, the default way to work. One row is one cause, one fix, many runs.

use maud::{Markup, html};
use redrive_core::wire::{PatternDetail, PatternSort};

use super::components::{
    ago, choice, empty, field, grouped, head, line, of, pager, pattern_badges, said, spark, template,
};
use super::layout::Tab;
use super::links;
use super::page::{Sheet, Visit};
use crate::api::v1::patterns::list::ListQuery;
use crate::app::App;
use crate::problem::Result;
use crate::query::{FromQuery, Given, Param};

/// Each row has its trend, so that a page of them stays short.
const ROWS_MAX: u32 = 25;
const TREND_HOURS: usize = 48;

/// As the API reads it, the most open first.
pub(crate) struct PatternsQuery(ListQuery);

impl FromQuery for PatternsQuery {
    const PARAMS: &'static [Param] = ListQuery::PARAMS;

    fn read(given: &mut Given) -> Result<Self> {
        given.drop_empty();
        let sort = given.take("sort");
        let mut query = ListQuery::read(given)?;
        query.call.sort = match sort.as_deref() {
            Some("count") => PatternSort::Count,
            Some("last_seen") => PatternSort::LastSeen,
            _ => PatternSort::Open,
        };
        query.call.limit = query.call.limit.min(ROWS_MAX);
        Ok(Self(query))
    }
}

pub(crate) async fn get(app: App, visit: Visit<(), PatternsQuery>) -> Result<Sheet> {
    let ListQuery { tenant, call } = visit.query.0;
    let scope = visit.who.scope(tenant.as_ref())?;
    let (sort, filtered) = (call.sort, call.filter != Default::default() || call.cursor.is_some());
    let q = call.filter.q.clone().unwrap_or_default();
    let state = call.filter.states.first().map_or("", |state| state.as_str());
    let page = app.store.patterns(&scope, call).await?;
    let mut rows = Vec::new();
    for pattern in &page.patterns {
        rows.push(app.store.pattern(&scope, &pattern.id).await?);
    }
    let next = page.next_cursor.as_ref().map(|next| {
        let tenant = tenant.as_ref().map(|tenant| ("tenant", tenant.as_str()));
        let pairs = [("sort", sort.as_str()), ("q", q.as_str()), ("state", state), ("cursor", next.as_str())];
        links::with("/patterns", pairs.into_iter().filter(|(_, value)| !value.is_empty()).chain(tenant))
    });
    let main = html! {
        (heading(&rows, filtered))
        form.bar action="/patterns" {
            (field("q", "Part of the error", &q, ""))
            (choice("state", "State", &[("", "any"), ("new", "new"), ("acknowledged", "acknowledged"), ("resolved", "resolved"), ("muted", "muted")], state))
            (choice("sort", "First", &[("open", "most open"), ("count", "most failures"), ("last_seen", "last seen")], sort.as_str()))
            button { "Show" }
        }
        section.panel aria-label="Patterns" {
            @if rows.is_empty() { (nothing(filtered)) } @else { (table(&rows, &visit.now)) }
        }
        (pager(None, next.as_deref()))
    };
    Ok(Sheet::new("Patterns", Tab::Patterns, main))
}

fn heading(rows: &[PatternDetail], filtered: bool) -> Markup {
    let open: u64 = rows.iter().map(|row| row.pattern.open).sum();
    let largest = rows.iter().max_by_key(|row| row.pattern.open).filter(|row| row.pattern.open > 0);
    let said = html! {
        @match largest {
            Some(largest) if !filtered => { "One cause is behind " (of(largest.pattern.open, "open run")) ", "
                (of(rows.len() as u64, "cause")) " behind " (grouped(open)) "." }
            Some(_) | None => { (of(rows.len() as u64, "cause")) " behind " (of(open, "open run")) "." }
        }
    };
    let why = html! { "Failures that share a cause stand together: what differs from run to run is masked, what names the failing part stays." };
    let action = html! {
        @if let Some(largest) = largest { a.button.primary href=(links::pattern(&largest.pattern.id)) { "Open the largest" } }
    };
    head(&said, &why, &action)
}

fn nothing(filtered: bool) -> Markup {
    if filtered {
        return empty("No pattern matches.", &html! { a href="/patterns" { "Show all of them" } "." });
    }
    empty(
        "Nothing has failed yet.",
        &html! {
            "As soon as a failure is reported it is read, masked and grouped. Try one out in the "
            a href="/settings#tester" { "tester" } "."
        },
    )
}

fn table(rows: &[PatternDetail], now: &redrive_core::time::Timestamp) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "Root cause" } th.wide { "48 h" } th.num { "Open" } th.num.wide { "Failures" } th.num.wide { "Tenants" }
                th.wide { "First seen" } th.wide { "Last seen" } th.wide { "Owner" }
            } }
            tbody { @for PatternDetail { pattern, body } in rows {
                @let hours: Vec<u64> = body.hours.iter().rev().take(TREND_HOURS).rev().map(|hour| hour.failed).collect();
                tr {
                    td { (pattern_badges(pattern)) a href=(links::pattern(&pattern.id)) { (template(&line(&pattern.template))) }
                        div.faint { (pattern.reason) " · " (pattern.category) } }
                    td.wide { (spark(&hours)) span.sr { (of(hours.iter().sum(), "failure")) " in 48 hours" } }
                    td.num { a href=(links::runs([("pattern", pattern.id.as_str()), ("state", "dead,review,scheduled,running")])) { (grouped(pattern.open)) } }
                    td.num.wide { (grouped(pattern.count)) }
                    td.num.wide { (pattern.tenants.len()) }
                    td.wide.muted { (ago(pattern.first_seen, *now)) }
                    td.wide.muted { (ago(pattern.last_seen, *now)) }
                    td.wide { @if let Some(owner) = &pattern.owner { (said(owner.as_str())) } @else { span.faint { "nobody" } } }
                }
            } }
        } }
    }
}
