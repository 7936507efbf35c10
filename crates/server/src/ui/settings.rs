//! `/settings`: a tester that classifies a pasted error, the keys for admins, and the portal links for operators.

use maud::{Markup, html};
use redrive_core::access::KeyScope;
use redrive_core::classify::{Evidence, explain};
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::pattern::why_grouped;
use redrive_core::run::Run;
use redrive_core::strategy::{Strategy, Tries, decide, strategy};
use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_core::verdict::Change;
use redrive_core::wire::bounds::{PORTAL_MS_MAX, PORTAL_MS_MIN};
use redrive_core::wire::{CreateKey, CreatePortalLink, ErrorReport, KeyView, PortalLinkView, Role};
use redrive_core::wording::advice;
use redrive_engine::AttemptBody;

use super::components::{ago, choice, fact, facts, field, head, hidden, isolated, panel, post_form, template, visible};
use super::form::Form;
use super::form::Notice;
use super::layout::Tab;
use super::links;
use super::page::{FormResult, PageContent, PageRequest};
use crate::api::v1::{keys, portal_links};
use crate::app::App;
use crate::auth::Visitor;
use crate::capture::{FailureContext, classify_error, redaction};
use crate::path::ServerId;
use crate::problem::{HttpProblem, Result};
use crate::query::{FromQuery, Param, RawQuery, TENANT};

/// The links of one tenant.
pub(crate) struct SettingsQuery {
    tenant: Option<Tenant>,
}

impl FromQuery for SettingsQuery {
    const PARAMS: &'static [Param] = &[TENANT];

    fn read(given: &mut RawQuery) -> Result<Self> {
        Ok(Self { tenant: given.id("tenant")? })
    }
}

pub(crate) async fn get(app: App, visit: PageRequest<(), SettingsQuery>) -> Result<PageContent> {
    Ok(content(&visit.who, &SettingsData::read(&app, &visit.who, visit.query.tenant, None).await?, visit.now))
}

/// What the page shows beside the tester, as far as the visitor may.
struct SettingsData {
    /// None without encryption at rest.
    master_key_id: Option<String>,
    keys: Option<Vec<KeyView>>,
    links: Option<TenantLinks>,
    made: Option<MadeSecret>,
}

struct TenantLinks {
    tenant: Tenant,
    links: Vec<PortalLinkView>,
}

/// Shown once; only its hash is stored.
struct MadeSecret {
    title: &'static str,
    secret: String,
    about: String,
}

impl SettingsData {
    async fn read(app: &App, who: &Visitor, tenant: Option<Tenant>, made: Option<MadeSecret>) -> Result<Self> {
        let may = who.limits().holds_any(&[KeyScope::Admin]);
        let keys = if may && who.is_admin() { Some(keys::all(app).await?) } else { None };
        let links = if may && who.is_operator() {
            let tenant = tenant.unwrap_or_else(Tenant::default_tenant);
            Some(TenantLinks { links: portal_links::all(app, &tenant).await?, tenant })
        } else {
            None
        };
        Ok(Self { master_key_id: app.store.master_key_id(), keys, links, made })
    }
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

fn content(who: &Visitor, data: &SettingsData, now: Timestamp) -> PageContent {
    let headline = html! {
        "Logged in as " (who.role())
        @match who.own_tenant() { Some(own) => { " of tenant " (isolated(own.as_str())) } None => " for all tenants" } "."
    };
    let main = html! {
        (head(&headline, &html! {
            "Paste an error to see how it is classified" @if data.keys.is_some() { ", or manage keys" } "."
        }, &html! {}))
        @if let Some(made) = &data.made { (secret(made)) }
        (classify_form(who, &Form::default()))
        @if let Some(keys) = &data.keys { (table(keys, who, now)) (make_key(who)) }
        @if let Some(links) = &data.links { (links_of(links, who, now)) }
        @if data.keys.is_some() { (encryption(data.master_key_id.as_deref())) }
    };
    PageContent::new("Settings", Tab::Settings, main)
}

/// Whether payloads are stored in clear.
fn encryption(master_key_id: Option<&str>) -> Markup {
    let body = html! { div.body { @match master_key_id {
        Some(id) => p { "Payloads are encrypted at rest, under master key " span.mono { (id) } "." },
        None => p { "Payloads are stored in clear text. " span.muted { "A master key in " code { "[encryption]" } " of the configuration encrypts them." } },
    } } };
    panel("encryption", "Encryption at rest", &html! {}, &body)
}

fn secret(made: &MadeSecret) -> Markup {
    html! {
        section.panel.notice role="status" {
            p { b { (made.title) } }
            pre id="secret" tabindex="0" { (made.secret) }
            p.muted { (isolated(&made.about)) }
        }
    }
}

fn table(keys: &[KeyView], who: &Visitor, now: Timestamp) -> Markup {
    let body = html! { div.scroll { table {
        thead {
            tr {
                th { "Key" } th { "Role" } th { "Tenant" } th.wide { "Scopes" } th.wide { "Queues" }
                th.num.wide { "Last used" } th { "State" } th { span.faint { "Action" } }
            }
        }
        tbody { @for key in keys { tr {
            td {
                @if let Some(name) = &key.name { (isolated(name.as_str())) " " }
                span.mono.faint { (key.id) }
                @if let Some(note) = &key.note { " " span.muted { (isolated(note.as_str())) } }
            }
            td { (key.role) }
            td { (isolated(&key.tenant)) }
            td.wide { (listed(key.scopes.as_deref())) }
            td.wide { (listed(key.queues.as_deref())) }
            td.num.wide.muted { @match key.last_used_at { Some(at) => (ago(at, now)), None => "never" } }
            td { (state_of(key, now)) }
            td.act { @if is_valid(key, now) {
                (post_form(&format!("/settings/keys/{}/rotate", key.id), who.csrf(), &html! {
                    button aria-label=(format!("rotate {}", key.id)) { "Rotate" }
                }))
                (post_form(&format!("/settings/keys/{}/revoke", key.id), who.csrf(), &html! {
                    button.danger aria-label=(format!("revoke {}", key.id)) { "Revoke" }
                }))
            } }
        } } }
    } } };
    panel("keys", "Keys", &html! { (keys.len()) }, &body)
}

fn is_valid(key: &KeyView, now: Timestamp) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|at| now < at)
}

