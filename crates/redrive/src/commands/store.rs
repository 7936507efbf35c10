//! `redrive store`: copies a store into another, or checks one for damage.

use clap::Subcommand;
use redrive_core::time::Timestamp;
use redrive_store::Miscounted;
use redrive_store::classify;
use redrive_store::copy::{Copied, Progress, StoreAddress, copy};
use serde::Serialize;

use crate::commands::doctor::{Finding, FindingLevel, cannot_check, conclude, database, integrity, setup};
use crate::commands::now;
use crate::commands::offline::{self, OfflineStore};
use crate::config::{StorePlace, parse_place};

use crate::out::{Printer, duration};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Copy a store into a new one, of the same or the other kind; resumes an interrupted copy
    Copy(CopyArgs),
    /// Check a store for damage and verify its counters
    Check(CheckArgs),
}

pub(crate) fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::Copy(args) => crate::commands::block_on(copy_store(args, out)),
        Command::Check(args) => check(&args, out),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    place: StorePlace,
    /// Recount wrong counters: one commit, which reports wait for
    #[arg(long)]
    recount: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(super) fn check(args: &CheckArgs, out: &mut Printer) -> anyhow::Result<()> {
    let place = args.place.find()?;
    let mut store = offline::open(&place).map_err(|error| cannot_check(&error))?;
    let mut findings = match &mut store {
        OfflineStore::Folder(store) => {
            let mut findings = setup(store);
            findings.extend(integrity(store, true));
            findings
        }
        OfflineStore::Database(store) => database(store),
    };
    findings.push(counters(&mut store, args.recount));
    conclude(&findings, &place, args.json, out)
}

fn counters(store: &mut OfflineStore, recount: bool) -> Finding {
    let off = match store.miscounted() {
        Ok(off) => off,
        Err(error) => return Finding::unreadable("counters", error),
    };
    if off.is_none() {
        return Finding::fine("counters", "every counter matches a recount");
    }
    if !recount {
        let what = "Recount them: `redrive store check --recount`. Lists and leases are not affected.";
        return Finding::new(FindingLevel::Action, "counters", describe(off), what);
    }
    match store.recount().and_then(|()| store.miscounted()) {
        Ok(off_still) if off_still.is_none() => Finding::fine("counters", format!("{}; recounted", describe(off))),
        Ok(off_still) => {
            let what = "Stop the servers and try again.";
            Finding::new(
                FindingLevel::Danger,
                "counters",
                format!("still {} after a recount", describe(off_still)),
                what,
            )
        }
        Err(error) => Finding::unreadable("counters", error),
    }
}

fn describe(off: Miscounted) -> String {
    let Miscounted { counts, totals, patterns } = off;
    format!("off: {counts} of tenants and queues, {totals} over all tenants, {patterns} of patterns")
}

const BAR_CHARS: u64 = 30;

#[derive(Debug, clap::Args)]
pub(crate) struct CopyArgs {
    /// The source: a folder, or postgres://…
    #[arg(long, value_name = "STORE", value_parser = parse_place)]
    from: StoreAddress,
    /// The target: a new folder, or postgres://… with an empty database
    #[arg(long, value_name = "STORE", value_parser = parse_place)]
    to: StoreAddress,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Serialize)]
struct CopyReport<'a> {
    rows: u64,
    resumed: bool,
    tables: &'a [(&'static str, u64)],
}

pub(super) async fn copy_store(args: CopyArgs, out: &mut Printer) -> anyhow::Result<()> {
    let mut bar = ProgressBar { began: now(), before: None, table: "" };
    let mut told = Ok(());
    let copied = copy(&args.from, &args.to, now(), |progress| {
        if told.is_ok() && !args.json {
            told = bar.show(progress, out);
        }
    })
    .await
    .map_err(classify)?;
    told?;
    let Copied { tables, resumed } = &copied;
    if args.json {
        let answer = CopyReport { rows: copied.rows(), resumed: *resumed, tables };
        return Ok(out.json(&serde_json::to_string(&answer)?)?);
    }
    if out.columns().is_some() {
        out.line("")?;
    }
    let runs = tables.iter().find(|(table, _)| *table == "runs").map_or(0, |(_, rows)| *rows);
    let took = duration(now().since(bar.began));
    Ok(out.line(format_args!("copied {runs} runs, {} rows in all, in {took}; row counts match", copied.rows()))?)
}

struct ProgressBar {
    began: Timestamp,
    /// Rows copied before this run.
    before: Option<u64>,
    table: &'static str,
}

impl ProgressBar {
    fn show(&mut self, progress: Progress, out: &mut Printer) -> std::io::Result<()> {
        let before = *self.before.get_or_insert(progress.rows);
        if out.columns().is_some() {
            let line = progress_line(progress, before, now().since(self.began));
            out.bytes(format!("\r\x1b[2K{line}").as_bytes())?;
        } else if progress.table != self.table {
            out.line(format_args!("{} {}/{}", progress.table, progress.rows, progress.of))?;
        }
        self.table = progress.table;
        out.flush()
    }
}

fn progress_line(Progress { table, rows, of }: Progress, before: u64, ms: u64) -> String {
    let full = (BAR_CHARS * rows).checked_div(of).unwrap_or(0).min(BAR_CHARS);
    let bar: String = (0..BAR_CHARS).map(|at| if at < full { '#' } else { '-' }).collect();
    let rate = (rows - before.min(rows)).saturating_mul(1_000).checked_div(ms).unwrap_or(0);
    let to_go = match of.saturating_sub(rows).checked_div(rate) {
        Some(seconds) if rows < of => format!("  {rate}/s  {} to go", duration(seconds * 1_000)),
        Some(_) | None => String::new(),
    };
    format!("[{bar}] {rows}/{of}  {table}{to_go}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_bar_shows_share_rate_and_remaining_time() {
        let progress = |rows| Progress { table: "runs", rows, of: 100 };
        assert_eq!(
            progress_line(progress(40), 20, 2_000),
            "[############------------------] 40/100  runs  10/s  6 s to go"
        );
        assert_eq!(progress_line(progress(100), 0, 2_000), "[##############################] 100/100  runs");
    }
}
