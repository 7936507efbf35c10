//! The actions on a run: a form for each that its state allows, and its handler. The API's functions make every check.

use maud::{Markup, html};
use redrive_core::ids::StepKey;
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::wire::{EffectOutcome, Likeness, ReplayRequest};
use redrive_engine::{EffectRef, RunRef, Triage, TriageAct};

use super::super::components::{field, hidden, panel, post_form, reason_field, visible};
use super::super::form::Form;
use super::super::form::Notice;
use super::super::links;
use super::super::page::FormResult;
use super::{RunPageData, RunRequest, named};
use crate::api::v1::effects::reconcile_as;
use crate::api::v1::runs::replay::replay_as;
use crate::api::v1::runs::triage::{deferred, noted, reassigned};
use crate::app::App;
use crate::auth::Visitor;
use crate::body::parse_free;
use crate::problem::{HttpProblem, Result};

async fn act(app: &App, visit: RunRequest, reason: Option<Text>, triage: Triage, done: Notice) -> Result<FormResult> {
    let at = named(&visit.who, visit.path)?;
    app.store.triage(TriageAct { at: at.clone(), triage, actor: visit.who.actor(), reason }).await?;
    Ok(back(&at, done))
}

fn back(at: &RunRef, done: Notice) -> FormResult {
    FormResult::Go { to: links::run(&at.tenant, &at.run_id), done }
}

