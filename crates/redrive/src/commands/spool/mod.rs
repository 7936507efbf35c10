//! `redrive spool`: sends reports that SDKs spooled to disk while no server answered. A running program sends its own
//! file; this is for programs that have ended.

mod file;

use file::{ReportKind, SpoolFile, SpoolRecord, TakenFile};

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use redrive_client::{Client, Error};
use redrive_core::wire::Problem;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::args::Remote;
use crate::failure::UsageError;
use crate::out::Printer;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send the spool files of programs that have ended; a running program sends its own
    Send(SendArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// The spool folder [default: redrive/spool in the user's state folder]
    #[arg(long, env = "REDRIVE_SPOOL_DIR", hide_env_values = true, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    let Command::Send(SendArgs { dir, remote }) = command;
    let folder = match dir.or_else(user_folder) {
        Some(folder) => folder,
        None => return Err(UsageError::new("no home folder: name the spool folder with --dir").into()),
    };
    let client = remote.client()?;
    let mut counts = SpoolCounts::default();
    let mut result = Ok(());
    for path in spool_files(&folder)? {
        match SpoolFile::take(&path, remote.url()).with_context(|| path.display().to_string())? {
            TakenFile::Ours(file) => result = send_file(&client, file, &folder, &mut counts).await,
            TakenFile::InUse => counts.in_use += 1,
            TakenFile::NotForUs => counts.for_others += 1,
        }
        if result.is_err() {
            break;
        }
    }
    print_counts(&counts, &folder, &remote, out)?;
    result
}

fn print_counts(counts: &SpoolCounts, folder: &Path, remote: &Remote, out: &mut Printer) -> anyhow::Result<()> {
    if remote.json {
        return Ok(out.json(&serde_json::to_string(counts)?)?);
    }
    out.line(format_args!("{} sent, {} done", plural(counts.sent, "report"), plural(counts.files, "file")))?;
    let aside = format!("refused, and set aside in {}", folder.join("refused.jsonl").display());
    for (count, what, which) in [
        (counts.refused, "report", aside.as_str()),
        (counts.unreadable, "line", "that can't be read"),
        (counts.in_use, "file", "in use by a program that sends it itself"),
        (counts.for_others, "file", "for another server"),
    ] {
        if count > 0 {
            out.line(format_args!("{} {which}", plural(count, what)))?;
        }
    }
    Ok(())
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn user_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("redrive/spool"))
}

/// Oldest first: file names begin with their creation time.
fn spool_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !folder.exists() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "spool") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Fields of a start that a failure report does not have.
const OF_A_START: &[&str] = &["mode", "start_id", "lease_ms", "idle_ms", "deadline_ms", "due_at"];

/// How much was sent, refused or left.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SpoolCounts {
    pub(crate) files: u64,
    pub(crate) sent: u64,
    /// Refused for good and set aside.
    pub(crate) refused: u64,
    pub(crate) unreadable: u64,
    /// Files whose program still runs and sends them itself.
    pub(crate) in_use: u64,
    /// Files for another server.
    pub(crate) for_others: u64,
}

/// Sends a whole file and removes it. If the server stops answering, the mark remembers what was sent.
pub(crate) async fn send_file(
    client: &Client,
    mut file: SpoolFile,
    folder: &Path,
    counts: &mut SpoolCounts,
) -> anyhow::Result<()> {
    let mut ended = BTreeSet::new();
    while let Some((record, end)) = file.next()? {
        match record {
            Some(record) => {
                if !ended.contains(&record.run) {
                    send_record(client, &mut file, &record, folder, counts).await?;
                }
                if record.what.ends_the_attempt() {
                    file.ended(&record.run);
                    ended.insert(record.run);
                }
            }
            // The first line says what the file is for.
            None if file.is_at_its_head() => {}
            None => counts.unreadable += 1,
        }
        file.mark(end)?;
    }
    counts.files += 1;
    Ok(file.remove()?)
}

async fn send_record(
    client: &Client,
    file: &mut SpoolFile,
    record: &SpoolRecord,
    folder: &Path,
    counts: &mut SpoolCounts,
) -> anyhow::Result<()> {
    let lease = record.lease.clone().or_else(|| file.lease_of(&record.run).map(str::to_owned));
    let run_id = record.run_id.as_str();
    let answer = match (record.what, lease) {
        (ReportKind::Start, _) => post(client, record, &["runs"], record.body.clone()).await?,
        (what, Some(lease)) => post(client, record, &["runs", run_id, what.verb()], record.under(&lease)).await?,
        // The attempt ran although the server never took its start: its end is still reported.
        (ReportKind::Fail, None) => {
            let start = file.start_of(&record.run)?;
            post(client, record, &["failures"], as_failure(record, start.as_deref())?).await?
        }
        (ReportKind::Succeed, None) => post(client, record, &["runs", run_id, "succeed"], record.body.clone()).await?,
        (ReportKind::Step | ReportKind::Release, None) => Err("its attempt has no lease".to_owned()),
    };
    match answer {
        Ok(answer) => {
            if record.what == ReportKind::Start {
                file.leased(&record.run, answer["lease"].as_str());
            }
            counts.sent += 1;
        }
        Err(why) => {
            if record.what == ReportKind::Start {
                file.leased(&record.run, None);
            }
            counts.refused += 1;
            set_aside(folder, record, &why).context("what was refused could not be set aside")?;
        }
    }
    Ok(())
}

/// The answer, or why it was refused for good. An error means: try again later.
async fn post(
    client: &Client,
    record: &SpoolRecord,
    path: &[&str],
    body: String,
) -> anyhow::Result<Result<Value, String>> {
    let client = match &record.tenant {
        Some(tenant) => client.for_tenant(tenant.parse()?),
        None => client.clone(),
    };
    match client.post_written::<Value>(path, body).await {
        Ok(answer) => Ok(Ok(answer)),
        Err(Error::Problem(problem)) if is_final(&problem) => Ok(match problem.more.get("recorded") {
            // Too late to move the run, but recorded as evidence.
            Some(Value::Bool(true)) => Ok(Value::Null),
            Some(_) | None => Err(format!("{} {} {}", problem.status, problem.code, problem.detail)),
        }),
        Err(error) => Err(error.into()),
    }
}

/// A wrong key or a busy server may be temporary.
fn is_final(problem: &Problem) -> bool {
    !matches!(problem.status, 401 | 403 | 408 | 429 | 500..)
        && !matches!(problem.code.as_str(), "wrong_tenant" | "tenant_required")
}

fn as_failure(record: &SpoolRecord, start: Option<&str>) -> anyhow::Result<String> {
    let mut fields: Map<String, Value> = start.map(serde_json::from_str).transpose()?.unwrap_or_default();
    fields.retain(|name, _| !OF_A_START.contains(&name.as_str()));
    fields.insert("run_id".into(), record.run_id.clone().into());
    fields.extend(serde_json::from_str::<Map<String, Value>>(&record.body)?);
    Ok(Value::Object(fields).to_string())
}

/// Keeps a refused request for a person to read.
fn set_aside(folder: &Path, record: &SpoolRecord, why: &str) -> std::io::Result<()> {
    let place = folder.join("refused.jsonl");
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(place)?;
    let line = json!({"why": why, "do": record.what.verb(), "run_id": record.run_id, "body": record.body});
    writeln!(file, "{line}")
}
