//! `redrive keys`: works on the store itself, so it needs no key and no running server. A running server sees the change
//! within a second.

use clap::Subcommand;
use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CreatedKey, KeyView, KeysAnswer, Role};
use redrive_engine::{KeyRecord, SystemDice};
use redrive_server::auth;

use crate::args::word;
use crate::commands::now;
use crate::commands::offline::{self, OfflineStore};
use crate::config::StorePlace;
use crate::failure::UsageError;
use crate::out::{Printer, TextTable, or_dash, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a key and print it once
    Create(KeyCreateArgs),
    /// List keys, without their secrets
    List(KeyListArgs),
    /// Revoke keys
    Revoke(RevokeArgs),
}

#[derive(Debug, clap::Args)]
struct KeyStoreArgs {
    #[command(flatten)]
    store: StorePlace,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl KeyStoreArgs {
    fn open(&self) -> anyhow::Result<OfflineStore> {
        offline::open(&self.store.find()?)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeyCreateArgs {
    /// worker: report and lease; tenant: also read and triage its own runs; operator: the same for all tenants;
    /// admin: also manage queues and keys
    #[arg(long, value_parser = word(Role::ALL, Role::as_str))]
    role: Role,
    /// The tenant whose runs it sees; '*' for all. Operators and admins always see all [default: default]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Note on its purpose
    #[arg(long)]
    note: Option<String>,
    /// When it expires
    #[arg(long, value_name = "TIME")]
    expires_at: Option<Timestamp>,
    #[command(flatten)]
    place: KeyStoreArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeyListArgs {
    #[command(flatten)]
    place: KeyStoreArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    #[arg(required = true, value_name = "KEY_ID")]
    ids: Vec<String>,
    #[command(flatten)]
    place: KeyStoreArgs,
}

pub(crate) fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::Create(args) => create(&args, out),
        Command::List(args) => list(&args, out),
        Command::Revoke(args) => revoke(args, out),
    }
}

fn create(args: &KeyCreateArgs, out: &mut Printer) -> anyhow::Result<()> {
    let tenant = tenant_of(args.role, args.tenant.as_deref())?;
    if args.expires_at.is_some_and(|at| at <= now()) {
        return Err(UsageError::new("--expires-at is in the past").into());
    }
    let mut store = args.place.open()?;
    let note = args.note.as_deref().map(Label::from);
    let (secret, record) = auth::new_key(&SystemDice, args.role, tenant, note, args.expires_at, store.now()?);
    store.put_key(&record)?;
    let created = CreatedKey { id: record.id.clone(), key: secret, role: record.role, tenant: tenant_word(&record) };
    if args.place.json {
        return Ok(out.json(&serde_json::to_string(&created)?)?);
    }
    out.line(&created.key)?;
    Ok(out.line(format_args!(
        "({} key {}, tenant {}; it is not shown again)",
        created.role, created.id, created.tenant
    ))?)
}

fn list(args: &KeyListArgs, out: &mut Printer) -> anyhow::Result<()> {
    let mut store = args.place.open()?;
    let keys: Vec<KeyView> = store.keys()?.into_iter().map(view).collect();
    if args.place.json {
        return Ok(out.json(&serde_json::to_string(&KeysAnswer { keys })?)?);
    }
    let mut table = TextTable::new(["KEY", "ROLE", "TENANT", "STATE", "CREATED", "NOTE"]);
    for key in keys {
        let state = match (key.revoked_at, key.expires_at) {
            (Some(at), _) => format!("revoked {}", relative(at, now())),
            (None, Some(at)) if at <= now() => format!("expired {}", relative(at, now())),
            (None, Some(at)) => format!("good, expires {}", relative(at, now())),
            (None, None) => "good".into(),
        };
        let created = relative(key.created_at, now());
        table.row([key.id, key.role.to_string(), key.tenant, state, created, or_dash(key.note)]);
    }
    Ok(out.table(table)?)
}

fn revoke(args: RevokeArgs, out: &mut Printer) -> anyhow::Result<()> {
    let mut store = args.place.open()?;
    let mut unknown = Vec::new();
    for id in args.ids {
        store.revoke_key(&id)?;
        match store.keys()?.into_iter().find(|key| key.id == id) {
            Some(key) if args.place.json => out.json(&serde_json::to_string(&view(key))?)?,
            Some(_) => out.line(format_args!("revoked {id}"))?,
            None => unknown.push(id),
        }
    }
    anyhow::ensure!(unknown.is_empty(), "no such key: {}", unknown.join(", "));
    Ok(())
}

fn tenant_of(role: Role, named: Option<&str>) -> anyhow::Result<Option<Tenant>> {
    match (role, named) {
        (_, Some("*")) | (Role::Operator | Role::Admin, None) => Ok(None),
        (Role::Operator | Role::Admin, Some(_)) => {
            Err(UsageError::new(format!("a key of role {role} spans all tenants: leave --tenant out")).into())
        }
        (Role::Worker | Role::Tenant, None) => Ok(Some(Tenant::default_tenant())),
        (Role::Worker | Role::Tenant, Some(name)) => {
            Ok(Some(name.parse().map_err(|bad| UsageError::new(format!("--tenant {name}: {bad}")))?))
        }
    }
}

fn tenant_word(key: &KeyRecord) -> String {
    key.tenant.as_ref().map_or_else(|| "*".into(), ToString::to_string)
}

fn view(key: KeyRecord) -> KeyView {
    let tenant = tenant_word(&key);
    let KeyRecord { id, role, note, created_at, expires_at, revoked_at, .. } = key;
    KeyView { id, role, tenant, note, created_at, expires_at, revoked_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_without_tenant_gets_the_default_tenant_unless_cross_tenant() {
        let default = Some(Tenant::default_tenant());
        assert_eq!(tenant_of(Role::Worker, None).unwrap(), default);
        assert_eq!(tenant_of(Role::Worker, Some("*")).unwrap(), None);
        assert_eq!(tenant_of(Role::Admin, None).unwrap(), None);
        assert!(tenant_of(Role::Operator, Some("acme")).unwrap_err().is::<UsageError>());
        assert!(tenant_of(Role::Tenant, Some("a b")).unwrap_err().is::<UsageError>());
    }
}
