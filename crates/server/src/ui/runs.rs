//! `/runs`: dead letters, or runs under any other filter. The filters are part of the address. A selection, or all
//! matches, leads to the preview of an operation.

use maud::{Markup, html};
use redrive_core::time::Timestamp;
use redrive_core::wire::{RunSummary, RunsPage};

use super::components::{
    FilterChip, ago, chips, empty, field, grouped, head, hidden, isolated, line, of, pager, severity_badge,
    state_badge, template,
};
use super::layout::Tab;
use super::links;
use super::page::{PageContent, PageRequest};
use crate::api::v1::runs::read::RunListQuery;
use crate::app::App;
use crate::auth::Visitor;
use crate::problem::Result;
use crate::query::{FromQuery, Param, RawQuery};

/// The API's query, without the empty fields that a form sends.
pub(crate) struct RunsPageQuery(RunListQuery);

impl FromQuery for RunsPageQuery {
    const PARAMS: &'static [Param] = RunListQuery::PARAMS;

    fn read(given: &mut RawQuery) -> Result<Self> {
        given.drop_empty();
        for time in ["since", "until"] {
            given.edit(time, |text| match text.len() {
                // Browsers send no seconds and no zone; it is UTC.
                16 => format!("{text}:00Z"),
                _ => text,
            });
        }
        RunListQuery::read(given).map(Self)
    }
}

/// The filters in the order of the form: name, label and example.
const FILTERS: [(&str, &str, &str); 15] = [
    ("state", "State", "dead,review"),
    ("dead_because", "Dead because", "unsafe,permanent"),
    ("reason", "Reason", "timeout"),
    ("category", "Category", "transient"),
    ("tenant", "Tenant", "acme"),
    ("queue", "Queue", "invoices"),
    ("agent", "Agent", ""),
    ("severity", "Severity", "critical,high"),
    ("customer", "Customer", ""),
    ("environment", "Environment", "production"),
    ("assigned_to", "Assigned to", ""),
    ("pattern", "Pattern", ""),
    ("held", "Held", "true"),
    ("since", "Since", "2026-11-15T20:00:00Z"),
    ("until", "Until", "2026-11-16T20:00:00Z"),
];

pub(crate) async fn get(app: App, visit: PageRequest<(), RunsPageQuery>) -> Result<PageContent> {
    let given = RunFilterView::of(&visit.address);
    let (scope, filter, page) = visit.query.0.seen_by(&visit.who)?;
    let found = app.store.runs(&scope, filter, page).await?;
    let may_bulk = visit.who.is_operator();
    let main = html! {
        (heading(&given, &found, may_bulk))
        div.bar {
            (chips(&given.chips()))
            (more_filters(&given, visit.who.own_tenant().is_some()))
            span.faint.wide.keys { "j k move · x select · enter open · r replay · e edit · ? all keys" }
        }
        p.notice id="newer" role="status" hidden {}
        @if found.runs.is_empty() { (nothing(&given)) }
        @else if may_bulk { (bulk(&given, &found, &visit.who, visit.now)) }
        @else { section.panel aria-label="Runs" { (table(&found.runs, visit.now, false)) } }
        (pager(given.has("cursor").then(|| given.without("cursor")).as_deref(), found.next_cursor.as_ref().map(|next| given.with("cursor", next)).as_deref()))
    };
    Ok(PageContent::new("Dead letters", Tab::Runs, main))
}

/// The parameters in the address.
pub(crate) struct RunFilterView(Vec<(String, String)>);

