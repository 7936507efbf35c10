//! `/runs/{tenant}/{run_id}`: one run with its replay plan, timeline and payload, and the actions that its state allows.

mod acts;
mod fix;
mod payload;
mod plan;
mod timeline;

pub(crate) use acts::{
    approve, assign, cancel, defer, discard, merge, note, reassign, reconcile, reject, replay as send_again, resolve,
    review, unmerge,
};
pub(crate) use fix::{check as check_fix, get as fix_page};
pub(crate) use payload::{diff as shown_diff, payload_page, sent_page};

use maud::{Markup, html};
use redrive_core::ids::{RunId, Tenant};
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    DuplicatesAnswer, Likeness, PlanAnswer, QueueView, ReplayRequest, RunDetail, RunSummary, Sort, StepStatus, StepView,
};
use redrive_core::wording::{advice, happened};
use redrive_engine::{DetailCall, PageCall, RunFilter, RunRef, TenantScope};

use super::components::{
    ago, exact, fact, facts, head, hidden, isolated, line, link_or_text, panel, post_form, severity_badge, state_badge,
    template, visible,
};
use super::layout::Tab;
use super::links;
use super::page::{PageContent, PageRequest};
use crate::api::v1::runs::{read, replay};
use crate::app::App;
use crate::auth::Visitor;
use crate::problem::Result;
use crate::query::NoQuery;

/// How many other runs of the same pattern are listed.
const NEIGHBOURS: u32 = 6;

/// A request about one run.
type RunRequest<Q = NoQuery> = PageRequest<(Tenant, RunId), Q>;

/// The run of a path. Another tenant's is not found, whether it exists or not.
fn named(who: &Visitor, (tenant, run_id): (Tenant, RunId)) -> Result<RunRef> {
    if who.own_tenant().is_some_and(|own| *own != tenant) {
        return Err(redrive_engine::Error::NotFound("run").into());
    }
    who.run(&[Some(&tenant)], run_id)
}

/// The data of the page.
struct RunPageData {
    run: RunDetail,
    plan: Option<PlanAnswer>,
    duplicates: DuplicatesAnswer,
    neighbours: Vec<RunSummary>,
    queue: Option<QueueView>,
}

impl RunPageData {
    async fn read(app: &App, who: &Visitor, at: &RunRef, pages: DetailCall) -> Result<Self> {
        let run = read::read_run(app, at, pages).await?;
        let scope = TenantScope::One(at.tenant.clone());
        let (plan, duplicates, neighbours, queue) = tokio::join!(
            plan_of(app, at),
            app.store.duplicates(at),
            neighbours(app, &scope, &run.summary),
            queue_of(app, who, &run.summary),
        );
        Ok(Self { plan, duplicates: duplicates?, neighbours: neighbours?, queue, run })
    }

    fn at(&self) -> String {
        links::run(&self.run.summary.tenant, &self.run.summary.run_id)
    }

    fn in_doubt(&self) -> impl Iterator<Item = &StepView> {
        self.run.body.steps.iter().filter(|step| step.effect && step.status == StepStatus::Unknown)
    }

    fn waits_for_a_person(&self) -> bool {
        matches!(self.run.summary.state, StateName::Dead | StateName::Review)
    }
}

/// None for a run that can't be replayed; its actions say why.
async fn plan_of(app: &App, at: &RunRef) -> Option<PlanAnswer> {
    let replay = replay::prepared(app, at, ReplayRequest::default(), 0).await.ok()?;
    app.store.plan(at, replay).await.ok()
}

async fn neighbours(app: &App, scope: &TenantScope, run: &RunSummary) -> Result<Vec<RunSummary>> {
    let Some(pattern) = &run.pattern else { return Ok(Vec::new()) };
    let filter =
        RunFilter { tenant: Some(run.tenant.clone()), patterns: vec![pattern.clone()], ..RunFilter::default() };
    let page = PageCall { sort: Sort::NewestFirst, limit: NEIGHBOURS, cursor: None, count: false };
    let mut found = app.store.runs(scope, filter, page).await?.runs;
    found.retain(|other| other.run_id != run.run_id);
    Ok(found)
}

/// Queues span tenants: their settings are for operators.
async fn queue_of(app: &App, who: &Visitor, run: &RunSummary) -> Option<QueueView> {
    if who.is_operator() { app.store.queue(&run.queue).await.ok() } else { None }
}

