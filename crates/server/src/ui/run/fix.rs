//! `/runs/{tenant}/{run_id}/fix`: replay with a fix. It shows the differences and the plan before anything is sent.

use maud::{Markup, html};
use redrive_core::json::{Tape, diff};
use redrive_core::wire::{Fix, PlanAnswer, ReplayRequest, RevisionView};
use redrive_engine::{DetailCall, RunRef};

use super::super::components::{field, head, hidden, isolated, panel, reason_field};
use super::super::form::Form;
use super::super::layout::Tab;
use super::super::links;
use super::super::page::{FormResult, PageContent};
use super::payload::diff as shown_diff;
use super::{RunPageData, RunRequest, named, plan};
use crate::api::v1::runs::replay::prepared;
use crate::app::App;
use crate::auth::Visitor;
use crate::body::parse_free;
use crate::problem::{HttpProblem, Result};

/// Larger payloads are not pretty-printed.
const PRETTY_MAX_BYTES: usize = 256 * 1024;

pub(crate) async fn get(app: App, visit: RunRequest) -> Result<PageContent> {
    let at = named(&visit.who, visit.path)?;
    let _turn = app.answers.turn(visit.who.holder()).await?;
    let current = app.store.revision(&at, None).await?;
    let draft = FixDraft { payload: pretty(&current), ..FixDraft::default() };
    Ok(content(&at, &visit.who, &current, &draft, None))
}

/// Shows what it would do; nothing is sent.
pub(crate) async fn check(app: App, visit: RunRequest, form: Form) -> Result<FormResult> {
    let at = named(&visit.who, visit.path)?;
    let current = app.store.revision(&at, None).await?;
    let draft = FixDraft::of(&form);
    let review = review_fix(&app, &visit.who, &at, &current, &form).await;
    Ok(FormResult::Show(content(&at, &visit.who, &current, &draft, Some(review))))
}

/// The fields as typed.
#[derive(Default)]
struct FixDraft {
    payload: String,
    instruction: String,
    model: String,
    agent: String,
    queue: String,
    from_step: String,
}

impl FixDraft {
    fn of(form: &Form) -> Self {
        let one = |name: &str| form.one(name).unwrap_or_default().to_owned();
        Self {
            payload: form.exact("payload").unwrap_or_default(),
            instruction: one("instruction"),
            model: one("model"),
            agent: one("agent"),
            queue: one("queue"),
            from_step: one("from_step"),
        }
    }
}

/// The form as a request to the API.
pub(super) fn request(form: &Form) -> Result<ReplayRequest> {
    let fix = match form.exact("payload").filter(|text| !text.trim().is_empty()) {
        Some(text) => Some(Fix { json_patch: None, payload: Some(parse_free(text.as_bytes())?) }),
        None => None,
    };
    Ok(ReplayRequest {
        fix,
        instruction: form.text("instruction"),
        model: form.label("model"),
        agent: form.label("agent"),
        queue: form.id("queue")?,
        from_step: form.label("from_step"),
        ..ReplayRequest::default()
    })
}

/// The differences and the plan, or what is wrong with the draft.
struct FixReview {
    diff: Markup,
    plan: PlanAnswer,
    plan_shown: Markup,
    /// The payload to send; none if it equals the current one.
    payload: Option<String>,
}

async fn review_fix(app: &App, who: &Visitor, at: &RunRef, current: &RevisionView, form: &Form) -> Result<FixReview> {
    let mut wanted = request(form)?;
    let before = compact(current.payload.as_ref().map_or("null", |payload| payload.get()));
    let edited = wanted.fix.as_ref().and_then(|fix| fix.payload.as_ref()).map(|raw| compact(raw.get()));
    let (operations, more) = match (Tape::of(&before), edited.as_deref().and_then(Tape::of)) {
        (Some(old), Some(new)) => diff(&old, &new),
        (None, _) | (_, None) => (Vec::new(), false),
    };
    // White space alone makes no new revision.
    let payload = edited.filter(|_| !operations.is_empty());
    wanted.fix = match &payload {
        Some(text) => Some(Fix { json_patch: None, payload: Some(parse_free(text.as_bytes())?) }),
        None => None,
    };
    let replay = prepared(app, at, wanted, form.bytes).await?;
    let plan = app.store.plan(at, replay).await?;
    let data = RunPageData::read(app, who, at, DetailCall::default()).await?;
    Ok(FixReview { diff: shown_diff(&operations, more), plan_shown: plan::steps(&data, &plan), plan, payload })
}

fn content(
    at: &RunRef,
    who: &Visitor,
    current: &RevisionView,
    draft: &FixDraft,
    review: Option<Result<FixReview>>,
) -> PageContent {
    let run = links::run(&at.tenant, &at.run_id);
    let why = html! {
        "Edit the payload, check the differences and the plan, then replay. The edit becomes revision "
        (current.revision + 1) "; the original never changes."
    };
    let ready = matches!(&review, Some(Ok(review)) if review.plan.refused.is_none());
    let actions = html! {
        a.button href=(run) { "Back" }
        @if ready { button.primary form="send" { "Replay with this fix" } }
        @else { button.primary form="draft" { "Check" } }
    };
    let main = html! {
        (head(&html! { "Replay " (isolated(at.run_id.as_str())) " with a fix" }, &why, &actions))
        div.cols {
            div.stack { (editor(&run, who, draft)) }
            div.stack id="checked" data-fix="" aria-live="polite" { (checked(&run, who, draft, review)) }
        }
    };
    PageContent::new(format!("Fix {}", at.run_id), Tab::Runs, main)
}

