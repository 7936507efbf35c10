//! `redrive doctor`: looks the store and its surroundings over, with the server running or not. Exits with 0 when all
//! is fine, 1 when something needs action, 2 when it can't look.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::commands::direct;
use crate::config::{ConfigPath, DATA_DEFAULT};
use crate::doctor::{
    Finding, Severity, access, clock, configuration, fsync_rate, integrity, keys, queues, setup, space,
};
use crate::escape;
use crate::failure::{AlreadyTold, Usage};
use crate::out::{Out, Style};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that holds the store [default: the configuration's, or ./redrive-data]
    #[arg(long, env = "REDRIVE_DATA", hide_env_values = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigPath,
    /// Compare every index with its table, which takes longer
    #[arg(long)]
    deep: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    status: &'static str,
    data: String,
    findings: &'a [Finding],
}

pub(crate) fn run(args: &Args, out: &mut Out) -> anyhow::Result<()> {
    let folder = folder(args);
    let findings = look(args, &folder)?;
    let needs_action = findings.iter().any(|finding| finding.severity >= Severity::Action);
    if args.json {
        let status = if needs_action { "attention" } else { "fine" };
        let report = Report { status, data: folder.display().to_string(), findings: &findings };
        out.json(&serde_json::to_string(&report)?)?;
    } else {
        print(&findings, out)?;
    }
    if needs_action { Err(AlreadyTold.into()) } else { Ok(()) }
}

/// A configuration that can't be read is a finding; the store may be looked at all the same.
fn folder(args: &Args) -> PathBuf {
    let said = args.data.clone().or_else(|| args.config.read().ok()?.server.data);
    said.unwrap_or_else(|| DATA_DEFAULT.into())
}

fn look(args: &Args, folder: &Path) -> anyhow::Result<Vec<Finding>> {
    // Not the store's failure but ours: there is nothing that could be judged.
    let store = direct::open(folder).map_err(|error| Usage::new(format!("can't look: {error:#}")))?;
    let mut findings = setup(&store);
    findings.extend(integrity(&store, args.deep));
    findings.extend([access(folder), space(folder), fsync_rate(folder), clock(&store), configuration(&args.config)]);
    findings.extend(keys(&store));
    findings.extend(queues(&store));
    Ok(findings)
}

fn print(findings: &[Finding], out: &mut Out) -> anyhow::Result<()> {
    for finding in findings {
        let style = match finding.severity {
            Severity::Fine => Style::Good,
            Severity::Advice => Style::Faint,
            Severity::Action => Style::Waiting,
            Severity::Danger => Style::Bad,
        };
        let word = out.styled(style, &format!("{:<6}", finding.severity.as_str()));
        out.line(format_args!("{word}  {:<13}  {}", finding.about, escape::line(&finding.seen)))?;
        if let Some(what_to_do) = &finding.what_to_do {
            out.line(format_args!("{:<23}{}", "", escape::line(what_to_do)))?;
        }
    }
    Ok(())
}