pub(crate) async fn get(app: App, visit: RunRequest<read::PagesQuery>) -> Result<PageContent> {
    let at = named(&visit.who, visit.path)?;
    let _turn = app.answers.turn(visit.who.holder()).await?;
    let data = RunPageData::read(&app, &visit.who, &at, visit.query.0).await?;
    let title = at.run_id.to_string();
    let main = html! {
        (heading(&data, &visit.who))
        div.cols {
            div.stack {
                (plan::panel_of(&data, &visit.who))
                (timeline::panel_of(&data, visit.now))
                (payload::panel_of(&data))
            }
            div.stack {
                (facts_of(&data, visit.now))
                (guidance(&data))
                (acts::panel_of(&data, &visit.who))
                (like_this(&data, visit.now))
            }
        }
    };
    Ok(PageContent::new(title, Tab::Runs, main))
}

fn heading(data: &RunPageData, who: &Visitor) -> Markup {
    let run = &data.run.summary;
    let name = html! {
        span data-live="state" { (state_badge(run)) " " (severity_badge(run.severity)) } " " (isolated(run.run_id.as_str()))
    };
    let why = html! {
        @for sentence in happened(&data.run) { (isolated(&sentence)) " " }
        @if let Some(verdict) = data.run.body.verdict.as_ref().filter(|_| run.state == StateName::Dead) {
            b { "Recommended: " } (advice(verdict.recommended_action)) "."
        }
    };
    head(&name, &why, &next_actions(data, who))
}

/// One primary button for the advised action, and a few beside it.
fn next_actions(data: &RunPageData, who: &Visitor) -> Markup {
    let at = data.at();
    html! {
        @if data.waits_for_a_person() {
            a.button href="#assign-to" { "Assign…" }
            a.button href="#discard-reason" { "Discard…" }
        }
        @match data.run.summary.state {
            StateName::Dead => (dead(data, who, &at)),
            StateName::Review => a.button.primary href="#approve" { "Approve or reject…" },
            StateName::Scheduled => (again(data, who, &at, "Retry now")),
            StateName::Running => (post_form(&format!("{at}/cancel"), who.csrf(), &html! {
                button.danger { "Cancel attempt" }
            })),
            StateName::Merged => @if let Some(into) = &data.run.summary.merged_into {
                a.button.primary href=(links::run(&data.run.summary.tenant, into)) { "Open " (visible(into.as_str())) }
            },
            StateName::Succeeded | StateName::Recovered | StateName::Resolved | StateName::Discarded => {
                a.button href="#note-reason" { "Add a note…" }
            }
        }
    }
}

fn dead(data: &RunPageData, who: &Visitor, at: &str) -> Markup {
    let replayable = data.run.body.replayable;
    html! {
        @if replayable { a.button href=(format!("{at}/fix")) data-key="e" { "Replay with a fix…" } }
        @if let Some(step) = data.in_doubt().next() {
            a.button.primary href="#reconcile" { "Reconcile " (visible(step.name.as_str())) "…" }
        } @else if !replayable {
            a.button.primary href="#resolve-reason" { "Resolve…" }
        } @else if refused(data).is_some() {
            a.button.primary href="#resolve-reason" { "Decide…" }
        } @else { (again(data, who, at, "Replay")) }
    }
}

/// Why a plain replay would be refused, if it would.
fn refused(data: &RunPageData) -> Option<&str> {
    data.plan.as_ref().and_then(|plan| plan.refused.as_deref())
}

/// Exactly the plan that is shown below, or nothing.
fn again(data: &RunPageData, who: &Visitor, at: &str, word: &str) -> Markup {
    post_form(
        &format!("{at}/replay"),
        who.csrf(),
        &html! {
            @if let Some(plan) = &data.plan { (hidden("plan_hash", &plan.hash)) }
            button.primary data-key="r" { (word) }
        },
    )
}

