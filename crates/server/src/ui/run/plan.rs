//! The replay plan, step by step, and the form that reconciles an effect in doubt.

use maud::{Markup, html};
use redrive_core::ledger::Will;
use redrive_core::run::StateName;
use redrive_core::wire::{PlanAnswer, PlanStep, StepView};

use super::super::components::{
    ago, choice, exact, field, hidden, isolated, panel, post_form, reason_field, visible, will_badge,
};
use super::RunPageData;
use crate::auth::Visitor;

const HASH_SHOWN: usize = 8;

pub(super) fn panel_of(data: &RunPageData, who: &Visitor) -> Markup {
    let Some(plan) = &data.plan else { return html! {} };
    if data.run.summary.state == StateName::Merged {
        return html! {};
    }
    let end =
        html! { "plan " code { (plan.hash.get(..HASH_SHOWN).unwrap_or(&plan.hash)) } " · revision " (plan.revision) };
    let body = html! {
        (steps(data, plan))
        (review(data, who))
        @for step in data.in_doubt() { (reconcile(data, who, step)) }
    };
    panel("plan", "Replay plan", &end, &body)
}

/// The steps as a table, with the warnings below.
pub(super) fn steps(data: &RunPageData, plan: &PlanAnswer) -> Markup {
    html! {
        @if plan.steps.is_empty() {
            div.body.muted { "No steps recorded: the work starts over." }
        } @else {
            div.scroll { table {
                thead { tr { th { "Step" } th { "Will" } th.wide { "Recorded" } } }
                tbody { @for step in &plan.steps { (row(data, step)) } }
            } }
        }
        (warnings(plan))
    }
}

fn row(data: &RunPageData, step: &PlanStep) -> Markup {
    let recorded = data.run.body.steps.iter().find(|known| known.key == step.key);
    html! {
        tr {
            td {
                (isolated(step.name.as_str())) " " @if step.effect { span.badge { "effect" } " " }
                span.faint.mono.wide { (isolated(step.key.as_str())) }
            }
            td { (will_badge(step.will)) }
            td.wide.faint {
                @match (step.will, recorded) {
                    (Will::Skip, Some(step)) => { "output of attempt " (step.attempt) ", " (exact(step.at)) }
                    (Will::Unknown, Some(step)) => { "started " (exact(step.at)) ", no outcome" }
                    (Will::Run, Some(step)) => { (step.status) " in attempt " (step.attempt) }
                    (_, None) => "not reached",
                }
            }
        }
    }
}

pub(super) fn warnings(plan: &PlanAnswer) -> Markup {
    html! {
        @if plan.refused.is_some() || plan.approval_needed || !plan.warnings.is_empty() || plan.held_by.is_some() {
            ul.body.warnings {
                @if let Some(refused) = &plan.refused { li { b { "Currently refused: " } (words(refused)) } }
                @if plan.approval_needed { li { "A replay needs approval." } }
                @if let Some(by) = &plan.held_by { li { "Held by " (isolated(by.as_str())) "." } }
                @for warning in &plan.warnings { li { (isolated(&warning.detail)) } }
            }
        }
    }
}

/// A refusal code in words.
fn words(code: &str) -> Markup {
    match code {
        "effect_unknown" => html! { "an effect has no known outcome. Reconcile it below." },
        "unsafe" => html! { "an effect is done and the run can’t resume: a repeat could do harm." },
        "replays_used" => html! { "the queue’s replay limit is reached." },
        "too_many_attempts" => html! { "the attempt limit is reached." },
        "too_many_revisions" => html! { "the revision limit is reached." },
        "not_replayable" => html! { "the payload is not stored. Start the work again at its source." },
        "closed" => html! { "the run is closed." },
        "in_flight" => html! { "an attempt is running." },
        other => html! { code { (visible(other)) } },
    }
}

fn review(data: &RunPageData, who: &Visitor) -> Markup {
    let Some(review) = data.run.body.review.as_ref().filter(|_| data.run.summary.state == StateName::Review) else {
        return html! {};
    };
    let at = data.at();
    let approve = html! {
        (hidden("plan_hash", &review.plan_hash)) (reason_field(false)) button { "Approve" }
    };
    html! {
        div.body.ask id="approve" {
            p { "Requested by " (isolated(&review.asked_by)) " " (ago(review.asked_at, data.run.summary.updated_at.max(review.asked_at)))
                ". Expires " time title=(exact(review.expires_at)) { (exact(review.expires_at)) } "." }
            @if let Some(proposed) = &review.proposed { pre tabindex="0" { bdi { (visible(proposed.get())) } } }
            div.bar {
                (post_form(&format!("{at}/approve"), who.csrf(), &approve))
                (post_form(&format!("{at}/reject"), who.csrf(), &html! {
                    (reason_field(false)) button.danger { "Reject" }
                }))
            }
        }
    }
}

fn reconcile(data: &RunPageData, who: &Visitor, step: &StepView) -> Markup {
    let outcomes = [("", "choose…"), ("committed", "It happened"), ("not_done", "It did not happen")];
    let form = html! {
        (hidden("key", step.key.as_str()))
        div.grid {
            (choice("outcome", "Outcome", &outcomes, ""))
            (field("output", "Output, if it happened (JSON)", "", "{\"id\":\"…\"}"))
            (reason_field(false))
        }
        button { "Record outcome" }
    };
    html! {
        div.body.ask id="reconcile" {
            p { b { (isolated(step.name.as_str())) } " was started, and its outcome is unknown. Look it up by its key "
                code { (isolated(step.key.as_str())) } ", then record the outcome. Nothing runs until then." }
            @if let Some(check) = &step.check { p.muted { "How to check: " (isolated(&check.decode())) } }
            (post_form(&format!("{}/reconcile", data.at()), who.csrf(), &form))
        }
    }
}
