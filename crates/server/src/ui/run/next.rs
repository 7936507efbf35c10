//! The one next action of a run, by where it stands, and the few beside it.

use maud::{Markup, html};
use redrive_core::run::StateName;

use super::super::components::{hidden, post_form, visible};
use super::Seen;
use crate::auth::Visitor;

/// One primary button: the advised thing.
pub(super) fn actions(seen: &Seen, who: &Visitor) -> Markup {
    let at = seen.at();
    html! {
        @if seen.waits_for_a_person() {
            a.button href="#assign-to" { "Assign…" }
            a.button href="#discard-reason" { "Discard…" }
        }
        @match seen.run.summary.state {
            StateName::Dead => (dead(seen, who, &at)),
            StateName::Review => a.button.primary href="#approve" { "Approve or reject…" },
            StateName::Scheduled => (again(seen, who, &at, "Retry now")),
            StateName::Running => (post_form(&format!("{at}/cancel"), who.csrf(), &html! { button.danger { "Cancel the attempt" } })),
            StateName::Merged => @if let Some(into) = &seen.run.summary.merged_into {
                a.button.primary href=(super::links::run(&seen.run.summary.tenant, into)) { "Open " (visible(into.as_str())) }
            },
            StateName::Succeeded | StateName::Recovered | StateName::Resolved | StateName::Discarded => {
                a.button href="#note-reason" { "Add a note…" }
            }
        }
    }
}

fn dead(seen: &Seen, who: &Visitor, at: &str) -> Markup {
    let replayable = seen.run.body.replayable;
    html! {
        @if replayable { a.button href=(format!("{at}/fix")) data-key="e" { "Replay with a fix…" } }
        @if let Some(step) = seen.in_doubt().next() {
            a.button.primary href="#reconcile" { "Reconcile " (visible(step.name.as_str())) "…" }
        } @else if !replayable {
            a.button.primary href="#resolve-reason" { "Resolve…" }
        } @else if refused(seen).is_some() {
            a.button.primary href="#resolve-reason" { "Decide…" }
        } @else { (again(seen, who, at, "Replay")) }
    }
}

/// Why a plain replay would be refused, if it would.
pub(super) fn refused(seen: &Seen) -> Option<&str> {
    seen.plan.as_ref().and_then(|plan| plan.refused.as_deref())
}

/// Exactly the plan that is shown below, or nothing.
fn again(seen: &Seen, who: &Visitor, at: &str, word: &str) -> Markup {
    post_form(
        &format!("{at}/replay"),
        who.csrf(),
        &html! {
            @if let Some(plan) = &seen.plan { (hidden("plan_hash", &plan.hash)) }
            button.primary data-key="r" { (word) }
        },
    )
}
