//! `/settings`: a tester that classifies a pasted error, and the keys for admins.

use maud::{Markup, html};
use redrive_core::classify::{Evidence, explain};
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::pattern::why_grouped;
use redrive_core::run::Run;
use redrive_core::strategy::{Strategy, Tries, decide, strategy};
use redrive_core::time::Timestamp;
use redrive_core::verdict::Change;
use redrive_core::wire::{CreateKey, CreatedKey, ErrorReport, KeyView, Role};
use redrive_core::wording::advice;
use redrive_engine::AttemptBody;

use super::components::{ago, choice, fact, facts, field, head, isolated, panel, post_form, template, visible};
use super::form::Form;
use super::form::Notice;
use super::layout::Tab;
use super::page::{FormResult, PageContent, PageRequest};
use crate::api::v1::keys;
use crate::app::App;
use crate::auth::Visitor;
use crate::capture::{FailureContext, classify_error};
use crate::path::ServerId;
use crate::problem::{HttpProblem, Result};

pub(crate) async fn get(app: App, visit: PageRequest) -> Result<PageContent> {
    let keys = if visit.who.is_admin() { Some(keys::all(&app).await?) } else { None };
    Ok(content(&visit, keys.as_deref(), &classify_form(&visit.who, &Form::default()), None))
}

/// Classifies a pasted error.
pub(crate) async fn test(app: App, visit: PageRequest, form: Form) -> Result<FormResult> {
    let answer = classify_answer(&app, &visit.who, &form, visit.now).await?;
    let main = html! {
        (head(&html! { "Classification" }, &html! { "Nothing is stored." }, &html! {
            a.button href="/settings" { "Settings" }
        }))
        div.cols { (answer) (classify_form(&visit.who, &form)) }
    };
    Ok(FormResult::Show(PageContent::new("Tester", Tab::Settings, main)))
}

fn content(visit: &PageRequest, keys: Option<&[KeyView]>, tester: &Markup, made: Option<&CreatedKey>) -> PageContent {
    let headline = html! {
        "Logged in as " (visit.who.role())
        @match visit.who.own_tenant() { Some(own) => { " of tenant " (isolated(own.as_str())) } None => " for all tenants" } "."
    };
    let main = html! {
        (head(&headline, &html! {
            "Paste an error to see how it is classified" @if keys.is_some() { ", or manage keys" } "."
        }, &html! {}))
        @if let Some(made) = made { (secret(made)) }
        (tester)
        @if let Some(keys) = keys { (table(keys, visit)) (make_key(&visit.who)) }
    };
    PageContent::new("Settings", Tab::Settings, main)
}

/// Shown once; only its hash is stored.
fn secret(made: &CreatedKey) -> Markup {
    html! {
        section.panel.notice role="status" {
            p { b { "New key, shown only once:" } }
            pre id="secret" tabindex="0" { (made.key) }
            p.muted { (made.id) " · " (made.role) " · tenant " (isolated(&made.tenant)) }
        }
    }
}

fn table(keys: &[KeyView], visit: &PageRequest) -> Markup {
    let body = html! { div.scroll { table {
        thead {
            tr {
                th { "Key" } th { "Role" } th { "Tenant" } th.wide { "Note" } th.num.wide { "Created" } th { "State" }
                th { span.faint { "Action" } }
            }
        }
        tbody { @for key in keys { tr {
            td.mono { (key.id) }
            td { (key.role) }
            td { (isolated(&key.tenant)) }
            td.wide { @if let Some(note) = &key.note { (isolated(note.as_str())) } }
            td.num.wide.muted { (ago(key.created_at, visit.now)) }
            td { @match (key.revoked_at, key.expires_at) {
                (Some(at), _) => { span.badge { "revoked" } " " span.faint { (ago(at, visit.now)) } }
                (None, Some(at)) => { span.badge.good { "valid" } " " span.faint { "until " (ago(at, visit.now)) } }
                (None, None) => span.badge.good { "valid" },
            } }
            td.act { @if key.revoked_at.is_none() {
                (post_form(&format!("/settings/keys/{}/revoke", key.id), visit.who.csrf(), &html! {
                    button.danger aria-label=(format!("revoke {}", key.id)) { "Revoke" }
                }))
            } }
        } } }
    } } };
    panel("keys", "Keys", &html! { (keys.len()) }, &body)
}

