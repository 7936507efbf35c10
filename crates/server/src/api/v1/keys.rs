//! `/v1/keys`: made, listed, rotated and revoked by admins. A secret is shown once, in the answer that makes it.

use redrive_core::access::{KEY_QUEUES_MAX, KeyLimits, KeyScope};
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::text::Label;
use redrive_core::wire::{CreateKey, CreatedKey, KeyView, KeysAnswer, Role, RotateKey, RotatedKey};
use redrive_engine::{KeyRecord, KeyRotation, RotatedRecord};

use crate::app::App;
use crate::auth::{Admin, Principal, new_id, new_key, new_secret};
use crate::body::{Json, OptionalJson};
use crate::call::{ApiCall, Reply};
use crate::path::ServerId;
use crate::problem::{HttpProblem, Result};
use crate::query::NoQuery;

const ALL_TENANTS: &str = "*";

pub(crate) async fn list(app: App, _: ApiCall<Admin>) -> Result<Reply<KeysAnswer>> {
    Ok(Reply::ok(KeysAnswer { keys: all(&app).await? }))
}

pub(crate) async fn all(app: &App) -> Result<Vec<KeyView>> {
    Ok(app.store.keys().await?.into_iter().map(KeyView::from).collect())
}

pub(crate) async fn create(app: App, call: ApiCall<Admin, (), NoQuery, Json<CreateKey>>) -> Result<Reply<CreatedKey>> {
    Ok(Reply::new(make(&app, &call.who, call.body.value).await?, true))
}

/// Only this answer contains the secret.
pub(crate) async fn make(app: &App, who: &Principal, request: CreateKey) -> Result<CreatedKey> {
    let CreateKey { role, tenant, name, note, scopes, queues, expires_at } = request;
    let now = app.store.now();
    if expires_at.is_some_and(|at| at <= now) {
        return Err(HttpProblem::invalid_field("expires_at", "must be in the future"));
    }
    let limits = limits_of(scopes, queues)?;
    let tenant = tenant_of(role, tenant.as_ref().map(Label::as_str))?;
    let (secret, record) = new_key(app.dice.as_ref(), role, tenant, now);
    let created_by = Some(Label::from(who.actor().name.as_str()));
    let record = KeyRecord { name, note, limits, created_by, expires_at, ..record };
    let created = CreatedKey { id: record.id.clone(), key: secret, role, tenant: tenant_word(record.tenant.as_ref()) };
    app.store.put_key(record, who.actor()).await?;
    Ok(created)
}

/// An empty list is a mistake: it would read as all.
fn limits_of(scopes: Option<Vec<KeyScope>>, queues: Option<Vec<QueueName>>) -> Result<KeyLimits> {
    let empty = |field| HttpProblem::invalid_field(field, "must not be empty: leave it out for all");
    if scopes.as_ref().is_some_and(Vec::is_empty) {
        return Err(empty("scopes"));
    }
    if queues.as_ref().is_some_and(Vec::is_empty) {
        return Err(empty("queues"));
    }
    let limits = KeyLimits {
        scopes: scopes.map(|scopes| scopes.into_iter().collect()),
        queues: queues.map(|queues| queues.into_iter().collect()),
    };
    if limits.queues.as_ref().is_some_and(|queues| queues.len() > KEY_QUEUES_MAX) {
        return Err(HttpProblem::invalid_field("queues", format_args!("must be at most {KEY_QUEUES_MAX}")));
    }
    Ok(limits)
}

pub(crate) async fn rotate(
    app: App,
    call: ApiCall<Admin, ServerId, NoQuery, OptionalJson<RotateKey>>,
) -> Result<Reply<RotatedKey>> {
    Ok(Reply::new(rotate_one(&app, &call.who, call.path.0, call.body.0.overlap_ms).await?, true))
}

/// Only this answer contains the secret.
pub(crate) async fn rotate_one(app: &App, who: &Principal, id: String, overlap_ms: u64) -> Result<RotatedKey> {
    let (key, new_hash) = new_secret(app.dice.as_ref());
    let new_id = new_id(app.dice.as_ref(), "key");
    let rotation = KeyRotation { id: id.clone(), new_id, new_hash, overlap_ms, actor: who.actor() };
    let RotatedRecord { successor, replaced_until } = app.store.rotate_key(rotation).await?;
    app.keyring.forget();
    Ok(RotatedKey { id: successor.id, key, replaces: id, replaced_until, expires_at: successor.expires_at })
}

pub(crate) async fn revoke(app: App, call: ApiCall<Admin, ServerId>) -> Result<Reply<KeyView>> {
    Ok(Reply::ok(revoke_one(&app, &call.who, call.path.0).await?))
}

pub(crate) async fn revoke_one(app: &App, who: &Principal, id: String) -> Result<KeyView> {
    let known = app.store.revoke_key(&id, who.actor()).await?;
    app.keyring.forget();
    let revoked = app.store.keys().await?.into_iter().find(|key| known && key.id == id);
    let key = revoked.ok_or(redrive_engine::Error::NotFound("key"))?;
    Ok(key.into())
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