impl RunFilterView {
    fn of(address: &str) -> Self {
        let query = address.split_once('?').map_or("", |(_, query)| query);
        let pairs = form_urlencoded::parse(query.as_bytes()).map(|(n, v)| (n.into_owned(), v.into_owned()));
        Self(pairs.filter(|(_, value)| !value.is_empty()).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The filters, without the parameters of the page.
    fn filter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        pairs.filter(|(name, _)| !["cursor", "sort", "limit", "count"].contains(name))
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn without(&self, name: &str) -> String {
        links::runs(self.pairs().filter(|(n, _)| *n != name && *n != "cursor"))
    }

    fn with(&self, name: &str, value: &str) -> String {
        let others = self.pairs().filter(|(n, _)| *n != name && *n != "cursor");
        links::runs(others.chain([(name, value)]))
    }

    fn chips(&self) -> Vec<FilterChip> {
        let chip = |(name, value): (&str, &str)| FilterChip {
            name: name.replace('_', " "),
            value: value.to_owned(),
            without: self.without(name),
        };
        self.filter().map(chip).collect()
    }
}

fn heading(given: &RunFilterView, found: &RunsPage, may_bulk: bool) -> Markup {
    let only_dead = given.get("state") == Some("dead");
    let noun = if only_dead { "dead letter" } else { "run" };
    let total =
        found.total.map(|total| format!("{}{}", if found.total_capped { "More than " } else { "" }, of(total, noun)));
    let headline =
        html! { (total.unwrap_or_else(|| format!("More {noun}s"))) @if given.filter().count() > 1 { " match" } };
    let why = html! {
        @if only_dead {
            "Automation can’t continue these runs. Open one, or preview an action on all matches."
        }
        @else { "The address contains the filters: share it to share this list." }
    };
    let actions = html! {
        @if may_bulk && !found.runs.is_empty() {
            a.button.primary href=(links::with("/operations/new", given.filter().chain([("action", "replay")]))) {
                "Replay " (found.total.map_or_else(String::new, grouped)) " matching…"
            }
        } @else if let Some(first) = found.runs.first() {
            a.button.primary href=(links::run(&first.tenant, &first.run_id)) { "Open the newest" }
        }
    };
    head(&headline, &why, &actions)
}

fn more_filters(given: &RunFilterView, is_tenant: bool) -> Markup {
    html! {
        details.filters {
            summary { "Add filter" }
            form.panel.body.grid action="/runs" {
                @for (name, label, example) in FILTERS {
                    @if !(is_tenant && name == "tenant") {
                        (field(name, label, given.get(name).unwrap_or_default(), example))
                    }
                }
                (field("q", "Search", given.get("q").unwrap_or_default(), "run, key, customer or error text"))
                label.field { span { "Sort" } select name="sort" {
                    @for (value, word) in [("-received", "newest first"), ("received", "oldest first"), ("due", "next due first")] {
                        option value=(value) selected[given.get("sort") == Some(value)] { (word) }
                    }
                } }
                button { "Apply" }
            }
        }
    }
}

fn nothing(given: &RunFilterView) -> Markup {
    let body = if given.filter().next().is_none() {
        empty(
            "No runs yet.",
            &html! {
                "Report a failure with " code { "POST /v1/failures" } ", or start a run with " code { "POST /v1/runs" }
                ". Dead letters appear here."
            },
        )
    } else {
        empty("No matching runs.", &html! { "Remove a filter above, or " a href="/runs" { "show all runs" } "." })
    };
    html! { section.panel { (body) } }
}

/// The table inside the form that leads to a preview.
fn bulk(given: &RunFilterView, found: &RunsPage, who: &Visitor, now: Timestamp) -> Markup {
    let total = found.total.unwrap_or(found.runs.len() as u64);
    html! {
        form.panel id="bulk" method="post" action="/operations/new" {
            (hidden("csrf", who.csrf()))
            @for (name, value) in given.filter() { (hidden(&format!("filter.{name}"), value)) }
            header {
                label.bar {
                    input type="checkbox" id="page" aria-label="select this page"; span id="selected" { "Select" }
                }
                label.bar.muted {
                    input type="checkbox" name="all" value="yes" id="all"; "all " (grouped(total)) " matching"
                }
                span.end.bar {
                    button name="action" value="replay" { "Replay…" }
                    button name="action" value="resolve" { "Resolve…" }
                    button name="action" value="assign" { "Assign…" }
                    button.danger name="action" value="discard" { "Discard…" }
                }
            }
            (table(&found.runs, now, true))
        }
    }
}

fn table(runs: &[RunSummary], now: Timestamp, selectable: bool) -> Markup {
    html! {
        div.scroll { table id="runs" {
            thead { tr {
                @if selectable { th { span.sr { "Select" } } }
                th { "Run" } th { "What happened" } th.wide { "State" } th.num.wide { "Tries" } th.num.wide { "Age" }
            } }
            tbody { @for run in runs { (row(run, now, selectable)) } }
        } }
    }
}

fn row(run: &RunSummary, now: Timestamp, selectable: bool) -> Markup {
    let name = format!("{}/{}", run.tenant, run.run_id);
    html! {
        tr data-run=(name) {
            @if selectable {
                td { input type="checkbox" name="run" value=(name) aria-label=(format!("select {}", run.run_id)); }
            }
            td.id {
                a href=(links::run(&run.tenant, &run.run_id)) { (isolated(run.run_id.as_str())) }
                div.faint { (isolated(run.tenant.as_str())) }
            }
            td {
                @match &run.template { Some(text) => (template(&line(text))), None => span.faint { "no failure yet" } }
                div.faint { (severity_badge(run.severity)) " "
                    @if let Some(reason) = &run.reason { (reason) }
                    @if let Some(agent) = &run.agent { " · " (isolated(agent.as_str())) }
                    @if let Some(to) = &run.assigned_to { " · assigned to " (isolated(to.as_str())) }
                    span.narrow-only { " · " (state_badge(run)) " " (ago(run.received_at, now)) }
                }
            }
            td.wide { (state_badge(run)) }
            td.num.wide { (run.attempt) }
            td.num.nowrap.muted.wide { (ago(run.received_at, now)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_is_a_chip_that_can_be_taken_off() {
        let asked = RunFilterView::of("/runs?state=dead&q=a%26b&cursor=x&reason=");
        let chips: Vec<(String, String)> = asked.chips().into_iter().map(|chip| (chip.value, chip.without)).collect();
        assert_eq!(chips, [("dead".into(), "/runs?q=a%26b".into()), ("a&b".into(), "/runs?state=dead".into())]);
    }

    #[test]
    fn empty_fields_and_a_browsers_times_are_read() {
        assert!(RawQuery::parse::<RunsPageQuery>(Some("state=&since=2026-11-15T20:00&q=")).is_ok());
        assert!(RawQuery::parse::<RunsPageQuery>(Some("state=gone")).is_err());
    }
}