macro_rules! plain {
    ($($name:ident: $triage:expr, $done:ident;)+) => {$(
        pub(crate) async fn $name(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
            act(&app, visit, form.text("reason"), $triage, Notice::$done).await
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

pub(crate) async fn note(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
    let reason = form.text("reason");
    let noted = noted(reason.as_ref())?;
    act(&app, visit, reason, noted, Notice::Noted).await
}

pub(crate) async fn assign(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
    let triage = Triage::Assign { to: form.label("to") };
    act(&app, visit, form.text("reason"), triage, Notice::Assigned).await
}

pub(crate) async fn defer(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
    let until = form.time("until")?.ok_or_else(|| HttpProblem::invalid_field("until", "is missing"))?;
    let triage = deferred(until, visit.now)?;
    act(&app, visit, form.text("reason"), triage, Notice::Deferred).await
}

pub(crate) async fn reassign(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
    let triage = reassigned(form.label("agent"), form.id("queue")?)?;
    act(&app, visit, form.text("reason"), triage, Notice::Reassigned).await
}

/// A typed run id takes precedence over a selected one.
pub(crate) async fn merge(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
    let into = form.id("other")?.or(form.id("into")?);
    let into = into.ok_or_else(|| HttpProblem::invalid_field("into", "is missing: choose a run, or name one"))?;
    act(&app, visit, form.text("reason"), Triage::Merge { into }, Notice::Merged).await
}

pub(crate) async fn approve(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
    let plan_hash = form.label("plan_hash").ok_or_else(|| HttpProblem::invalid_field("plan_hash", "is missing"))?;
    let triage = Triage::Approve { plan_hash, own_too: visit.who.may_force() };
    act(&app, visit, form.text("reason"), triage, Notice::Approved).await
}

/// A plain or forced replay, or one with the reviewed fix.
pub(crate) async fn replay(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
    let at = named(&visit.who, visit.path)?;
    let request = ReplayRequest {
        force: form.has("force"),
        plan_hash: form.label("plan_hash"),
        reason: form.text("reason"),
        ..super::fix::request(&form)?
    };
    let answer = replay_as(&app, &visit.who, &at, request, form.bytes).await?;
    let waits = answer.state == redrive_core::run::StateName::Review;
    Ok(back(&at, if waits { Notice::AwaitsApproval } else { Notice::Replayed }))
}

pub(crate) async fn reconcile(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
    let at = named(&visit.who, visit.path)?;
    let key: StepKey = form.id("key")?.ok_or_else(|| HttpProblem::invalid_field("key", "is missing"))?;
    let outcome = form.one("outcome").and_then(|word| word.parse::<EffectOutcome>().ok());
    let outcome = outcome.ok_or_else(|| HttpProblem::invalid_field("outcome", "must be committed or not_done"))?;
    let output = form.one("output").map(|text| parse_free(text.as_bytes())).transpose()?;
    let effect = EffectRef { tenant: at.tenant.clone(), key, run_id: Some(at.run_id.clone()) };
    reconcile_as(&app, &visit.who, effect, outcome, output, form.text("reason")).await?;
    Ok(back(&at, Notice::Reconciled))
}

pub(super) fn panel_of(data: &RunPageData, who: &Visitor) -> Markup {
    let state = data.run.summary.state;
    let open = matches!(state, StateName::Dead | StateName::Review | StateName::Scheduled);
    let body = html! {
        div.body.verbs {
            @if open { (assign_form(data, who)) (defer_form(data, who)) }
            @if open && state != StateName::Review { (reassign_form(data, who)) }
            @if state == StateName::Dead {
                (plain_form(data, who, "review", "Send to review", "Waits until somebody approves or rejects a replay.", "Send to review", false))
            }
            @if open {
                (plain_form(data, who, "resolve", "Resolve", "Done elsewhere, or no longer a problem.", "Resolve", false))
                (plain_form(data, who, "discard", "Discard", "No longer needed. Its data is kept.", "Discard", true))
                (merge_form(data, who))
            }
            @if state == StateName::Merged {
                (plain_form(data, who, "unmerge", "Unmerge", "Not the same work after all.", "Unmerge", false))
            }
            @if state == StateName::Scheduled {
                (plain_form(data, who, "cancel", "Cancel", "Stops the retries and keeps the run as a dead letter.", "Cancel", true))
            }
            (note_form(data, who))
            @if who.is_operator() && state != StateName::Running && state != StateName::Merged { (force_form(data, who)) }
        }
    };
    panel("verbs", "More actions", &html! {}, &body)
}

fn verb(name: &str, title: &str, form: &Markup) -> Markup {
    html! { details name="verb" id=(format!("verb-{name}")) { summary { (title) } (form) } }
}

fn action_path(data: &RunPageData, verb: &str) -> String {
    format!("{}/{verb}", data.at())
}

fn plain_form(
    data: &RunPageData,
    who: &Visitor,
    name: &str,
    title: &str,
    says: &str,
    button: &str,
    danger: bool,
) -> Markup {
    let form = html! {
        p.muted { (says) }
        label.field {
            span { "Reason" } input type="text" name="reason" id=(format!("{name}-reason")) maxlength="2000";
        }
        button.danger[danger] { (button) }
    };
    verb(name, title, &post_form(&action_path(data, name), who.csrf(), &form))
}

fn assign_form(data: &RunPageData, who: &Visitor) -> Markup {
    let now = data.run.summary.assigned_to.as_ref().map_or("", |to| to.as_str());
    let form = html! {
        label.field { span { "Assignee (empty: nobody)" } input type="text" name="to" id="assign-to" value=(now); }
        (reason_field(false)) button { "Assign" }
    };
    verb("assign", "Assign", &post_form(&action_path(data, "assign"), who.csrf(), &form))
}

fn defer_form(data: &RunPageData, who: &Visitor) -> Markup {
    let form = html! {
        label.field { span { "Not before (UTC)" } input type="datetime-local" name="until" required; }
        (reason_field(false)) button { "Defer" }
    };
    verb("defer", "Defer", &post_form(&action_path(data, "defer"), who.csrf(), &form))
}

fn reassign_form(data: &RunPageData, who: &Visitor) -> Markup {
    let form = html! {
        (field("agent", "Another agent", "", "")) (field("queue", "Another queue", "", "")) (reason_field(false))
        button { "Reassign" }
    };
    verb(
        "reassign",
        "Reassign to another agent or queue",
        &post_form(&action_path(data, "reassign"), who.csrf(), &form),
    )
}

/// Offers likely duplicates as targets.
fn merge_form(data: &RunPageData, who: &Visitor) -> Markup {
    let form = html! {
        p.muted { "The run becomes part of another run of the same tenant, and its later failures count there." }
        @for duplicate in &data.duplicates.duplicates {
            label.bar { input type="radio" name="into" value=(duplicate.run.run_id);
                (visible(duplicate.run.run_id.as_str()))
                span.faint { @match duplicate.same { Likeness::IdempotencyKey => "same key", Likeness::Payload => "same payload" } } }
        }
        @if data.duplicates.duplicates.is_empty() { p.faint { "No likely duplicates." } }
        (field("other", "Another run", "", "run id")) (reason_field(false)) button { "Merge" }
    };
    verb("merge", "Merge into another run", &post_form(&action_path(data, "merge"), who.csrf(), &form))
}

fn note_form(data: &RunPageData, who: &Visitor) -> Markup {
    let form = html! {
        label.field { span { "Note" } input type="text" name="reason" id="note-reason" required maxlength="2000"; }
        button { "Add note" }
    };
    verb("note", "Add a note", &post_form(&action_path(data, "note"), who.csrf(), &form))
}

/// Overrides every guard; needs a reason.
fn force_form(data: &RunPageData, who: &Visitor) -> Markup {
    let form = html! {
        p.muted {
            "Replays past every guard: an effect in doubt or done, a closed run, the replay limit. An effect may happen twice. The reason is recorded."
        }
        (hidden("force", "yes")) (reason_field(true)) button.danger { "Force a replay" }
    };
    verb("force", "Force a replay", &post_form(&action_path(data, "replay"), who.csrf(), &form))
}
