//! `/runs/{tenant}/{run_id}`: one run. What happened and what is advised in a sentence; what a replay would do; every
//! attempt; the payload; and every verb that its state allows.

mod acts;
mod aside;
mod fix;
mod next;
mod payload;
mod payload_page;
mod plan;
mod sent_page;
mod stack;
mod timeline;
mod verbs;

use maud::{Markup, html};
use redrive_core::ids::{RunId, Tenant};
use redrive_core::run::StateName;
use redrive_core::wire::{
    DuplicatesAnswer, PlanAnswer, QueueView, ReplayRequest, RunDetail, RunSummary, Sort, StepStatus, StepView,
};
use redrive_core::wording::{advice, happened};
use redrive_store::{DetailCall, PageCall, RunFilter, RunRef, TenantScope};

use super::components::{head, said, severity_badge, state_badge};
use super::layout::Tab;
use super::links;
use super::page::{Sheet, Visit};
use crate::api::v1::runs::{replay, show};
use crate::app::App;
use crate::auth::Visitor;
use crate::problem::Result;

pub(crate) use acts::{
    approve, assign, cancel, defer, discard, merge, note, reassign, reconcile, reject, replay as send_again, resolve,
    review, unmerge,
};
pub(crate) use fix::{check as check_fix, get as fix_page};
pub(crate) use payload_page::get as payload_page;
pub(crate) use sent_page::{diff as shown_diff, get as sent_page};

/// Others of the same pattern that are named beside it.
const NEIGHBOURS: u32 = 6;

/// A run as whoever looks may name it: another tenant's is not found, whether it exists or not.
fn named(who: &Visitor, (tenant, run_id): (Tenant, RunId)) -> Result<RunRef> {
    if who.own_tenant().is_some_and(|own| *own != tenant) {
        return Err(redrive_store::Error::NotFound("run").into());
    }
    who.run(&[Some(&tenant)], run_id)
}

/// All that the page shows.
struct Seen {
    run: RunDetail,
    plan: Option<PlanAnswer>,
    duplicates: DuplicatesAnswer,
    neighbours: Vec<RunSummary>,
    queue: Option<QueueView>,
}

impl Seen {
    async fn read(app: &App, who: &Visitor, at: &RunRef, pages: DetailCall) -> Result<Self> {
        let run = show::read(app, at, pages).await?;
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

/// A run that can't be planned for has no plan to show; why not is said by the verbs.
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

pub(crate) async fn get(app: App, visit: Visit<(Tenant, RunId), show::PagesQuery>) -> Result<Sheet> {
    let at = named(&visit.who, visit.path)?;
    let _turn = app.answers.turn(visit.who.holder()).await?;
    let seen = Seen::read(&app, &visit.who, &at, visit.query.0).await?;
    let title = at.run_id.to_string();
    let main = html! {
        (heading(&seen, &visit.who))
        div.cols {
            div.stack {
                (plan::panel_of(&seen, &visit.who))
                (timeline::panel_of(&seen, visit.now))
                (payload::panel_of(&seen))
            }
            div.stack {
                (aside::facts_of(&seen, visit.now))
                (aside::guidance(&seen))
                (verbs::panel_of(&seen, &visit.who))
                (aside::like_this(&seen, visit.now))
            }
        }
    };
    Ok(Sheet::new(title, Tab::Runs, main))
}

fn heading(seen: &Seen, who: &Visitor) -> Markup {
    let run = &seen.run.summary;
    let name = html! {
        span data-live="state" { (state_badge(run)) " " (severity_badge(run.severity)) } " " (said(run.run_id.as_str()))
    };
    let why = html! {
        @for sentence in happened(&seen.run) { (said(&sentence)) " " }
        @if let Some(verdict) = seen.run.body.verdict.as_ref().filter(|_| run.state == StateName::Dead) {
            b { "Advised: " } (advice(verdict.recommended_action)) "."
        }
    };
    head(&name, &why, &next::actions(seen, who))
}
