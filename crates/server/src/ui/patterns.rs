//! `/patterns`: root causes, with their runs and the actions on them.

use maud::{Markup, html};
use redrive_core::ids::Tenant;
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternDetail, PatternSort, PatternState, RunSummary, Sort, Versions};
use redrive_engine::{PageCall, PatternAct, PatternVerb, RunFilter, TenantScope};

use super::components::{
    ChartBar, ago, bars, choice, clock, empty, exact, fact, facts, field, grouped, head, hidden, isolated, line, of,
    pager, panel, pattern_badges, post_form, reason_field, spark, state_badge, template, visible,
};
use super::form::Form;
use super::form::Notice;
use super::layout::Tab;
use super::links;
use super::page::{FormResult, PageContent, PageRequest};
use crate::api::v1::patterns::PatternListQuery;
use crate::api::v1::patterns::{muted, noted, resolved};
use crate::app::App;
use crate::auth::Visitor;
use crate::path::ServerId;
use crate::problem::{HttpProblem, Result};
use crate::query::{FromQuery, Param, RawQuery, TenantQuery};

/// Few, because each row reads its trend.
const ROWS_MAX: u32 = 25;
const TREND_HOURS: usize = 48;

/// The API's query, sorted by open runs.
pub(crate) struct PatternsPageQuery(PatternListQuery);

impl FromQuery for PatternsPageQuery {
    const PARAMS: &'static [Param] = PatternListQuery::PARAMS;

    fn read(given: &mut RawQuery) -> Result<Self> {
        given.drop_empty();
        let sort = given.take("sort");
        let mut query = PatternListQuery::read(given)?;
        query.call.sort = match sort.as_deref() {
            Some("count") => PatternSort::Count,
            Some("last_seen") => PatternSort::LastSeen,
            _ => PatternSort::Open,
        };
        query.call.limit = query.call.limit.min(ROWS_MAX);
        Ok(Self(query))
    }
}

pub(crate) async fn list(app: App, visit: PageRequest<(), PatternsPageQuery>) -> Result<PageContent> {
    let PatternListQuery { tenant, call } = visit.query.0;
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
        (list_heading(&rows, filtered))
        form.bar action="/patterns" {
            (field("q", "Error text", &q, ""))
            (choice("state", "State", &[("", "any"), ("new", "new"), ("acknowledged", "acknowledged"), ("resolved", "resolved"), ("muted", "muted")], state))
            (choice("sort", "Sort by", &[("open", "most open"), ("count", "most failures"), ("last_seen", "last seen")], sort.as_str()))
            button { "Apply" }
        }
        section.panel aria-label="Patterns" {
            @if rows.is_empty() { (nothing(filtered)) } @else { (table(&rows, &visit.now)) }
        }
        (pager(None, next.as_deref()))
    };
    Ok(PageContent::new("Patterns", Tab::Patterns, main))
}

fn list_heading(rows: &[PatternDetail], filtered: bool) -> Markup {
    let open: u64 = rows.iter().map(|row| row.pattern.open).sum();
    let largest = rows.iter().max_by_key(|row| row.pattern.open).filter(|row| row.pattern.open > 0);
    let headline = html! {
        @match largest {
            Some(largest) if !filtered && rows.len() > 1 => { (of(open, "open run")) " from " (of(rows.len() as u64, "cause"))
                "; the largest accounts for " (grouped(largest.pattern.open)) "." }
            Some(_) | None => { (of(open, "open run")) " from " (of(rows.len() as u64, "cause")) "." }
        }
    };
    let why = html! {
        "Failures with the same cause form a pattern: the variable parts of their texts are masked, the rest is compared."
    };
    let action = html! {
        @if let Some(largest) = largest {
            a.button.primary href=(links::pattern(&largest.pattern.id)) { "Open the largest" }
        }
    };
    head(&headline, &why, &action)
}

fn nothing(filtered: bool) -> Markup {
    if filtered {
        return empty("No matching patterns.", &html! { a href="/patterns" { "Show all patterns" } "." });
    }
    empty(
        "Nothing has failed yet.",
        &html! {
            "Reported failures are grouped here by root cause. Try an error in the "
            a href="/settings#tester" { "tester" } "."
        },
    )
}

