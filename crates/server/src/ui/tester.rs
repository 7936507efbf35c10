//! Paste an error and see its reason, its pattern, what would be done about it, and why. Nothing is stored.

use maud::{Markup, html};
use redrive_core::classify::{Evidence, explain};
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::pattern::why_grouped;
use redrive_core::run::Run;
use redrive_core::strategy::{Strategy, Tries, decide, strategy};
use redrive_core::time::Timestamp;
use redrive_core::verdict::Change;
use redrive_core::wire::ErrorReport;
use redrive_core::wording::advice;
use redrive_store::AttemptBody;

use super::components::{ago, fact, facts, field, panel, post_form, said, template, visible};
use super::form::Form;
use crate::app::App;
use crate::auth::Visitor;
use crate::capture::{Context, judge};
use crate::problem::{Problem, Result};

const FINDINGS_MAX: usize = 6;
const MASKED_MAX: usize = 12;

pub(super) fn ask(who: &Visitor, form: &Form) -> Markup {
    let value = |name: &str| form.one(name).unwrap_or_default().to_owned();
    let body = html! {
        label.field { span { "Error, as it was raised" } textarea.mono name="text" rows="7" required spellcheck="false" placeholder="openai.RateLimitError: Error code: 429 - …" { "\n" (form.exact("text").unwrap_or_default()) } }
        div.grid {
            (field("error_type", "Type", &value("error_type"), "RateLimitError"))
            (field("http_status", "HTTP status", &value("http_status"), "429"))
            (field("tool", "Tool", &value("tool"), ""))
            (field("provider", "Provider", &value("provider"), "openai"))
            (field("queue", "In which queue", &value("queue"), "default"))
            @if who.own_tenant().is_none() { (field("tenant", "Of which tenant", &value("tenant"), "default")) }
        }
        button.primary { "See what would happen" }
    };
    panel(
        "tester",
        "Tester",
        &html! { "nothing is stored" },
        &html! { div.body { (post_form("/settings/test", who.csrf(), &body)) } },
    )
}

pub(super) async fn answer(app: &App, who: &Visitor, form: &Form, now: Timestamp) -> Result<Markup> {
    let text = form.text("text").ok_or_else(|| Problem::invalid_field("text", "is missing: paste an error"))?;
    let error = ErrorReport {
        error_type: form.text("error_type"),
        message: text,
        detail: None,
        http_status: form.number("http_status")?,
        headers: Default::default(),
        reason: None,
        category: None,
        terminal: false,
    };
    let tenant = match who.own_tenant() {
        Some(own) => own.clone(),
        None => form.id("tenant")?.unwrap_or_else(Tenant::default_tenant),
    };
    let queue = form.id("queue")?.unwrap_or_else(QueueName::default_queue);
    let body = AttemptBody { tool: form.label("tool"), provider: form.label("provider"), ..AttemptBody::default() };
    let (failure, fingerprint, _) = judge(&error, &body, app.rules.as_deref(), &Context::default(), now);
    let policy = app.store.policy(&tenant, &queue).await?;
    let run = Run { attempt: 1, ..Run::new(now) };
    let verdict = decide(&failure, &run, &policy, now, 0.5).verdict;
    let message = error.message.decode();
    let (kind, tool, provider) =
        (error.error_type.as_ref().map(|kind| kind.decode()), form.one("tool"), form.one("provider"));
    let evidence = Evidence {
        text: &message,
        error_type: kind.as_deref(),
        http_status: error.http_status,
        tool,
        provider,
        ..Evidence::default()
    };
    let rows = [
        fact("Reason", &html! { b { (failure.reason) } " · " (failure.category) }),
        fact("Rule", &html! { code { (visible(&failure.rule)) } }),
        fact("Pattern", &html! { (template(&fingerprint.template)) }),
        fact("Fingerprint", &html! { code { (fingerprint.id()) } }),
        fact("First attempt", &html! { (said(&verdict.why)) }),
        fact(
            "Next attempt",
            &html! { @match verdict.next_attempt_at { Some(at) => { (ago(at, now)) ", give or take the jitter" } None => "none" } },
        ),
        fact("Strategy", &html! { (words(&strategy(&failure.reason, failure.category))) }),
        fact("Advised", &html! { (advice(verdict.recommended_action)) }),
    ];
    Ok(panel(
        "answer",
        "It would be",
        &html! { (failure.reason) },
        &html! { div.body { (facts(&rows)) (why(&evidence)) } },
    ))
}

/// The row of the table, as it stands there.
fn words(strategy: &Strategy) -> String {
    let tries = match strategy.tries {
        Tries::ToTheBudget => "retried as long as the budget lasts".to_owned(),
        Tries::AtMost(0) => return "not retried: a person decides".to_owned(),
        Tries::AtMost(1) => "retried once".to_owned(),
        Tries::AtMost(n) => format!("retried {n} times at most"),
    };
    let changes: Vec<&str> = strategy.changes.iter().map(Change::as_str).collect();
    if changes.is_empty() { tries } else { format!("{tries}, changed: {}", changes.join(", ").replace('_', " ")) }
}

/// What matched, and what was masked.
fn why(evidence: &Evidence<'_>) -> Markup {
    let explained = explain(evidence);
    let masked = why_grouped(evidence);
    html! {
        h3 { "Why" }
        @if explained.findings.is_empty() { p.muted { "No rule knows this text." } }
        ul { @for finding in explained.findings.iter().take(FINDINGS_MAX) {
            li { code { (finding.rule) } " found “" (said(&finding.matched)) "” in the " (finding.field) ": " (said(&finding.reason)) }
        } }
        @if !masked.is_empty() {
            p { "Masked, because it differs from run to run:" }
            ul { @for part in masked.iter().take(MASKED_MAX) { li { span.template { mark { (part.mask) } } " " code { (said(&part.original)) } } } }
        }
    }
}
