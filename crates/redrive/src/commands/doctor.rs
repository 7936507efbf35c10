//! `redrive doctor`: looks the store and its surroundings over, with the server running or not. Exits with 0 when all
//! is fine, 1 when something needs action, 2 when it can't look.

use redrive_store::copy::Place;
use serde::Serialize;

use crate::commands::direct::{self, Visit};
use crate::config::StorePlace;
use crate::doctor::{
    Finding, Severity, access, clock, configuration, database, fsync_rate, integrity, keys, queues, setup, space,
};
use crate::escape;
use crate::failure::{AlreadyTold, Usage};
use crate::out::{Out, Style};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: StorePlace,
    /// Compare every index of a folder's store with its table, which takes longer
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
    // A configuration that can't be read is a finding; the store may be looked at all the same.
    let place = args.place.find_anyway();
    let findings = look(args, &place)?;
    conclude(&findings, &place, args.json, out)
}

/// Tells what was found, and ends as badly as it is.
pub(crate) fn conclude(findings: &[Finding], place: &Place, json: bool, out: &mut Out) -> anyhow::Result<()> {
    let needs_action = findings.iter().any(|finding| finding.severity >= Severity::Action);
    if json {
        let status = if needs_action { "attention" } else { "fine" };
        let report = Report { status, data: format!("{place:?}"), findings };
        out.json(&serde_json::to_string(&report)?)?;
    } else {
        print(findings, out)?;
    }
    if needs_action { Err(AlreadyTold.into()) } else { Ok(()) }
}

/// Not the store's failure but ours: there is nothing that could be judged.
pub(crate) fn unlooked(error: &anyhow::Error) -> Usage {
    Usage::new(format!("can't look: {error:#}"))
}

fn look(args: &Args, place: &Place) -> anyhow::Result<Vec<Finding>> {
    let mut store = direct::open(place).map_err(|error| unlooked(&error))?;
    let mut findings = match &mut store {
        Visit::Folder(store) => {
            let mut findings = setup(store);
            findings.extend(integrity(store, args.deep));
            findings
        }
        Visit::Database(store) => database(store),
    };
    if let Place::Folder(folder) = place {
        findings.extend([access(folder), space(folder), fsync_rate(folder)]);
    }
    findings.extend([clock(&mut store), configuration(&args.place.config)]);
    findings.extend(keys(&mut store));
    findings.extend(queues(&mut store));
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