fn table(rows: &[PatternDetail], now: &redrive_core::time::Timestamp) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "Root cause" }
                th.wide { "48 h" }
                th.num { "Open" }
                th.num.wide { "Failures" }
                th.num.wide { "Tenants" }
                th.wide { "First seen" } th.wide { "Last seen" } th.wide { "Owner" }
            } }
            tbody { @for PatternDetail { pattern, body } in rows {
                @let hours: Vec<u64> = body.hours.iter().rev().take(TREND_HOURS).rev().map(|hour| hour.failed).collect();
                tr {
                    td { (pattern_badges(pattern)) a href=(links::pattern(&pattern.id)) { (template(&line(&pattern.template))) }
                        div.faint { (pattern.reason) " · " (pattern.category) } }
                    td.wide { (spark(&hours)) span.sr { (of(hours.iter().sum(), "failure")) " in 48 hours" } }
                    td.num {
                        a href=(links::runs([("pattern", pattern.id.as_str()), ("state", "dead,review,scheduled,running")])) { (grouped(pattern.open)) }
                    }
                    td.num.wide { (grouped(pattern.count)) }
                    td.num.wide { (pattern.tenants.len()) }
                    td.wide.muted { (ago(pattern.first_seen, *now)) }
                    td.wide.muted { (ago(pattern.last_seen, *now)) }
                    td.wide {
                        @if let Some(owner) = &pattern.owner { (isolated(owner.as_str())) } @else { span.faint { "nobody" } }
                    }
                }
            } }
        } }
    }
}

const RUNS_SHOWN: u32 = 8;
const CANARY_RUNS: &str = "5";
const DAYS_SHOWN: usize = 7;

pub(crate) async fn show(app: App, visit: PageRequest<ServerId, TenantQuery>) -> Result<PageContent> {
    let scope = visit.who.scope(visit.query.tenant.as_ref())?;
    let found = app.store.pattern(&scope, &visit.path.0).await?;
    let runs = open_runs(&app, &scope, &found).await?;
    let main = html! {
        (heading(&found, &visit))
        div.cols {
            div.stack {
                (masked(&found))
                (trend(&found))
                (runs_of(&found, &runs, visit.now))
                (history(&found, visit.now))
            }
            div.stack { (facts_of(&found, visit.now)) (verbs(&found, &visit.who)) (merged(&found, &visit.who)) }
        }
    };
    Ok(PageContent::new(line(&found.pattern.template).into_owned(), Tab::Patterns, main))
}

async fn open_runs(app: &App, scope: &TenantScope, found: &PatternDetail) -> Result<Vec<RunSummary>> {
    let tenant = match scope {
        TenantScope::One(tenant) => Some(tenant.clone()),
        TenantScope::All => None,
    };
    let filter = RunFilter { tenant, patterns: vec![found.pattern.id.clone()], ..RunFilter::default() };
    let page = PageCall { sort: Sort::NewestFirst, limit: RUNS_SHOWN, cursor: None, count: false };
    Ok(app.store.runs(scope, filter, page).await?.runs)
}

fn heading(found: &PatternDetail, visit: &PageRequest<ServerId, TenantQuery>) -> Markup {
    let pattern = &found.pattern;
    let headline = html! { (pattern_badges(pattern)) (of(pattern.open, "open run")) ", one cause: " (pattern.reason) };
    let why = html! {
        (of(pattern.count, "failed attempt")) ", first " (ago(pattern.first_seen, visit.now)) ", last "
        (ago(pattern.last_seen, visit.now)) ". " (advice(pattern.category))
    };
    let to = links::with(
        "/operations/new",
        [("action", "replay"), ("pattern", pattern.id.as_str()), ("state", "dead"), ("canary", CANARY_RUNS)],
    );
    let actions = html! {
        a.button href=(links::runs([("pattern", pattern.id.as_str()), ("state", "dead,review,scheduled,running")])) { "Show runs" }
        @if visit.who.is_operator() && pattern.open > 0 { a.button.primary href=(to) { "Replay with a canary…" } }
        @else if pattern.state == PatternState::New {
            (post_form(&format!("{}/acknowledge", links::pattern(&pattern.id)), visit.who.csrf(), &html! { button.primary { "Acknowledge" } }))
        }
    };
    head(&headline, &why, &actions)
}

fn advice(category: redrive_core::reason::Category) -> &'static str {
    use redrive_core::reason::Category;
    match category {
        Category::Transient => "It passes by itself. Replay the runs that are still dead.",
        Category::Conditional => {
            "It passes once something other than code changes: a smaller input, another model, a permission."
        }
        Category::Permanent => "No retry helps until code, configuration, credentials or data are corrected.",
    }
}

