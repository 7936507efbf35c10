//! `redrive doctor`: checks the store and its environment, with or without a running server. Exits with 0 when all is fine,
//! 1 when something needs action, 2 when it can't look. No check changes anything.

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
pub(crate) fn conclude(findings: &[Finding], place: &StoreAddress, json: bool, out: &mut Out) -> anyhow::Result<()> {
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

fn look(args: &Args, place: &StoreAddress) -> anyhow::Result<Vec<Finding>> {
    let mut store = offline::open(place).map_err(|error| unlooked(&error))?;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Fine,
    /// Worth knowing; nothing has to be done.
    Advice,
    /// Somebody should act.
    Action,
    /// Promises are not kept until somebody acts.
    Danger,
}

impl Severity {
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
    pub(crate) severity: Severity,
    /// What was looked at.
    pub(crate) about: &'static str,
    pub(crate) seen: String,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub(crate) what_to_do: Option<String>,
}

impl Finding {
    pub(crate) fn fine(about: &'static str, seen: impl Into<String>) -> Self {
        Self { severity: Severity::Fine, about, seen: seen.into(), what_to_do: None }
    }

    pub(crate) fn new(
        severity: Severity,
        about: &'static str,
        seen: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Self {
        Self { severity, about, seen: seen.into(), what_to_do: Some(what_to_do.into()) }
    }

    /// A look that failed is a finding too.
    pub(crate) fn unreadable(about: &'static str, error: impl std::fmt::Display) -> Self {
        let what = "Stop the server, keep a copy of the folder, and restore the last backup if --deep agrees.";
        Self::new(Severity::Danger, about, format!("can't be read: {error}"), what)
    }
}