fn editor(run: &str, who: &Visitor, draft: &FixDraft) -> Markup {
    let body = html! {
        form.body id="draft" method="post" action=(format!("{run}/fix")) {
            (hidden("csrf", who.csrf()))
            label.field { span { "Payload (JSON)" }
                textarea.mono name="payload" rows="18" spellcheck="false" autocomplete="off" { "\n" (draft.payload) } }
            p.error id="syntax" role="alert" hidden {}
            div.grid {
                (field("instruction", "Additional instruction", &draft.instruction, ""))
                (field("model", "Another model", &draft.model, ""))
                (field("agent", "Another agent", &draft.agent, ""))
                (field("queue", "Another queue", &draft.queue, ""))
                (field("from_step", "Start from step", &draft.from_step, ""))
            }
        }
    };
    panel("editor", "Changes", &html! {}, &body)
}

fn checked(run: &str, who: &Visitor, draft: &FixDraft, review: Option<Result<FixReview>>) -> Markup {
    match review {
        None => panel("differences", "Differences", &html! {}, &html! { div.body.muted { "Not checked yet." } }),
        Some(Err(problem)) => panel("differences", "This can’t be replayed", &html! {}, &wrong(&problem)),
        Some(Ok(review)) => html! {
            (panel("differences", "Differences", &html! {}, &html! { div.body { (review.diff) } }))
            (panel("plan", "Replay plan", &html! { "plan " code { (review.plan.hash.get(..8).unwrap_or_default()) } }, &html! {
                (review.plan_shown)
                @if review.plan.refused.is_none() { div.body { (send(run, who, draft, &review)) } }
            }))
        },
    }
}

fn wrong(problem: &HttpProblem) -> Markup {
    html! { div.body { p.error { (isolated(&problem.detail)) } p.muted { (problem.code.help()) } } }
}

/// Sends exactly the reviewed plan, by its hash.
fn send(run: &str, who: &Visitor, draft: &FixDraft, review: &FixReview) -> Markup {
    let pairs = [
        ("instruction", &draft.instruction),
        ("model", &draft.model),
        ("agent", &draft.agent),
        ("queue", &draft.queue),
        ("from_step", &draft.from_step),
    ];
    html! {
        form id="send" method="post" action=(format!("{run}/replay")) {
            (hidden("csrf", who.csrf()))
            (hidden("plan_hash", &review.plan.hash))
            @if let Some(payload) = &review.payload { (hidden("payload", payload)) }
            @for (name, value) in pairs { @if !value.is_empty() { (hidden(name, value)) } }
            (reason_field(false))
        }
    }
}

/// Pretty-prints the payload; numbers and strings keep their spelling.
fn pretty(current: &RevisionView) -> String {
    let Some(raw) = &current.payload else { return String::new() };
    let text = raw.get();
    if text.len() > PRETTY_MAX_BYTES || text.contains('\n') {
        return text.to_owned();
    }
    let (mut out, mut level, mut in_string, mut escaped) =
        (String::with_capacity(text.len() * 2), 0_usize, false, false);
    let mut chars = text.chars().filter(|c| !c.is_ascii_control()).peekable();
    while let Some(c) = chars.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' if chars.peek().is_some_and(|next| !matches!(next, '}' | ']')) => {
                level += 1;
                out.push(c);
                new_line(&mut out, level);
            }
            '}' | ']' if !out.ends_with(['{', '[']) => {
                level = level.saturating_sub(1);
                new_line(&mut out, level);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, level);
            }
            ':' => out.push_str(": "),
            ' ' => {}
            c => out.push(c),
        }
    }
    out
}

/// Removes white space between values, not within strings.
fn compact(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let keep = |c: &char| {
        let kept = in_string || !c.is_ascii_whitespace();
        if *c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && *c == '\\' && !escaped;
        kept
    };
    text.chars().filter(keep).collect()
}

fn new_line(out: &mut String, level: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", level));
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn a_payload_is_laid_out_without_changing_what_it_says() {
        let text = r#"{"a":[1.10,{"b":"x, {\"y\": 1}"}],"c":{},"d":[],"e":1e400}"#;
        let view = RevisionView {
            run_id: "r".parse().unwrap(),
            tenant: "t".parse().unwrap(),
            revision: 1,
            at: Default::default(),
            actor: String::new(),
            payload: Some(RawValue::from_string(text.into()).unwrap()),
            payload_base64: None,
            json_patch: None,
        };
        let laid_out = pretty(&view);
        assert!(laid_out.contains("\n    1.10,\n") && laid_out.contains("\"e\": 1e400"), "{laid_out}");
        let (old, new) = (Tape::of(text).unwrap(), Tape::of(&laid_out).unwrap());
        assert_eq!(old.members(old.root()).count(), new.members(new.root()).count());
        assert_eq!(compact(&laid_out), text);
    }
}
