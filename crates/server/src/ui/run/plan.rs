//! What a replay would do, step by step, before anybody does it; and where an effect is in doubt, the question what
//! became of it.

use maud::{Markup, html};
use redrive_core::ledger::Will;
use redrive_core::run::StateName;
use redrive_core::wire::{PlanAnswer, PlanStep, StepView};

use super::super::components::{
    ago, choice, exact, field, hidden, panel, post_form, reason_field, said, visible, will_badge,
};
use super::RunPageData;
use crate::auth::Visitor;

const HASH_SHOWN: usize = 8;

pub(super) fn panel_of(seen: &RunPageData, who: &Visitor) -> Markup {
    let Some(plan) = &seen.plan else { return html! {} };
    if seen.run.summary.state == StateName::Merged {
        return html! {};
    }
    let end =
        html! { "plan " code { (plan.hash.get(..HASH_SHOWN).unwrap_or(&plan.hash)) } " · revision " (plan.revision) };
    let body = html! {
        (steps(seen, plan))
        (review(seen, who))
        @for step in seen.in_doubt() { (reconcile(seen, who, step)) }
    };
    panel("plan", "If you replay", &end, &body)
}

/// As a table, with what it warns of below.
pub(super) fn steps(seen: &RunPageData, plan: &PlanAnswer) -> Markup {
    html! {
        @if plan.steps.is_empty() {
            div.body.muted { "No step is recorded: the work begins anew." }
        } @else {
            div.scroll { table {
                thead { tr { th { "Step" } th { "Will" } th.wide { "Recorded" } } }
                tbody { @for step in &plan.steps { (row(seen, step)) } }
            } }
        }
        (warnings(plan))
    }
}

fn row(seen: &RunPageData, step: &PlanStep) -> Markup {
    let recorded = seen.run.body.steps.iter().find(|known| known.key == step.key);
    html! {
        tr {
            td {
                (said(step.name.as_str())) " " @if step.effect { span.badge { "effect" } " " }
                span.faint.mono.wide { (said(step.key.as_str())) }
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
                @if let Some(refused) = &plan.refused { li { b { "Refused for now: " } (words(refused)) } }
                @if plan.approval_needed { li { "A replay waits for somebody’s approval." } }
                @if let Some(by) = &plan.held_by { li { "Held by " (said(by.as_str())) "." } }
                @for warning in &plan.warnings { li { (said(&warning.detail)) } }
            }
        }
    }
}

/// The codes of a refusal as people say them.
fn words(code: &str) -> Markup {
    match code {
        "effect_unknown" => html! { "an effect has no known outcome. Reconcile it below." },
        "unsafe" => html! { "an effect is done and the run can’t resume: a repeat could do harm." },
        "replays_used" => html! { "it was replayed as often as its queue allows." },
        "too_many_attempts" => html! { "it has had as many attempts as a run can have." },
        "too_many_revisions" => html! { "its payload was fixed as often as it can be." },
        "not_replayable" => html! { "its payload is not here. Start the work at its source." },
        "closed" => html! { "it has come to its end." },
        "in_flight" => html! { "an attempt is under way." },
        other => html! { code { (visible(other)) } },
    }
}

fn review(seen: &RunPageData, who: &Visitor) -> Markup {
    let Some(review) = seen.run.body.review.as_ref().filter(|_| seen.run.summary.state == StateName::Review) else {
        return html! {};
    };
    let at = seen.at();
    let approve = html! {
        (hidden("plan_hash", &review.plan_hash)) (reason_field(false)) button { "Approve" }
    };
    html! {
        div.body.ask id="approve" {
            p { "Asked by " (said(&review.asked_by)) " " (ago(review.asked_at, seen.run.summary.updated_at.max(review.asked_at)))
                ". Lapses " time title=(exact(review.expires_at)) { (exact(review.expires_at)) } "." }
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

fn reconcile(seen: &RunPageData, who: &Visitor, step: &StepView) -> Markup {
    let outcomes = [("", "choose…"), ("committed", "It happened"), ("not_done", "It did not happen")];
    let form = html! {
        (hidden("key", step.key.as_str()))
        div.grid {
            (choice("outcome", "What became of it", &outcomes, ""))
            (field("output", "Its output, if it happened (JSON)", "", "{\"id\":\"…\"}"))
            (reason_field(false))
        }
        button { "Record the outcome" }
    };
    html! {
        div.body.ask id="reconcile" {
            p { b { (said(step.name.as_str())) } " was started and nobody knows whether it happened. Look it up by its key "
                code { (said(step.key.as_str())) } ", then say so. Nothing runs until then." }
            @if let Some(check) = &step.check { p.muted { "How to find out: " (said(&check.decode())) } }
            (post_form(&format!("{}/reconcile", seen.at()), who.csrf(), &form))
        }
    }
}