/// The template, and why failures share it.
fn masked(found: &PatternDetail) -> Markup {
    let pattern = &found.pattern;
    let body = html! {
        div.body {
            (template(&pattern.template))
            p.muted {
                b { "Why grouped: " }
                "these failures have the same text except for the highlighted parts, which are masked: numbers, ids, "
                "names. The fingerprint covers the rest: "
                code { (visible(&pattern.fingerprint)) } "."
            }
        }
    };
    panel("template", "Template", &html! { (pattern.reason) " · " (pattern.category) }, &body)
}

fn trend(found: &PatternDetail) -> Markup {
    let hours = &found.body.hours;
    let shown: Vec<ChartBar> = hours
        .iter()
        .rev()
        .take(DAYS_SHOWN * 24)
        .rev()
        .collect::<Vec<_>>()
        .chunks(4)
        .map(|hours| ChartBar {
            name: hours.first().map_or_else(String::new, |hour| {
                hour.hour.to_string().get(5..16).unwrap_or_default().replace('T', " ")
            }),
            values: vec![hours.iter().map(|hour| hour.failed).sum()],
            line: None,
        })
        .collect();
    let all: u64 = shown.iter().flat_map(|bar| &bar.values).sum();
    let about = format!("Failed attempts in steps of four hours over seven days: {} in total", grouped(all));
    panel(
        "trend",
        "Last 7 days",
        &html! { (of(all, "failure")) },
        &html! { div.body { (bars(&about, &[("s-dead", "failed")], None, &shown)) } },
    )
}

fn runs_of(found: &PatternDetail, runs: &[RunSummary], now: Timestamp) -> Markup {
    let end = html! { a href=(links::runs([("pattern", found.pattern.id.as_str())])) { "All runs" } };
    let body = html! {
        @if runs.is_empty() { (empty("No runs.", &html! { "The runs of this pattern have failed differently since, or were merged." })) } @else {
            div.scroll { table { tbody { @for run in runs { tr {
                td.id { a href=(links::run(&run.tenant, &run.run_id)) { (isolated(run.run_id.as_str())) } }
                td {
                    (state_badge(run)) " "
                    span.faint {
                        (isolated(run.tenant.as_str())) @if let Some(agent) = &run.agent { " · " (isolated(agent.as_str())) }
                    }
                }
                td.num.muted { (ago(run.received_at, now)) }
            } } } } }
        }
    };
    panel("runs", "Newest runs", &end, &body)
}

fn history(found: &PatternDetail, now: Timestamp) -> Markup {
    if found.body.events.is_empty() {
        return html! {};
    }
    let body = html! { div.body { ol.timeline { @for event in found.body.events.iter().rev().take(30) { li {
        (clock(event.at, now)) span.dot {}
        div { b { (event.event) } " by " (isolated(&event.actor)) " · " (isolated(event.tenant.as_str()))
            @if let Some(about) = &event.about { " · " (isolated(about)) }
            @if let Some(note) = &event.note { div { (isolated(&note.decode())) } } }
    } } } } };
    panel("history", "History", &html! {}, &body)
}

fn facts_of(found: &PatternDetail, now: Timestamp) -> Markup {
    let pattern = &found.pattern;
    let mut rows = vec![
        fact("Open", &html! { (grouped(pattern.open)) }),
        fact("Failures", &html! { (grouped(pattern.count)) }),
        fact("First seen", &ago(pattern.first_seen, now)),
        fact("Last seen", &ago(pattern.last_seen, now)),
        fact(
            "Owner",
            &html! { @match &pattern.owner { Some(owner) => (isolated(owner.as_str())), None => span.faint { "nobody" } } },
        ),
        fact(
            "Tenants",
            &html! {
                @for (at, tenant)
                in pattern.tenants.iter().enumerate() {
                    @if at > 0 { ", " } a href=(format!("/tenants/{tenant}")) { (isolated(tenant.as_str())) }
                }
            },
        ),
    ];
    rows.extend(pattern.muted_until.map(|at| fact("Muted until", &html! { (exact(at)) })));
    rows.extend(pattern.resolved_at.map(|at| fact("Resolved", &ago(at, now))));
    if let Some(versions) = &pattern.resolved_in {
        rows.push(fact(
            "Resolved in",
            &html! { @for (kind, version) in versions { (isolated(kind)) " " (isolated(version.as_str())) " " } },
        ));
    }
    panel("facts", "Pattern", &html! {}, &html! { div.body { (facts(&rows)) } })
}