fn facts_of(data: &RunPageData, now: Timestamp) -> Markup {
    let (run, body) = (&data.run.summary, &data.run.body);
    let owner = data.queue.as_ref().and_then(|queue| queue.settings.owner.as_ref());
    let mut rows = vec![
        fact("Tenant", &html! { a href=(format!("/tenants/{}", run.tenant)) { (isolated(run.tenant.as_str())) } }),
        fact(
            "Queue",
            &html! {
                @if data.queue.is_some() { a href=(format!("/queues/{}", run.queue)) { (isolated(run.queue.as_str())) } }
                @else { (isolated(run.queue.as_str())) }
                @if let Some(owner) = owner { " · owner " (isolated(owner.as_str())) }
            },
        ),
    ];
    let mut add = |name: &str, value: Option<&str>| rows.extend(value.map(|value| fact(name, &isolated(value))));
    add("Agent", run.agent.as_ref().map(|label| label.as_str()));
    add("Task type", run.task_type.as_ref().map(|label| label.as_str()));
    add("Model", run.model.as_ref().map(|label| label.as_str()));
    add("Provider", run.provider.as_ref().map(|label| label.as_str()));
    add("Customer", run.customer.as_ref().map(|label| label.as_str()));
    add("Severity", Some(run.severity.as_str()));
    add("Environment", Some(run.environment.as_str()));
    add("Idempotency key", run.idempotency_key.as_ref().map(|key| key.as_str()));
    add("Order key", body.order_key.as_ref().map(|key| key.as_str()));
    add("Assigned to", run.assigned_to.as_ref().map(|label| label.as_str()));
    add("Held by", run.held_by.as_ref().map(|label| label.as_str()));
    add("Destination", body.destination.as_ref().map(|label| label.as_str()));
    for (kind, version) in &body.versions {
        rows.push(fact(&format!("{kind} version"), &isolated(version.as_str())));
    }
    let mut time = |name: &str, at: Option<Timestamp>| rows.extend(at.map(|at| fact(name, &ago(at, now))));
    time("Received", Some(run.received_at));
    time("Next attempt", run.next_attempt_at);
    time("Deferred until", run.deferred_until);
    rows.push(fact(
        "Resumable",
        &html! { @if body.resumable { "yes, from its recorded steps" } @else { "no, it starts over" } },
    ));
    for (name, to) in &body.links {
        rows.push(fact(name, &link_or_text(&to.decode())));
    }
    panel(
        "facts",
        "Run",
        &html! { span title=(exact(run.updated_at)) { "updated " (ago(run.updated_at, now)) } },
        &html! { div.body { (facts(&rows)) } },
    )
}

/// The queue owner's instructions and runbook.
fn guidance(data: &RunPageData) -> Markup {
    let body = &data.run.body;
    if body.instructions.is_none() && body.runbook.is_none() {
        return html! {};
    }
    panel(
        "instructions",
        "Instructions",
        &html! {},
        &html! {
            div.body {
                @if let Some(text) = &body.instructions { div.lines { (isolated(text)) } }
                @if let Some(runbook) = &body.runbook { p.muted { "Runbook: " (link_or_text(runbook)) } }
            }
        },
    )
}

/// The pattern, its other runs and likely duplicates.
fn like_this(data: &RunPageData, now: Timestamp) -> Markup {
    let run = &data.run.summary;
    let Some(pattern) = &run.pattern else { return html! {} };
    let end = html! { a href=(links::pattern(pattern)) { "Pattern" } };
    let body = html! {
        div.body {
            (template(&line(run.template.as_deref().unwrap_or_default())))
            @if data.neighbours.is_empty() { p.muted { "No other run of this tenant has this pattern." } }
            @else { ul.plain { @for other in &data.neighbours { (neighbour(other, now)) } }
                p { a href=(links::runs([("pattern", pattern.as_str())])) { "All runs of this pattern" } } }
            @if !data.duplicates.duplicates.is_empty() {
                p { b { "Possible duplicates" } }
                ul.plain { @for duplicate in &data.duplicates.duplicates {
                    li { a href=(links::run(&duplicate.run.tenant, &duplicate.run.run_id)) { (isolated(duplicate.run.run_id.as_str())) }
                        span.faint { @match duplicate.same { Likeness::IdempotencyKey => " same key", Likeness::Payload => " same payload" } } }
                } }
            }
        }
    };
    panel("like", "Similar runs", &end, &body)
}

fn neighbour(other: &RunSummary, now: Timestamp) -> Markup {
    html! {
        li { a href=(links::run(&other.tenant, &other.run_id)) { (isolated(other.run_id.as_str())) } " " (state_badge(other))
            span.faint { " " (ago(other.received_at, now)) } }
    }
}
