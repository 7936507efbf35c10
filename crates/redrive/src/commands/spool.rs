//! `redrive spool`

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;

use crate::failure::Usage;
use crate::out::Out;
use crate::remote::Remote;
use crate::spool::{SpoolFile, Taken, Tally, send};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send what programs that are gone could not say; what a living one keeps is its own to send
    Send(SendArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// Where SDKs keep it; without it the user's own folder for state
    #[arg(long, env = "REDRIVE_SPOOL_DIR", hide_env_values = true, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(command: Command, out: &mut Out) -> anyhow::Result<()> {
    let Command::Send(SendArgs { dir, remote }) = command;
    let folder = match dir.or_else(user_folder) {
        Some(folder) => folder,
        None => return Err(Usage::new("this user has no home: name the spool's folder with --dir").into()),
    };
    let client = remote.client()?;
    let mut tally = Tally::default();
    let mut result = Ok(());
    for path in files(&folder)? {
        match SpoolFile::take(&path, remote.url()).with_context(|| path.display().to_string())? {
            Taken::Ours(file) => result = send(&client, file, &folder, &mut tally).await,
            Taken::InUse => tally.in_use += 1,
            Taken::NotForUs => tally.for_others += 1,
        }
        if result.is_err() {
            break;
        }
    }
    told(&tally, &folder, &remote, out)?;
    result
}

fn told(tally: &Tally, folder: &Path, remote: &Remote, out: &mut Out) -> anyhow::Result<()> {
    if remote.json {
        return Ok(out.json(&serde_json::to_string(tally)?)?);
    }
    out.line(format_args!("{} sent, {} done", counted(tally.sent, "report"), counted(tally.files, "file")))?;
    let aside = format!("refused, and set aside in {}", folder.join("refused.jsonl").display());
    for (count, what, which) in [
        (tally.refused, "report", aside.as_str()),
        (tally.unreadable, "line", "that can't be read"),
        (tally.in_use, "file", "in use by a program that sends it itself"),
        (tally.for_others, "file", "for another server"),
    ] {
        if count > 0 {
            out.line(format_args!("{} {which}", counted(count, what)))?;
        }
    }
    Ok(())
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn user_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("redrive/spool"))
}

/// The oldest first: their names begin with when they were made.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
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