fn verbs(found: &PatternDetail, who: &Visitor) -> Markup {
    let at = links::pattern(&found.pattern.id);
    let verb = |name: &str, title: &str, fields: &Markup, button: &str| {
        html! { details name="verb" { summary { (title) }
        (post_form(&format!("{at}/{name}"), who.csrf(), &html! { (fields) (reason_field(name == "note")) button { (button) } })) } }
    };
    let owner = found.pattern.owner.as_ref().map_or("", |owner| owner.as_str());
    let kinds = [("worker", "worker"), ("prompt", "prompt"), ("tool", "tool")];
    let body = html! { div.body.verbs {
        @if found.pattern.state == PatternState::New {
            (verb("acknowledge", "Acknowledge: somebody is working on it", &html! {}, "Acknowledge"))
        }
        (verb("resolve", "Resolve: the cause is fixed", &html! { p.muted { "Name the version with the fix: a failure of an older version is then no regression." }
            (choice("kind", "Version of", &kinds, "worker")) (field("version", "Version", "", "empty: from now on")) }, "Resolve"))
        (verb("mute", "Mute", &html! {
            label.field { span { "Until (UTC; empty: forever)" } input type="datetime-local" name="until"; }
        }, "Mute"))
        (verb("assign", "Assign an owner", &field("to", "Owner (empty: nobody)", owner, ""), "Assign"))
        (verb("merge", "Merge into another pattern", &field("into", "Pattern id or fingerprint", "", "1-0123456789abcdef"), "Merge"))
        (verb("note", "Add a note", &html! {}, "Add note"))
    } };
    panel("verbs", "Actions", &html! {}, &body)
}

fn merged(found: &PatternDetail, who: &Visitor) -> Markup {
    if found.body.merged.is_empty() {
        return html! {};
    }
    let to = format!("{}/unmerge", links::pattern(&found.pattern.id));
    let body = html! { div.body { @for part in &found.body.merged {
        div { (template(&line(&part.template))) span.faint { " " (grouped(part.open)) " open" }
            (post_form(&to, who.csrf(), &html! { (hidden("fingerprint", &part.fingerprint)) button { "Unmerge" } })) }
    } } };
    panel("parts", "Merged patterns", &html! {}, &body)
}

type OnPattern = PageRequest<ServerId>;

async fn act(app: &App, visit: OnPattern, form: &Form, verb: PatternVerb, done: Notice) -> Result<FormResult> {
    let scope = visit.who.scope(form.id::<Tenant>("tenant")?.as_ref())?;
    let (id, actor) = (visit.path.0, visit.who.actor());
    let now = app.store.triage_pattern(PatternAct { scope, id, verb, actor, reason: form.text("reason") }).await?;
    let id = if visit.who.own_tenant().is_some() { now.id } else { now.fingerprint };
    Ok(FormResult::Go { to: links::pattern(&id), done })
}

pub(crate) async fn acknowledge(app: App, visit: OnPattern, form: Form) -> Result<FormResult> {
    act(&app, visit, &form, PatternVerb::Acknowledge, Notice::Acknowledged).await
}

pub(crate) async fn resolve(app: App, visit: OnPattern, form: Form) -> Result<FormResult> {
    let kind = form.one("kind").unwrap_or("worker").to_owned();
    let in_version: Versions = form.label("version").map(|version| (kind, version)).into_iter().collect();
    act(&app, visit, &form, resolved(in_version)?, Notice::Resolved).await
}

pub(crate) async fn mute(app: App, visit: OnPattern, form: Form) -> Result<FormResult> {
    let verb = muted(form.time("until")?, visit.now)?;
    act(&app, visit, &form, verb, Notice::Muted).await
}

pub(crate) async fn assign(app: App, visit: OnPattern, form: Form) -> Result<FormResult> {
    act(&app, visit, &form, PatternVerb::Assign { to: form.label("to") }, Notice::Assigned).await
}

pub(crate) async fn note(app: App, visit: OnPattern, form: Form) -> Result<FormResult> {
    let verb = noted(form.text("reason").as_ref())?;
    act(&app, visit, &form, verb, Notice::Noted).await
}

pub(crate) async fn merge(app: App, visit: OnPattern, form: Form) -> Result<FormResult> {
    let into = form.one("into").map(str::to_owned).ok_or_else(|| HttpProblem::invalid_field("into", "is missing"))?;
    act(&app, visit, &form, PatternVerb::Merge { into }, Notice::Merged).await
}

pub(crate) async fn unmerge(app: App, visit: OnPattern, form: Form) -> Result<FormResult> {
    let fingerprint = form.one("fingerprint").map(str::to_owned);
    act(&app, visit, &form, PatternVerb::Unmerge { fingerprint }, Notice::Unmerged).await
}
