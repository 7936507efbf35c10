//! `redrive store copy`: a bar with rate and time to go on a terminal, elsewhere a line for each table.

use redrive_core::time::Timestamp;
use redrive_store::copy::{Copied, Place, Progress, copy};
use serde::Serialize;

use crate::commands::now;
use crate::config::typed;
use crate::out::Out;
use crate::when::duration;

const BAR_CHARS: u64 = 30;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store that is read: a folder, or postgres://…
    #[arg(long, value_name = "STORE", value_parser = typed)]
    from: Place,
    /// The store that is made: a folder, or postgres://… with an empty database
    #[arg(long, value_name = "STORE", value_parser = typed)]
    to: Place,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    rows: u64,
    resumed: bool,
    tables: &'a [(&'static str, u64)],
}

pub(super) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let mut bar = Bar { began: now(), before: None, table: "" };
    let mut told = Ok(());
    let copied = copy(&args.from, &args.to, now(), |progress| {
        if told.is_ok() && !args.json {
            told = bar.show(progress, out);
        }
    })
    .await?;
    told?;
    let Copied { tables, resumed } = &copied;
    if args.json {
        let answer = Answer { rows: copied.rows(), resumed: *resumed, tables };
        return Ok(out.json(&serde_json::to_string(&answer)?)?);
    }
    if out.columns().is_some() {
        out.line("")?;
    }
    let runs = tables.iter().find(|(table, _)| *table == "runs").map_or(0, |(_, rows)| *rows);
    let took = duration(now().since(bar.began));
    Ok(out.line(format_args!(
        "copied {runs} runs, {} rows in all, in {took}; both stores count the same",
        copied.rows()
    ))?)
}

struct Bar {
    began: Timestamp,
    /// Rows that an earlier copy had brought.
    before: Option<u64>,
    table: &'static str,
}

impl Bar {
    fn show(&mut self, progress: Progress, out: &mut Out) -> std::io::Result<()> {
        let before = *self.before.get_or_insert(progress.rows);
        if out.columns().is_some() {
            let line = line(progress, before, now().since(self.began));
            out.bytes(format!("\r\x1b[2K{line}").as_bytes())?;
        } else if progress.table != self.table {
            out.line(format_args!("{} {}/{}", progress.table, progress.rows, progress.of))?;
        }
        self.table = progress.table;
        out.flush()
    }
}

fn line(Progress { table, rows, of }: Progress, before: u64, ms: u64) -> String {
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
    fn a_bar_tells_how_far_how_fast_and_how_long() {
        let progress = |rows| Progress { table: "runs", rows, of: 100 };
        assert_eq!(line(progress(40), 20, 2_000), "[############------------------] 40/100  runs  10/s  6 s to go");
        assert_eq!(line(progress(100), 0, 2_000), "[##############################] 100/100  runs");
    }
}
