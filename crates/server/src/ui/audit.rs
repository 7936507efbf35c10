//! `/audit`: who did what. A tenant sees the entries about itself.

use maud::{Markup, html};
use redrive_core::time::Timestamp;
use redrive_core::wire::{AuditEntry, RawJson};

use super::components::{ago, empty, field, head, isolated, line, pager};
use super::layout::Tab;
use super::links;
use super::page::{PageContent, PageRequest};
use crate::api::v1::audit::{AuditListQuery, list_as};
use crate::app::App;
use crate::problem::Result;
use crate::query::{FromQuery, Param, RawQuery};

/// The API's query, as a form sends it.
pub(crate) struct AuditPageQuery(AuditListQuery);

impl FromQuery for AuditPageQuery {
    const PARAMS: &'static [Param] = AuditListQuery::PARAMS;

    fn read(given: &mut RawQuery) -> Result<Self> {
        given.drop_empty();
        AuditListQuery::read(given).map(Self)
    }
}

/// The filters in the order of the form: name, label and example.
const FILTERS: [(&str, &str, &str); 7] = [
    ("actor", "Actor", "operator:key-1"),
    ("action", "Action", "run.replay"),
    ("run", "Run", ""),
    ("operation", "Operation", "op-1"),
    ("tenant", "Tenant", "acme"),
    ("since", "Since", "2026-11-15T20:00:00Z"),
    ("until", "Until", "2026-11-16T20:00:00Z"),
];

pub(crate) async fn get(app: App, visit: PageRequest<(), AuditPageQuery>) -> Result<PageContent> {
    let given = given(&visit.address);
    let is_tenant = visit.who.own_tenant().is_some();
    let found = list_as(&app, &visit.who, visit.query.0).await?;
    let filters =
        || given.iter().filter(|(name, _)| name != "cursor").map(|(name, value)| (name.as_str(), value.as_str()));
    let next = found.next_cursor.as_deref().map(|next| links::with("/audit", filters().chain([("cursor", next)])));
    let first = given.iter().any(|(name, _)| name == "cursor").then(|| links::with("/audit", filters()));
    let why = html! { "Acts of people and keys, newest first. Every entry is chained to the one before it, so that a change shows." };
    let main = html! {
        (head(&html! { "Who did what" }, &why, &html! {}))
        form.panel.body.grid action="/audit" {
            @for (name, label, example) in FILTERS {
                @if !(is_tenant && name == "tenant") {
                    (field(name, label, filters().find(|(n, _)| *n == name).map_or("", |(_, value)| value), example))
                }
            }
            button { "Apply" }
        }
        section.panel aria-label="Audit log" {
            @if found.entries.is_empty() {
                (empty("No entries.", &html! { "Replays, decisions, operations, keys and settings appear here." }))
            } @else { (table(&found.entries, visit.now)) }
        }
        (pager(first.as_deref(), next.as_deref()))
    };
    Ok(PageContent::new("Audit log", Tab::Audit, main))
}

/// The parameters in the address.
fn given(address: &str) -> Vec<(String, String)> {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let pairs = form_urlencoded::parse(query.as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned()));
    pairs.filter(|(_, value)| !value.is_empty()).collect()
}

fn table(entries: &[AuditEntry], now: Timestamp) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Act" } th { "Subject" } th.wide { "Before" } th.wide { "After" } th.wide { "From" } th.num { "When" } } }
            tbody { @for entry in entries { tr {
                td { b { (isolated(&entry.action)) } div.faint { (isolated(&entry.actor)) }
                    @if let Some(reason) = &entry.reason { div.muted { (isolated(&line(&reason.decode()))) } } }
                td { (subject(entry)) @if let Some(tenant) = &entry.tenant { div.faint { (isolated(tenant)) } }
                    @if let Some(operation) = &entry.operation { div.faint { (isolated(operation)) } } }
                td.wide.faint { (state(entry.before.as_ref())) }
                td.wide.faint { (state(entry.after.as_ref())) }
                td.wide.faint { @if let Some(from) = &entry.from { (isolated(from)) }
                    @if let Some(id) = &entry.request_id { div { (isolated(id)) } } }
                td.num.muted { (ago(entry.at, now)) @if let Some(seq) = entry.seq { div.faint { (seq) } } }
            } } }
        } }
    }
}

/// A run and a pattern have a page.
fn subject(entry: &AuditEntry) -> Markup {
    let to = match (entry.subject.split_once(':'), &entry.tenant) {
        (Some(("run", run)), Some(tenant)) => Some(format!("/runs/{tenant}/{run}")),
        (Some(("pattern", pattern)), _) => Some(links::pattern(pattern)),
        (_, _) => None,
    };
    html! {
        @match to {
            Some(to) => { a href=(to) { (isolated(&entry.subject)) } }
            None => { (isolated(&entry.subject)) }
        }
    }
}

fn state(object: Option<&RawJson>) -> Markup {
    html! { @if let Some(object) = object { (isolated(&line(object.get()))) } }
}