fn make_key(who: &Visitor) -> Markup {
    let roles = [("worker", "worker"), ("tenant", "tenant"), ("operator", "operator"), ("admin", "admin")];
    let form = html! {
        p.muted {
            "A worker reports and leases runs; a tenant reads and triages its own runs; an operator acts for all tenants and in bulk; an admin also manages keys and queues."
        }
        div.grid {
            (choice("role", "Role", &roles, "worker"))
            (field("tenant", "Tenant (* spans all)", "", "default"))
            (field("note", "Note", "", "who uses it"))
            label.field { span { "Expires (UTC; empty: never)" } input type="datetime-local" name="expires_at"; }
        }
        button { "Create key" }
    };
    panel("make", "New key", &html! {}, &html! { div.body { (post_form("/settings/keys", who.csrf(), &form)) } })
}

pub(crate) async fn create(app: App, visit: PageRequest, form: Form) -> Result<FormResult> {
    let role = form.one("role").and_then(|word| word.parse::<Role>().ok());
    let role = role.ok_or_else(|| HttpProblem::invalid_field("role", "must be worker, tenant, operator or admin"))?;
    let request = CreateKey {
        role,
        tenant: form.label("tenant"),
        note: form.label("note"),
        expires_at: form.time("expires_at")?,
    };
    let made = keys::make(&app, request).await?;
    let all = keys::all(&app).await?;
    let tester = classify_form(&visit.who, &Form::default());
    Ok(FormResult::Show(content(&visit, Some(&all), &tester, Some(&made))))
}

pub(crate) async fn revoke(app: App, visit: PageRequest<ServerId>, _: Form) -> Result<FormResult> {
    keys::revoke_one(&app, visit.path.0).await?;
    Ok(FormResult::Go { to: "/settings".into(), done: Notice::Revoked })
}

const FINDINGS_MAX: usize = 6;
const MASKED_MAX: usize = 12;

fn classify_form(who: &Visitor, form: &Form) -> Markup {
    let value = |name: &str| form.one(name).unwrap_or_default().to_owned();
    let body = html! {
        label.field {
            span { "Error text" }
            textarea.mono name="text" rows="7" required spellcheck="false" placeholder="openai.RateLimitError: Error code: 429 - …" {
                "\n" (form.exact("text").unwrap_or_default())
            }
        }
        div.grid {
            (field("error_type", "Type", &value("error_type"), "RateLimitError"))
            (field("http_status", "HTTP status", &value("http_status"), "429"))
            (field("tool", "Tool", &value("tool"), ""))
            (field("provider", "Provider", &value("provider"), "openai"))
            (field("queue", "Queue", &value("queue"), "default"))
            @if who.own_tenant().is_none() { (field("tenant", "Tenant", &value("tenant"), "default")) }
        }
        button.primary { "Classify" }
    };
    panel(
        "tester",
        "Tester",
        &html! { "nothing is stored" },
        &html! { div.body { (post_form("/settings/test", who.csrf(), &body)) } },
    )
}

async fn classify_answer(app: &App, who: &Visitor, form: &Form, now: Timestamp) -> Result<Markup> {
    let text = form.text("text").ok_or_else(|| HttpProblem::invalid_field("text", "is missing: paste an error"))?;
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
    let (failure, fingerprint, _) =
        classify_error(&error, &body, app.rules.as_deref(), &FailureContext::default(), now);
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
        fact("Verdict", &html! { (isolated(&verdict.why)) }),
        fact(
            "Next attempt",
            &html! {
                @match verdict.next_attempt_at { Some(at) => {
                    (ago(at, now)) ", plus or minus jitter"
                } None => "none" }
            },
        ),
        fact("Strategy", &html! { (words(&strategy(&failure.reason, failure.category))) }),
        fact("Recommended", &html! { (advice(verdict.recommended_action)) }),
    ];
    Ok(panel("answer", "Result", &html! { (failure.reason) }, &html! { div.body { (facts(&rows)) (why(&evidence)) } }))
}

/// The strategy in words.
fn words(strategy: &Strategy) -> String {
    let tries = match strategy.tries {
        Tries::ToTheBudget => "retried until the budget is used up".to_owned(),
        Tries::AtMost(0) => return "not retried: a person decides".to_owned(),
        Tries::AtMost(1) => "retried once".to_owned(),
        Tries::AtMost(n) => format!("retried at most {n} times"),
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
        @if explained.findings.is_empty() { p.muted { "No rule matches this text." } }
        ul { @for finding in explained.findings.iter().take(FINDINGS_MAX) {
            li {
                code { (finding.rule) } " matched “" (isolated(&finding.matched)) "” in the " (finding.field) ": "
                (isolated(&finding.reason))
            }
        } }
        @if !masked.is_empty() {
            p { "Masked as variable:" }
            ul {
                @for part in masked.iter().take(MASKED_MAX) {
                    li { span.template { mark { (part.mask) } } " " code { (isolated(&part.original)) } }
                }
            }
        }
    }
}
