//! Every verb that a run's state allows, each in a form that opens. The state machine has the last word: what is
//! offered here and refused there is told as a problem.

use maud::{Markup, html};
use redrive_core::run::StateName;
use redrive_core::wire::Likeness;

use super::super::components::{field, hidden, panel, post_form, reason_field, visible};
use super::Seen;
use crate::auth::Visitor;

pub(super) fn panel_of(seen: &Seen, who: &Visitor) -> Markup {
    let state = seen.run.summary.state;
    let open = matches!(state, StateName::Dead | StateName::Review | StateName::Scheduled);
    let body = html! {
        div.body.verbs {
            @if open { (assign(seen, who)) (defer(seen, who)) }
            @if open && state != StateName::Review { (reassign(seen, who)) }
            @if state == StateName::Dead {
                (plain(seen, who, "review", "Put aside for a decision", "Waits until somebody approves or rejects it.", "Put aside", false))
            }
            @if open {
                (plain(seen, who, "resolve", "Resolve", "It is settled: done elsewhere, or no longer a problem.", "Resolve", false))
                (plain(seen, who, "discard", "Discard", "It is not needed. Its data is kept until its time is up.", "Discard", true))
                (merge(seen, who))
            }
            @if state == StateName::Merged {
                (plain(seen, who, "unmerge", "Take apart", "It is not the same after all.", "Take apart", false))
            }
            @if state == StateName::Scheduled {
                (plain(seen, who, "cancel", "Cancel", "Stops it and keeps it as a dead letter.", "Cancel", true))
            }
            (note(seen, who))
            @if who.is_operator() && state != StateName::Running && state != StateName::Merged { (force(seen, who)) }
        }
    };
    panel("verbs", "Do something else", &html! {}, &body)
}

fn verb(name: &str, title: &str, form: &Markup) -> Markup {
    html! { details name="verb" id=(format!("verb-{name}")) { summary { (title) } (form) } }
}

fn to(seen: &Seen, verb: &str) -> String {
    format!("{}/{verb}", seen.at())
}

fn plain(seen: &Seen, who: &Visitor, name: &str, title: &str, says: &str, button: &str, danger: bool) -> Markup {
    let form = html! {
        p.muted { (says) }
        label.field {
            span { "Reason" } input type="text" name="reason" id=(format!("{name}-reason")) maxlength="2000";
        }
        button.danger[danger] { (button) }
    };
    verb(name, title, &post_form(&to(seen, name), who.csrf(), &form))
}

fn assign(seen: &Seen, who: &Visitor) -> Markup {
    let now = seen.run.summary.assigned_to.as_ref().map_or("", |to| to.as_str());
    let form = html! {
        label.field { span { "To (empty: nobody)" } input type="text" name="to" id="assign-to" value=(now); }
        (reason_field(false)) button { "Assign" }
    };
    verb("assign", "Assign", &post_form(&to(seen, "assign"), who.csrf(), &form))
}

fn defer(seen: &Seen, who: &Visitor) -> Markup {
    let form = html! {
        label.field { span { "Not before (UTC)" } input type="datetime-local" name="until" required; }
        (reason_field(false)) button { "Put off" }
    };
    verb("defer", "Put off", &post_form(&to(seen, "defer"), who.csrf(), &form))
}

fn reassign(seen: &Seen, who: &Visitor) -> Markup {
    let form = html! {
        (field("agent", "Another agent", "", "")) (field("queue", "or another queue", "", "")) (reason_field(false))
        button { "Hand over" }
    };
    verb("reassign", "Give to another agent or queue", &post_form(&to(seen, "reassign"), who.csrf(), &form))
}

/// With its candidates: what looks like the same work.
fn merge(seen: &Seen, who: &Visitor) -> Markup {
    let form = html! {
        p.muted { "It becomes part of another run of the same tenant; its later failures count there." }
        @for duplicate in &seen.duplicates.duplicates {
            label.bar { input type="radio" name="into" value=(duplicate.run.run_id);
                (visible(duplicate.run.run_id.as_str()))
                span.faint { @match duplicate.same { Likeness::IdempotencyKey => "same key", Likeness::Payload => "same payload" } } }
        }
        @if seen.duplicates.duplicates.is_empty() { p.faint { "Nothing looks like the same work." } }
        (field("other", "Into another run", "", "run id")) (reason_field(false)) button { "Merge" }
    };
    verb("merge", "Merge into another run", &post_form(&to(seen, "merge"), who.csrf(), &form))
}

fn note(seen: &Seen, who: &Visitor) -> Markup {
    let form = html! {
        label.field { span { "Note" } input type="text" name="reason" id="note-reason" required maxlength="2000"; }
        button { "Add" }
    };
    verb("note", "Add a note", &post_form(&to(seen, "note"), who.csrf(), &form))
}

/// Past every guard, with a name and a reason.
fn force(seen: &Seen, who: &Visitor) -> Markup {
    let form = html! {
        p.muted {
            "Replays although a guard refuses it: an effect in doubt or done, a closed run, too many replays. It may do harm twice; the reason is kept."
        }
        (hidden("force", "yes")) (reason_field(true)) button.danger { "Force a replay" }
    };
    verb("force", "Force a replay", &post_form(&to(seen, "replay"), who.csrf(), &form))
}
