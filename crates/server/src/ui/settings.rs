//! `/settings`: the tester for everybody; keys for admins.

use maud::{Markup, html};
use redrive_core::wire::{CreateKey, CreatedKey, KeyView, Role};

use super::components::{ago, choice, field, head, panel, post_form, said};
use super::flash::Done;
use super::form::Form;
use super::layout::Tab;
use super::page::{Next, Sheet, Visit};
use super::tester;
use crate::api::v1::keys;
use crate::app::App;
use crate::auth::Visitor;
use crate::path::Named;
use crate::problem::{Problem, Result};

pub(crate) async fn get(app: App, visit: Visit) -> Result<Sheet> {
    let keys = if visit.who.is_admin() { Some(keys::all(&app).await?) } else { None };
    Ok(sheet(&visit, keys.as_deref(), &tester::ask(&visit.who, &Form::default()), None))
}

/// What the classifier makes of a pasted error.
pub(crate) async fn test(app: App, visit: Visit, form: Form) -> Result<Next> {
    let answer = tester::answer(&app, &visit.who, &form, visit.now).await?;
    let main = html! {
        (head(&html! { "What Redrive makes of it" }, &html! { "Nothing is stored." }, &html! { a.button href="/settings" { "Settings" } }))
        div.cols { (answer) (tester::ask(&visit.who, &form)) }
    };
    Ok(Next::Show(Sheet::new("Tester", Tab::Settings, main)))
}

fn sheet(visit: &Visit, keys: Option<&[KeyView]>, tester: &Markup, made: Option<&CreatedKey>) -> Sheet {
    let headline = html! { "You are " (visit.who.role()) @match visit.who.own_tenant() { Some(own) => { " of " (said(own.as_str())) } None => ", over all tenants" } "." };
    let main = html! {
        (head(&headline, &html! { "Paste an error to see what would be made of it"  @if keys.is_some() { ", or look after the keys" } "." }, &html! {}))
        @if let Some(made) = made { (secret(made)) }
        (tester)
        @if let Some(keys) = keys { (table(keys, visit)) (make_key(&visit.who)) }
    };
    Sheet::new("Settings", Tab::Settings, main)
}

/// Shown once: it is kept nowhere.
fn secret(made: &CreatedKey) -> Markup {
    html! {
        section.panel.notice role="status" {
            p { b { "The new key, shown this once:" } }
            pre id="secret" tabindex="0" { (made.key) }
            p.muted { (made.id) " · " (made.role) " · tenant " (said(&made.tenant)) }
        }
    }
}

fn table(keys: &[KeyView], visit: &Visit) -> Markup {
    let body = html! { div.scroll { table {
        thead { tr { th { "Key" } th { "Role" } th { "Tenant" } th.wide { "Note" } th.num.wide { "Made" } th { "State" } th { span.faint { "Next" } } } }
        tbody { @for key in keys { tr {
            td.mono { (key.id) }
            td { (key.role) }
            td { (said(&key.tenant)) }
            td.wide { @if let Some(note) = &key.note { (said(note.as_str())) } }
            td.num.wide.muted { (ago(key.created_at, visit.now)) }
            td { @match (key.revoked_at, key.expires_at) {
                (Some(at), _) => { span.badge { "revoked" } " " span.faint { (ago(at, visit.now)) } }
                (None, Some(at)) => { span.badge.good { "valid" } " " span.faint { "until " (ago(at, visit.now)) } }
                (None, None) => span.badge.good { "valid" },
            } }
            td.act { @if key.revoked_at.is_none() {
                (post_form(&format!("/settings/keys/{}/revoke", key.id), visit.who.csrf(), &html! { button.danger aria-label=(format!("revoke {}", key.id)) { "Revoke" } }))
            } }
        } } }
    } } };
    panel("keys", "Keys", &html! { (keys.len()) }, &body)
}

fn make_key(who: &Visitor) -> Markup {
    let roles = [("worker", "worker"), ("tenant", "tenant"), ("operator", "operator"), ("admin", "admin")];
    let form = html! {
        p.muted { "A worker reports and leases; a tenant reads and triages its own; an operator acts for all tenants and in bulk; an admin also looks after keys and queues." }
        div.grid {
            (choice("role", "Role", &roles, "worker"))
            (field("tenant", "Tenant (* spans all)", "", "default"))
            (field("note", "Note", "", "who has it"))
            label.field { span { "Expires (UTC; empty: never)" } input type="datetime-local" name="expires_at"; }
        }
        button { "Make a key" }
    };
    panel("make", "A new key", &html! {}, &html! { div.body { (post_form("/settings/keys", who.csrf(), &form)) } })
}

pub(crate) async fn create(app: App, visit: Visit, form: Form) -> Result<Next> {
    let role = form.one("role").and_then(|word| word.parse::<Role>().ok());
    let role = role.ok_or_else(|| Problem::invalid_field("role", "must be worker, tenant, operator or admin"))?;
    let request = CreateKey {
        role,
        tenant: form.label("tenant"),
        note: form.label("note"),
        expires_at: form.time("expires_at")?,
    };
    let made = keys::make(&app, request).await?;
    let all = keys::all(&app).await?;
    let tester = tester::ask(&visit.who, &Form::default());
    Ok(Next::Show(sheet(&visit, Some(&all), &tester, Some(&made))))
}

pub(crate) async fn revoke(app: App, visit: Visit<Named>, _: Form) -> Result<Next> {
    keys::revoke_one(&app, visit.path.0).await?;
    Ok(Next::Go { to: "/settings".into(), done: Done::Revoked })
}
