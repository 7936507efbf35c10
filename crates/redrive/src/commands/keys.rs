//! `redrive keys`: works on the store itself, so it needs no key and no running server. A running server sees the change
//! within a second.

use clap::Subcommand;
use redrive_core::access::{KEY_QUEUES_MAX, KeyLimits, KeyScope};
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::text::Label;
use redrive_core::wire::bounds::KEY_OVERLAP_MS_MAX;
use redrive_core::wire::{CreatedKey, KeyView, KeysAnswer, Role, RotatedKey};
use redrive_engine::{KeyRecord, KeyRotation, RotatedRecord, SystemDice};
use redrive_server::auth;

use crate::args::{When, word};
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
    /// Replace a key by a new one with the same rights
    Rotate(RotateArgs),
    /// Revoke keys
    Revoke(RevokeArgs),
}

/// Who acts, in the key's record.
const ACTOR: &str = redrive_engine::audit::CLI;

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
    /// What it is called in lists
    #[arg(long)]
    name: Option<String>,
    /// Note on its purpose
    #[arg(long)]
    note: Option<String>,
    /// What it may do; repeat it or separate by commas [default: all that the role may do]
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', value_parser = word(KeyScope::ALL, KeyScope::as_str))]
    scopes: Vec<KeyScope>,
    /// A queue that it may touch; repeat it or separate by commas [default: every queue]
    #[arg(long = "queue", value_name = "QUEUE", value_delimiter = ',')]
    queues: Vec<QueueName>,
    /// When it expires: a time, or a distance such as 90d
    #[arg(long, value_name = "WHEN", alias = "expires-at")]
    expires: Option<When>,
    #[command(flatten)]
    place: KeyStoreArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeyListArgs {
    #[command(flatten)]
    place: KeyStoreArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RotateArgs {
    #[arg(value_name = "KEY_ID")]
    id: String,
    /// How long the old key works beside the new one, such as 1h; at most 30d [default: it ends at once]
    #[arg(long, value_name = "DURATION")]
    overlap: Option<When>,
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
        Command::Rotate(args) => rotate(args, out),
        Command::Revoke(args) => revoke(args, out),
    }
}

fn create(args: &KeyCreateArgs, out: &mut Printer) -> anyhow::Result<()> {
    let tenant = tenant_of(args.role, args.tenant.as_deref())?;
    if args.queues.len() > KEY_QUEUES_MAX {
        return Err(UsageError::new(format!("--queue: at most {KEY_QUEUES_MAX}")).into());
    }
    let mut store = args.place.open()?;
    let now = store.now()?;
    let expires_at = args.expires.map(|when| when.ahead_of(now));
    if expires_at.is_some_and(|at| at <= now) {
        return Err(UsageError::new("--expires is in the past").into());
    }
    let (secret, record) = auth::new_key(&SystemDice, args.role, tenant, now);
    let record = KeyRecord {
        name: args.name.as_deref().map(Label::from),
        note: args.note.as_deref().map(Label::from),
        limits: KeyLimits {
            scopes: (!args.scopes.is_empty()).then(|| args.scopes.iter().copied().collect()),
            queues: (!args.queues.is_empty()).then(|| args.queues.iter().cloned().collect()),
        },
        created_by: Some(ACTOR.into()),
        expires_at,
        ..record
    };
    store.put_key(&record)?;
    let view = KeyView::from(record);
    let created = CreatedKey { id: view.id, key: secret, role: view.role, tenant: view.tenant };
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
    let keys: Vec<KeyView> = store.keys()?.into_iter().map(KeyView::from).collect();
    if args.place.json {
        return Ok(out.json(&serde_json::to_string(&KeysAnswer { keys })?)?);
    }
    let mut table =
        TextTable::new(["KEY", "NAME", "ROLE", "TENANT", "SCOPES", "QUEUES", "STATE", "CREATED", "LAST USED", "NOTE"]);
    for key in keys {
        let state = match (key.revoked_at, key.expires_at) {
            (Some(at), _) => format!("revoked {}", relative(at, now())),
            (None, Some(at)) if at <= now() => format!("expired {}", relative(at, now())),
            (None, Some(at)) => format!("good, expires {}", relative(at, now())),
            (None, None) => "good".into(),
        };
        let created = relative(key.created_at, now());
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), |at| relative(at, now()));
        let (role, scopes, queues) = (key.role.to_string(), listed(key.scopes), listed(key.queues));
        let (name, note) = (or_dash(key.name), or_dash(key.note));
        table.row([key.id, name, role, key.tenant, scopes, queues, state, created, used, note]);
    }
    Ok(out.table(table)?)
}

/// All where nothing narrows it.
fn listed<T: ToString>(words: Option<Vec<T>>) -> String {
    words.map_or_else(|| "all".to_owned(), |words| words.iter().map(T::to_string).collect::<Vec<_>>().join(","))
}

fn rotate(args: RotateArgs, out: &mut Printer) -> anyhow::Result<()> {
    let overlap_ms = match args.overlap {
        None => 0,
        Some(When::Ago(ms)) if ms <= KEY_OVERLAP_MS_MAX => ms,
        Some(When::Ago(_) | When::At(_)) => {
            return Err(UsageError::new("--overlap is a duration of at most 30d, such as 1h").into());
        }
    };
    let (key, new_hash) = auth::new_secret(&SystemDice);
    let new_id = auth::new_id(&SystemDice, "key");
    let rotation = KeyRotation { id: args.id, new_id, new_hash, overlap_ms, actor: ACTOR.into() };
    let RotatedRecord { successor, replaced_until } = args.place.open()?.rotate_key(&rotation)?;
    let (replaces, expires_at) = (rotation.id, successor.expires_at);
    let rotated = RotatedKey { id: successor.id, key, replaces, replaced_until, expires_at };
    if args.place.json {
        return Ok(out.json(&serde_json::to_string(&rotated)?)?);
    }
    out.line(&rotated.key)?;
    Ok(out.line(format_args!(
        "(key {} replaces {}, which works until {replaced_until}; the new one is not shown again)",
        rotated.id, rotated.replaces
    ))?)
}

fn revoke(args: RevokeArgs, out: &mut Printer) -> anyhow::Result<()> {
    let mut store = args.place.open()?;
    let mut unknown = Vec::new();
    for id in args.ids {
        store.revoke_key(&id)?;
        match store.keys()?.into_iter().find(|key| key.id == id) {
            Some(key) if args.place.json => out.json(&serde_json::to_string(&KeyView::from(key))?)?,
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