fn state_of(key: &KeyView, now: Timestamp) -> Markup {
    html! {
        @match (key.revoked_at, key.expires_at) {
            (Some(at), _) => { span.badge { "revoked" } " " span.faint { (ago(at, now)) } }
            (None, Some(at)) if at <= now => { span.badge { "expired" } " " span.faint { (ago(at, now)) } }
            (None, Some(at)) => { span.badge.good { "valid" } " " span.faint { "until " (ago(at, now)) } }
            (None, None) => span.badge.good { "valid" },
        }
    }
}

/// All where nothing narrows it.
fn listed<T: ToString>(words: Option<&[T]>) -> Markup {
    html! {
        @match words {
            Some(words) => (isolated(&words.iter().map(T::to_string).collect::<Vec<_>>().join(", "))),
            None => span.faint { "all" },
        }
    }
}

fn make_key(who: &Visitor) -> Markup {
    let roles = [("worker", "worker"), ("tenant", "tenant"), ("operator", "operator"), ("admin", "admin")];
    let form = html! {
        p.muted {
            "A worker reports and leases runs; a tenant reads and triages its own runs; an operator acts for all tenants and in bulk; an admin also manages keys and queues. Scopes and queues narrow it: "
            (KeyScope::ALL.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")) "."
        }
        div.grid {
            (choice("role", "Role", &roles, "worker"))
            (field("tenant", "Tenant (* spans all)", "", "default"))
            (field("name", "Name", "", "billing-worker"))
            (field("note", "Note", "", "who uses it"))
            (field("scopes", "Scopes (commas; empty: all of the role)", "", "ingest,lease"))
            (field("queues", "Queues (commas; empty: all)", "", "invoices"))
            label.field { span { "Expires (UTC; empty: never)" } input type="datetime-local" name="expires_at"; }
        }
        button { "Create key" }
    };
    panel("make", "New key", &html! {}, &html! { div.body { (post_form("/settings/keys", who.csrf(), &form)) } })
}

fn links_of(data: &TenantLinks, who: &Visitor, now: Timestamp) -> Markup {
    let body = html! {
        div.body {
            p.muted {
                "A link logs a browser in once, as the tenant, and its session ends with it. Without a setting no other site may show it inside its pages."
            }
            (post_form("/settings/portal-links", who.csrf(), &html! {
                div.grid {
                    (field("tenant", "Tenant", data.tenant.as_str(), "default"))
                    (field("minutes", "Minutes (at most 1440)", "60", "60"))
                }
                button { "Create link" }
            }))
            form method="get" action="/settings" {
                (field("tenant", "Links of tenant", data.tenant.as_str(), "default"))
                button { "Show" }
            }
        }
        @if !data.links.is_empty() { div.scroll { table {
            thead { tr {
                th { "Link" } th { "Created" } th.wide { "By" } th { "Opened" } th { "State" } th { span.faint { "Action" } }
            } }
            tbody { @for link in &data.links { tr {
                td.mono { (link.id) }
                td.muted { (ago(link.created_at, now)) }
                td.wide { (isolated(link.created_by.as_str())) }
                td { @match link.used_at { Some(at) => (ago(at, now)), None => "no" } }
                td { @match link.revoked_at {
                    Some(at) => { span.badge { "revoked" } " " span.faint { (ago(at, now)) } }
                    None if link.expires_at <= now => span.badge { "ended" },
                    None => { span.badge.good { "valid" } " " span.faint { "until " (ago(link.expires_at, now)) } }
                } }
                td.act { @if link.revoked_at.is_none() && link.expires_at > now {
                    (post_form(&format!("/settings/portal-links/{}/revoke", link.id), who.csrf(), &html! {
                        (hidden("tenant", link.tenant.as_str()))
                        button.danger aria-label=(format!("revoke {}", link.id)) { "Revoke" }
                    }))
                } }
            } } }
        } } }
    };
    panel("links", "Portal links", &html! { (isolated(data.tenant.as_str())) }, &body)
}

pub(crate) async fn create(app: App, visit: PageRequest, form: Form) -> Result<FormResult> {
    let role = form.one("role").and_then(|word| word.parse::<Role>().ok());
    let role = role.ok_or_else(|| HttpProblem::invalid_field("role", "must be worker, tenant, operator or admin"))?;
    let request = CreateKey {
        role,
        tenant: form.label("tenant"),
        name: form.label("name"),
        note: form.label("note"),
        scopes: comma_list(&form, "scopes", "must be scopes, separated by commas")?,
        queues: comma_list(&form, "queues", "must be queues, separated by commas")?,
        expires_at: form.time("expires_at")?,
    };
    let made = keys::make(&app, &visit.who, request).await?;
    let about = format!("{} · {} · tenant {}", made.id, made.role, made.tenant);
    show_made(&app, &visit, None, MadeSecret { title: "New key, shown only once:", secret: made.key, about }).await
}

/// None for an empty field.
fn comma_list<T: std::str::FromStr>(form: &Form, name: &str, must: &str) -> Result<Option<Vec<T>>> {
    let Some(text) = form.one(name) else { return Ok(None) };
    let words = text.split(',').map(|word| word.trim().parse());
    words.collect::<std::result::Result<_, _>>().map(Some).map_err(|_| HttpProblem::invalid_field(name, must))
}

/// The old key ends at once; the API and the command line offer an overlap.
pub(crate) async fn rotate(app: App, visit: PageRequest<ServerId>, _: Form) -> Result<FormResult> {
    let PageRequest { who, path, now, .. } = visit;
    let made = keys::rotate_one(&app, &who, path.0, 0).await?;
    let about = format!("{} · replaces {}", made.id, made.replaces);
    let made = MadeSecret { title: "New key, shown only once:", secret: made.key, about };
    let data = SettingsData::read(&app, &who, None, Some(made)).await?;
    Ok(FormResult::Show(content(&who, &data, now)))
}

async fn show_made(app: &App, visit: &PageRequest, tenant: Option<Tenant>, made: MadeSecret) -> Result<FormResult> {
    let data = SettingsData::read(app, &visit.who, tenant, Some(made)).await?;
    Ok(FormResult::Show(content(&visit.who, &data, visit.now)))
}

pub(crate) async fn revoke(app: App, visit: PageRequest<ServerId>, _: Form) -> Result<FormResult> {
    keys::revoke_one(&app, &visit.who, visit.path.0).await?;
    Ok(FormResult::Go { to: "/settings".into(), done: Notice::Revoked })
}

pub(crate) async fn make_link(app: App, visit: PageRequest, form: Form) -> Result<FormResult> {
    let tenant: Tenant = form.id("tenant")?.unwrap_or_else(Tenant::default_tenant);
    let minutes: Option<u64> = form.number("minutes")?;
    let expires_ms = minutes.map(|minutes| minutes.saturating_mul(MINUTE_MS));
    if expires_ms.is_some_and(|ms| !(PORTAL_MS_MIN..=PORTAL_MS_MAX).contains(&ms)) {
        return Err(HttpProblem::invalid_field("minutes", "must be from 1 to 1440"));
    }
    let request = CreatePortalLink { tenant: tenant.clone(), expires_ms };
    let made = portal_links::make(&app, &visit.who, request, &visit.headers).await?;
    let about = format!("{} · tenant {tenant}", made.id);
    let made = MadeSecret { title: "New portal link, shown only once:", secret: made.url, about };
    show_made(&app, &visit, Some(tenant), made).await
}

pub(crate) async fn revoke_link(app: App, visit: PageRequest<ServerId>, form: Form) -> Result<FormResult> {
    portal_links::revoke_one(&app, &visit.who, &visit.path.0).await?;
    let tenant: Tenant = form.id("tenant")?.unwrap_or_else(Tenant::default_tenant);
    Ok(FormResult::Go { to: links::with("/settings", [("tenant", tenant.as_str())]), done: Notice::LinkRevoked })
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
    let mut error = ErrorReport {
        error_type: form.text("error_type"),
        message: text,
        detail: None,
        http_status: form.number("http_status")?,
        headers: Default::default(),
        reason: None,
        category: None,
        terminal: false,
    };
    redaction::error_report(&mut error);
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
