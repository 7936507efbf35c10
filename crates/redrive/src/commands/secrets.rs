//! `redrive secrets`: encryption at rest. Works on the store itself, beside running servers; they do the re-sealing.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Subcommand;
use redrive_core::ids::Tenant;
use redrive_core::time::Timestamp;
use redrive_engine::MasterKey;
use redrive_store::SecretsStatus;
use serde::Serialize;

use crate::commands::now;
use crate::commands::offline::{self, OfflineStore};
use crate::config::{StorePlace, read_master_key};
use crate::failure::UsageError;
use crate::out::{Printer, TextTable, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show whether the store is encrypted, under which keys, and what is left to seal
    Status(SecretsStatusArgs),
    /// Wrap all data keys with a new master key, then put it into [encryption]
    RotateMaster(RotateMasterArgs),
    /// Give a tenant, or all, a new data key; servers re-seal what is stored
    RotateTenant(RotateTenantArgs),
}

#[derive(Debug, clap::Args)]
struct SecretsPlace {
    #[command(flatten)]
    store: StorePlace,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl SecretsPlace {
    fn open(&self) -> anyhow::Result<OfflineStore> {
        offline::open(&self.store.find()?)
    }

    /// The configured master key.
    fn master_key(&self) -> anyhow::Result<MasterKey> {
        let key = self.store.config.read()?.encryption.master_key()?;
        key.ok_or_else(|| anyhow!("no master key is configured: name the file with [encryption] by --config"))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct SecretsStatusArgs {
    #[command(flatten)]
    place: SecretsPlace,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RotateMasterArgs {
    /// A file with the new master key: 32 bytes, as 64 hexadecimal digits or in base64
    #[arg(long, value_name = "FILE")]
    new_key_file: PathBuf,
    #[command(flatten)]
    place: SecretsPlace,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RotateTenantArgs {
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    tenant: Option<Tenant>,
    /// Every tenant
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: SecretsPlace,
}

pub(crate) fn run(command: &Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::Status(args) => status(args, out),
        Command::RotateMaster(args) => rotate_master(args, out),
        Command::RotateTenant(args) => rotate_tenant(args, out),
    }
}

/// How many values are stored how.
#[derive(Debug, Default, Serialize)]
struct ValueCounts {
    active: u64,
    retired: u64,
    clear: u64,
}

#[derive(Debug, Serialize)]
struct ColumnCounts {
    table: &'static str,
    column: &'static str,
    #[serde(flatten)]
    counts: ValueCounts,
}

/// The pass that brings values under the active keys.
#[derive(Debug, Serialize)]
struct PassView {
    began_at: Timestamp,
    table: usize,
    tables: usize,
    resealed: u64,
    unreadable: u64,
}

#[derive(Debug, Default, Serialize)]
struct SecretsView {
    encrypted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    master_key_id: Option<String>,
    active_keys: u64,
    retired_keys: u64,
    /// Over all columns.
    values: ValueCounts,
    columns: Vec<ColumnCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<PassView>,
    /// Of the last pass.
    unreadable: u64,
}

impl From<SecretsStatus> for SecretsView {
    fn from(status: SecretsStatus) -> Self {
        let mut values = ValueCounts::default();
        let columns = status.values.into_iter().map(|column| {
            values.active += column.active;
            values.retired += column.retired;
            values.clear += column.clear;
            let counts = ValueCounts { active: column.active, retired: column.retired, clear: column.clear };
            ColumnCounts { table: column.table, column: column.column, counts }
        });
        let (state, columns) = (status.state, columns.collect());
        let pass = state.pass_from.map(|began_at| PassView {
            began_at,
            table: state.table,
            tables: status.tables,
            resealed: state.resealed,
            unreadable: state.unreadable,
        });
        Self {
            encrypted: true,
            master_key_id: Some(status.master_key_id),
            active_keys: status.active_keys,
            retired_keys: status.retired_keys,
            values,
            columns,
            pass,
            unreadable: state.unreadable,
        }
    }
}

fn status(args: &SecretsStatusArgs, out: &mut Printer) -> anyhow::Result<()> {
    let view = args.place.open()?.secrets()?.map(SecretsView::from).unwrap_or_default();
    if args.place.json {
        return Ok(out.json(&serde_json::to_string(&view)?)?);
    }
    let Some(master_key_id) = &view.master_key_id else {
        return Ok(out.line("not encrypted: payloads are stored in clear text")?);
    };
    out.line(format_args!(
        "encrypted, master key {master_key_id}; {} active and {} retired data keys",
        view.active_keys, view.retired_keys
    ))?;
    match &view.pass {
        Some(pass) => out.line(format_args!(
            "re-sealing since {}: table {} of {}, {} values so far",
            relative(pass.began_at, now()),
            pass.table + 1,
            pass.tables,
            pass.resealed
        ))?,
        None if view.values.retired + view.values.clear > 0 => {
            out.line("values are left to re-seal: a running server begins within about a minute")?;
        }
        None => out.line("every value is under an active key")?,
    }
    if view.unreadable > 0 {
        out.line(format_args!("{} values can't be opened: the server's log names them", view.unreadable))?;
    }
    let mut table = TextTable::new(["TABLE", "COLUMN", "ACTIVE KEY", "RETIRED KEY", "IN CLEAR"]);
    for ColumnCounts { table: name, column, counts } in view.columns {
        let [active, retired, clear] = [counts.active, counts.retired, counts.clear].map(|count| count.to_string());
        table.row([name.to_owned(), column.to_owned(), active, retired, clear]);
    }
    Ok(out.table(table)?)
}

#[derive(Debug, Serialize)]
struct RotatedKeys {
    rotated: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    master_key_id: Option<String>,
}

fn rotate_master(args: &RotateMasterArgs, out: &mut Printer) -> anyhow::Result<()> {
    let (old, new) = (args.place.master_key()?, read_master_key(&args.new_key_file)?);
    if old.id() == new.id() {
        return Err(UsageError::new("--new-key-file holds the configured master key").into());
    }
    let rotated = args.place.open()?.rotate_master(&old, &new)?;
    if args.place.json {
        let answer = RotatedKeys { rotated, master_key_id: Some(new.id().to_owned()) };
        return Ok(out.json(&serde_json::to_string(&answer)?)?);
    }
    out.line(format_args!("{rotated} data keys are wrapped by master key {}", new.id()))?;
    Ok(out.line(
        "Put it into [encryption] now: servers read it again when they need it, and refuse to start with the old one.",
    )?)
}

fn rotate_tenant(args: &RotateTenantArgs, out: &mut Printer) -> anyhow::Result<()> {
    let master = args.place.master_key()?;
    let rotated = args.place.open()?.rotate_tenants(&master, args.tenant.as_ref())?;
    if args.place.json {
        return Ok(out.json(&serde_json::to_string(&RotatedKeys { rotated, master_key_id: None })?)?);
    }
    match rotated {
        0 => Ok(out.line("no data key yet: nothing of it was sealed so far")?),
        _ => Ok(out.line(format_args!(
            "{rotated} new data keys. Servers begin to re-seal in about a minute: redrive secrets status"
        ))?),
    }
}
