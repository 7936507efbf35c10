//! `redrive doctor`: checks the store and its environment, with or without a running server. Exits with 0 when all is fine,
//! 1 when something needs action, 2 when it can't check. No check changes anything.

mod database;
mod disk;
mod store;

pub(crate) use database::database;
pub(crate) use store::{integrity, setup};

use disk::{access, fsync_rate, space};
use store::{clock, configuration, keys, queues};

use redrive_store::copy::StoreAddress;
use serde::Serialize;

use crate::commands::offline::{self, OfflineStore};
use crate::config::StorePlace;
use crate::escape;
use crate::failure::{AlreadyReported, UsageError};
use crate::out::{Printer, Style};

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
struct DoctorReport<'a> {
    status: &'static str,
    data: String,
    findings: &'a [Finding],
}

pub(crate) fn run(args: &Args, out: &mut Printer) -> anyhow::Result<()> {
    // An unreadable configuration is a finding; the store is still checked.
    let place = args.place.find_anyway();
    let findings = check(args, &place)?;
    conclude(&findings, &place, args.json, out)
}

/// Prints the findings; the exit code reflects the worst.
pub(crate) fn conclude(
    findings: &[Finding],
    place: &StoreAddress,
    json: bool,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let needs_action = findings.iter().any(|finding| finding.severity >= FindingLevel::Action);
    if json {
        let status = if needs_action { "attention" } else { "fine" };
        let report = DoctorReport { status, data: format!("{place:?}"), findings };
        out.json(&serde_json::to_string(&report)?)?;
    } else {
        print(findings, out)?;
    }
    if needs_action { Err(AlreadyReported.into()) } else { Ok(()) }
}

/// The store can't be checked at all: a usage error.
pub(crate) fn cannot_check(error: &anyhow::Error) -> UsageError {
    UsageError::new(format!("can't check: {error:#}"))
}

fn check(args: &Args, place: &StoreAddress) -> anyhow::Result<Vec<Finding>> {
    let mut store = offline::open(place).map_err(|error| cannot_check(&error))?;
    let mut findings = match &mut store {
        OfflineStore::Folder(store) => {
            let mut findings = setup(store);
            findings.extend(integrity(store, args.deep));
            findings
        }
        OfflineStore::Database(store) => database(store),
    };
    if let StoreAddress::Folder(folder) = place {
        findings.extend([access(folder), space(folder), fsync_rate(folder)]);
    }
    findings.extend([clock(&mut store), configuration(&args.place.config)]);
    findings.extend(keys(&mut store));
    findings.extend(queues(&mut store));
    Ok(findings)
}

fn print(findings: &[Finding], out: &mut Printer) -> anyhow::Result<()> {
    for finding in findings {
        let style = match finding.severity {
            FindingLevel::Fine => Style::Good,
            FindingLevel::Advice => Style::Faint,
            FindingLevel::Action => Style::Waiting,
            FindingLevel::Danger => Style::Bad,
        };
        let word = out.styled(style, &format!("{:<6}", finding.severity.as_str()));
        out.line(format_args!("{word}  {:<13}  {}", finding.about, escape::line(&finding.seen)))?;
        if let Some(what_to_do) = &finding.what_to_do {
            out.line(format_args!("{:<23}{}", "", escape::line(what_to_do)))?;
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FindingLevel {
    Fine,
    /// Worth knowing; no action needed.
    Advice,
    /// Somebody should act.
    Action,
    /// The guarantees do not hold until somebody acts.
    Danger,
}

impl FindingLevel {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Advice => "advice",
            Self::Action => "action",
            Self::Danger => "danger",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: FindingLevel,
    /// What was looked at.
    pub(crate) about: &'static str,
    pub(crate) seen: String,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub(crate) what_to_do: Option<String>,
}

impl Finding {
    pub(crate) fn fine(about: &'static str, seen: impl Into<String>) -> Self {
        Self { severity: FindingLevel::Fine, about, seen: seen.into(), what_to_do: None }
    }

    pub(crate) fn new(
        severity: FindingLevel,
        about: &'static str,
        seen: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Self {
        Self { severity, about, seen: seen.into(), what_to_do: Some(what_to_do.into()) }
    }

    /// A check that failed is a finding too.
    pub(crate) fn unreadable(about: &'static str, error: impl std::fmt::Display) -> Self {
        let what = "Stop the server, keep a copy of the folder, and restore the last backup if --deep agrees.";
        Self::new(FindingLevel::Danger, about, format!("can't be read: {error}"), what)
    }
}
