//! `redrive audit`: `list` asks a server; `verify` and `export` work on the store itself, beside a running server.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use redrive_client::AuditQuery;
use redrive_core::audit::{ChainPoint, Verified, ecs_line};
use redrive_core::ids::RunId;
use redrive_core::wire::AuditEntry;
use redrive_engine::Actor;
use redrive_engine::audit::{CLI, trim};
use redrive_store::audit_head;
use redrive_store::copy::StoreAddress;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::args::{Remote, When};
use crate::commands::{block_on, now, offline};
use crate::config::StorePlace;
use crate::escape;
use crate::out::{Printer, TextTable, or_dash, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List who did what, newest first
    List(Box<AuditListArgs>),
    /// Check the log for edits, insertions, deletions, reordering and truncation; exits with 1 at the first fault
    Verify(VerifyArgs),
    /// Write the whole log to a file: a JSON object per line, with ECS field names
    Export(ExportArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct AuditListArgs {
    /// From when: a time, or how long ago (2h, 7d)
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    /// Only acts of this actor, such as operator:key-1
    #[arg(long)]
    actor: Option<String>,
    /// Only this action, such as run.replay
    #[arg(long)]
    action: Option<String>,
    /// Only acts on this run
    #[arg(long, value_name = "RUN_ID")]
    run: Option<RunId>,
    /// Only this bulk operation and its items
    #[arg(long, value_name = "ID")]
    operation: Option<String>,
    /// How many entries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Continue where the previous page ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    place: StorePlace,
    /// The file with the heads that were kept outside the database [default: the configuration's, or the data folder's]
    #[arg(long, value_name = "FILE")]
    head: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    place: StorePlace,
    /// The file to write; it must not exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::List(args) => block_on(list(*args, out)),
        Command::Verify(args) => verify(&args, out),
        Command::Export(args) => export(&args, out),
    }
}

async fn list(args: AuditListArgs, out: &mut Printer) -> anyhow::Result<()> {
    let AuditListArgs { since, until, actor, action, run, operation, limit, cursor, remote } = args;
    let query = AuditQuery {
        since: since.map(|since| since.from(now())),
        until: until.map(|until| until.from(now())),
        actor,
        action,
        run: run.map(|run| run.as_str().to_owned()),
        operation,
        limit: Some(limit),
        cursor,
    };
    let call = remote.client()?.audit(&query);
    if remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let answer = call.await?;
    let mut table = TextTable::new(["WHEN", "ACTOR", "ACTION", "TENANT", "SUBJECT", "CHANGE", "REASON"]);
    for entry in answer.entries {
        let change = change(&entry);
        let reason = entry.reason.map(|reason| reason.decode().into_owned());
        let when = relative(entry.at, now());
        table.row([when, entry.actor, entry.action, or_dash(entry.tenant), entry.subject, change, or_dash(reason)]);
    }
    out.table(table)?;
    if let Some(cursor) = answer.next_cursor {
        out.line(format_args!("(more: --cursor {cursor})"))?;
    }
    Ok(())
}

/// From which state to which, where the act has changed it.
fn change(entry: &AuditEntry) -> String {
    let state = |object: Option<&redrive_core::wire::RawJson>| {
        let object: serde_json::Value = object.and_then(|object| serde_json::from_str(object.get()).ok())?;
        Some(object.get("state")?.as_str()?.to_owned())
    };
    match (state(entry.before.as_ref()), state(entry.after.as_ref())) {
        (Some(before), Some(after)) if before != after => format!("{before} → {after}"),
        (_, Some(after)) => after,
        (_, None) => "-".to_owned(),
    }
}

#[derive(Serialize)]
struct VerifyReport<'a> {
    intact: bool,
    entries: u64,
    head: Option<ChainPoint>,
    /// Positions outside the database that were compared.
    outside: u64,
    fault: Option<&'a str>,
}

fn verify(args: &VerifyArgs, out: &mut Printer) -> anyhow::Result<()> {
    let place = args.place.find()?;
    let file = head_file(args, &place)?;
    let outside = match &file {
        Some(file) => audit_head::read(file)?,
        None => Vec::new(),
    };
    let verified = offline::open(&place)?.verify_audit(outside, |_| Ok(()))?;
    if args.json {
        let fault = verified.as_ref().err().map(ToString::to_string);
        let ok = verified.as_ref().ok();
        let report = VerifyReport {
            intact: ok.is_some(),
            entries: ok.map_or(0, |verified| verified.entries),
            head: ok.map(|verified| verified.head),
            outside: ok.map_or(0, |verified| verified.outside),
            fault: fault.as_deref(),
        };
        out.json(&serde_json::to_string(&report)?)?;
    } else if let Ok(Verified { entries, head, outside }) = &verified {
        let compared = match &file {
            Some(file) => format!("{outside} outside positions of {}", escape::line(&file.display().to_string())),
            None => "no outside head to compare with".to_owned(),
        };
        out.line(format_args!("intact: {entries} entries, head {} {}, {compared}", head.seq, head.hash))?;
    }
    match verified {
        Ok(_) => Ok(()),
        Err(tampered) => anyhow::bail!("the audit log was changed: {tampered}"),
    }
}

/// The named file, which must exist; otherwise the configuration's or the data folder's, if it exists.
fn head_file(args: &VerifyArgs, place: &StoreAddress) -> anyhow::Result<Option<PathBuf>> {
    if let Some(file) = &args.head {
        return Ok(Some(file.clone()));
    }
    let configured = args.place.config.read()?.audit.head_to;
    let in_folder = match place {
        StoreAddress::Folder(folder) => Some(folder.join(audit_head::FILE_NAME)),
        StoreAddress::Database(_) => None,
    };
    Ok(configured.or(in_folder).filter(|file| file.exists()))
}

#[derive(Serialize)]
struct ExportReport {
    entries: u64,
    /// The last exported entry.
    head: ChainPoint,
    sha256: String,
}

/// The log is checked on the way: a log with a fault is not sealed.
fn export(args: &ExportArgs, out: &mut Printer) -> anyhow::Result<()> {
    let mut store = offline::open(&args.place.find()?)?;
    let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&args.to);
    let file = file.with_context(|| format!("can't create {}", args.to.display()))?;
    let (mut to, mut digest) = (BufWriter::new(file), Sha256::new());
    let verified = store.verify_audit(Vec::new(), |entry| {
        let line = format!("{}\n", ecs_line(entry));
        digest.update(line.as_bytes());
        Ok(to.write_all(line.as_bytes())?)
    })?;
    let Verified { entries, head, .. } =
        verified.map_err(|tampered| anyhow::anyhow!("the audit log was changed, and is not sealed: {tampered}"))?;
    // On the disk before the store says so: sealed entries may be removed.
    to.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    sync_folder(&args.to)?;
    let sha256: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    store.commit(|tx| trim::seal(tx, &head, &sha256, entries, &Actor::from(CLI)))?;
    let report = ExportReport { entries, head, sha256 };
    if args.json {
        return Ok(out.json(&serde_json::to_string(&report)?)?);
    }
    Ok(out.line(format_args!("exported {entries} entries up to {}, sha256 {}", head.seq, report.sha256))?)
}

fn sync_folder(file: &Path) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
