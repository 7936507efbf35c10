//! `/v1/keys`: made, listed and revoked by admins. A secret is shown once, in the answer that makes it.

use redrive_core::ids::Tenant;
use redrive_core::wire::{CreateKey, CreatedKey, KeyView, KeysAnswer, Role};
use redrive_engine::KeyRecord;

use crate::app::App;
use crate::auth::{Admin, new_key};
use crate::body::Json;
use crate::call::{ApiCall, Reply};
use crate::path::ServerId;
use crate::problem::{HttpProblem, Result};
use crate::query::NoQuery;

const ALL_TENANTS: &str = "*";

pub(crate) async fn list(app: App, _: ApiCall<Admin>) -> Result<Reply<KeysAnswer>> {
    Ok(Reply::ok(KeysAnswer { keys: all(&app).await? }))
}

pub(crate) async fn all(app: &App) -> Result<Vec<KeyView>> {
    Ok(app.store.keys().await?.into_iter().map(view).collect())
}

pub(crate) async fn create(app: App, call: ApiCall<Admin, (), NoQuery, Json<CreateKey>>) -> Result<Reply<CreatedKey>> {
    Ok(Reply::new(make(&app, call.body.value).await?, true))
}

/// Only this answer contains the secret.
pub(crate) async fn make(app: &App, request: CreateKey) -> Result<CreatedKey> {
    let CreateKey { role, tenant, note, expires_at } = request;
    let now = app.store.now();
    if expires_at.is_some_and(|at| at <= now) {
        return Err(HttpProblem::invalid_field("expires_at", "must be in the future"));
    }
    let tenant = tenant_of(role, tenant.as_ref().map(redrive_core::text::Label::as_str))?;
    let (secret, record) = new_key(app.dice.as_ref(), role, tenant, note, expires_at, now);
    let created = CreatedKey { id: record.id.clone(), key: secret, role, tenant: tenant_word(record.tenant.as_ref()) };
    app.store.put_key(record).await?;
    Ok(created)
}

pub(crate) async fn revoke(app: App, call: ApiCall<Admin, ServerId>) -> Result<Reply<KeyView>> {
    Ok(Reply::ok(revoke_one(&app, call.path.0).await?))
}

pub(crate) async fn revoke_one(app: &App, id: String) -> Result<KeyView> {
    let known = app.store.revoke_key(&id).await?;
    app.keyring.forget();
    let revoked = app.store.keys().await?.into_iter().find(|key| known && key.id == id);
    let key = revoked.ok_or(redrive_engine::Error::NotFound("key"))?;
    Ok(view(key))
}

/// Absent is `default`; `*` spans all, as operators and admins always do.
fn tenant_of(role: Role, named: Option<&str>) -> Result<Option<Tenant>> {
    match (role, named) {
        (_, Some(ALL_TENANTS)) | (Role::Operator | Role::Admin, None) => Ok(None),
        (Role::Operator | Role::Admin, Some(_)) => {
            Err(HttpProblem::invalid_field("tenant", "must be absent or `*`: operators and admins span all tenants"))
        }
        (Role::Worker | Role::Tenant, None) => Ok(Some(Tenant::default_tenant())),
        (Role::Worker | Role::Tenant, Some(name)) => name.parse().map(Some).map_err(|_| HttpProblem::bad_id("tenant")),
    }
}

fn tenant_word(tenant: Option<&Tenant>) -> String {
    tenant.map_or(ALL_TENANTS, Tenant::as_str).to_owned()
}

fn view(key: KeyRecord) -> KeyView {
    let KeyRecord { id, lineage: _, hash: _, role, tenant, note, created_at, expires_at, revoked_at } = key;
    KeyView { id, role, tenant: tenant_word(tenant.as_ref()), note, created_at, expires_at, revoked_at }
}
