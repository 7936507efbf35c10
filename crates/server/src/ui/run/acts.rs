//! What a run's forms do: the same verbs as the API's, with the same checks.

use redrive_core::ids::{RunId, StepKey, Tenant};
use redrive_core::text::Text;
use redrive_core::wire::{EffectOutcome, ReplayRequest};
use redrive_store::{Act, EffectRef, RunRef, Triage};

use super::super::flash::Done;
use super::super::form::Form;
use super::super::links;
use super::super::page::{Next, Visit};
use super::named;
use crate::api::v1::effects::reconcile::reconcile_as;
use crate::api::v1::runs::replay::replay_as;
use crate::api::v1::runs::triage::{deferred, noted, reassigned};
use crate::app::App;
use crate::body::parse_free;
use crate::problem::{Problem, Result};

type OnRun = Visit<(Tenant, RunId)>;

async fn act(app: &App, visit: OnRun, reason: Option<Text>, triage: Triage, done: Done) -> Result<Next> {
    let at = named(&visit.who, visit.path)?;
    app.store.triage(Act { at: at.clone(), triage, actor: visit.who.actor(), reason }).await?;
    Ok(back(&at, done))
}

fn back(at: &RunRef, done: Done) -> Next {
    Next::Go { to: links::run(&at.tenant, &at.run_id), done }
}

macro_rules! plain {
    ($($name:ident: $triage:expr, $done:ident;)+) => {$(
        pub(crate) async fn $name(app: App, visit: OnRun, form: Form) -> Result<Next> {
            act(&app, visit, form.text("reason"), $triage, Done::$done).await
        }
    )+};
}

plain! {
    cancel: Triage::Cancel, Cancelled;
    resolve: Triage::Resolve, Resolved;
    discard: Triage::Discard, Discarded;
    review: Triage::Review, Reviewed;
    reject: Triage::Reject, Rejected;
    unmerge: Triage::Unmerge, Unmerged;
}

pub(crate) async fn note(app: App, visit: OnRun, form: Form) -> Result<Next> {
    let reason = form.text("reason");
    let noted = noted(reason.as_ref())?;
    act(&app, visit, reason, noted, Done::Noted).await
}

pub(crate) async fn assign(app: App, visit: OnRun, form: Form) -> Result<Next> {
    let triage = Triage::Assign { to: form.label("to") };
    act(&app, visit, form.text("reason"), triage, Done::Assigned).await
}

pub(crate) async fn defer(app: App, visit: OnRun, form: Form) -> Result<Next> {
    let until = form.time("until")?.ok_or_else(|| Problem::invalid_field("until", "is missing"))?;
    let triage = deferred(until, visit.now)?;
    act(&app, visit, form.text("reason"), triage, Done::Deferred).await
}

pub(crate) async fn reassign(app: App, visit: OnRun, form: Form) -> Result<Next> {
    let triage = reassigned(form.label("agent"), form.id("queue")?)?;
    act(&app, visit, form.text("reason"), triage, Done::Reassigned).await
}

/// A typed name outweighs a chosen one: it was written last.
pub(crate) async fn merge(app: App, visit: OnRun, form: Form) -> Result<Next> {
    let into = form.id("other")?.or(form.id("into")?);
    let into = into.ok_or_else(|| Problem::invalid_field("into", "is missing: choose a run, or name one"))?;
    act(&app, visit, form.text("reason"), Triage::Merge { into }, Done::Merged).await
}

pub(crate) async fn approve(app: App, visit: OnRun, form: Form) -> Result<Next> {
    let plan_hash = form.label("plan_hash").ok_or_else(|| Problem::invalid_field("plan_hash", "is missing"))?;
    let triage = Triage::Approve { plan_hash, own_too: visit.who.may_force() };
    act(&app, visit, form.text("reason"), triage, Done::Approved).await
}

/// Plain, forced, or with the fix that was looked at.
pub(crate) async fn replay(app: App, visit: OnRun, form: Form) -> Result<Next> {
    let at = named(&visit.who, visit.path)?;
    let request = ReplayRequest {
        force: form.has("force"),
        plan_hash: form.label("plan_hash"),
        reason: form.text("reason"),
        ..super::fix::request(&form)?
    };
    let answer = replay_as(&app, &visit.who, &at, request, form.bytes).await?;
    let waits = answer.state == redrive_core::run::StateName::Review;
    Ok(back(&at, if waits { Done::AwaitsApproval } else { Done::Replayed }))
}

pub(crate) async fn reconcile(app: App, visit: OnRun, form: Form) -> Result<Next> {
    let at = named(&visit.who, visit.path)?;
    let key: StepKey = form.id("key")?.ok_or_else(|| Problem::invalid_field("key", "is missing"))?;
    let outcome = form.one("outcome").and_then(|word| word.parse::<EffectOutcome>().ok());
    let outcome = outcome.ok_or_else(|| Problem::invalid_field("outcome", "must say what became of it"))?;
    let output = form.one("output").map(|text| parse_free(text.as_bytes())).transpose()?;
    let effect = EffectRef { tenant: at.tenant.clone(), key, run_id: Some(at.run_id.clone()) };
    reconcile_as(&app, &visit.who, effect, outcome, output, form.text("reason")).await?;
    Ok(back(&at, Done::Reconciled))
}
