//! `redrive runs show`: a run's page, one of its revisions or attempts, or a receipt for its customer.

use std::io;

use redrive_client::{Client, RunPages};
use redrive_core::ids::RunId;
use redrive_core::json::{DiffOp, DiffOperation};
use redrive_core::patch::{Difference, differences};
use redrive_core::receipt::{Receipt, Told, receipt};
use redrive_core::wire::{ErrorReport, RevisionView, RunDetail, SentAnswer};

use super::page::RunPage;
use crate::args::Remote;
use crate::commands::now;
use crate::escape;
use crate::failure::UsageError;
use crate::out::{Printer, Style};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    run_id: RunId,
    /// Show errors, payload and outputs in full instead of their beginning
    #[arg(long, help_heading = "Output")]
    full: bool,
    /// A receipt in plain words for the customer
    #[arg(long, conflicts_with_all = ["full", "version"], help_heading = "Output")]
    receipt: bool,
    /// The payload as it was at this revision
    #[arg(long, value_name = "N", group = "version", conflicts_with = "full", help_heading = "Output")]
    revision: Option<u32>,
    /// The payload sent to this attempt
    #[arg(long, value_name = "N", group = "version", conflicts_with = "full", help_heading = "Output")]
    attempt: Option<u32>,
    /// With --revision or --attempt: only the differences
    #[arg(long, requires = "version", help_heading = "Output")]
    diff: bool,
    /// Continue before this cursor of an earlier page
    #[arg(long, value_name = "CURSOR", conflicts_with = "version", help_heading = "Output")]
    attempts_cursor: Option<String>,
    #[arg(long, value_name = "CURSOR", conflicts_with = "version", help_heading = "Output", hide = true)]
    steps_cursor: Option<String>,
    #[arg(long, value_name = "CURSOR", conflicts_with = "version", help_heading = "Output", hide = true)]
    history_cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    if let Some(number) = args.revision {
        if args.remote.json {
            return Ok(out.json(&client.revision(&args.run_id, number).text().await?)?);
        }
        if args.diff {
            return print_revision_diff(&client, &args.run_id, number, out).await;
        }
        return print_revision(&client, &args.run_id, number, out).await;
    }
    if let Some(attempt) = args.attempt {
        let call = client.sent(&args.run_id, attempt);
        if args.remote.json {
            return Ok(out.json(&call.text().await?)?);
        }
        return print_sent(&call.await?, args.diff, out);
    }
    let pages = RunPages {
        // A receipt tells all of it.
        limit: args.receipt.then_some(500),
        attempts_cursor: args.attempts_cursor,
        steps_cursor: args.steps_cursor,
        history_cursor: args.history_cursor,
    };
    let call = client.run_pages(&args.run_id, &pages);
    if args.receipt {
        let run = call.await?;
        return if args.remote.json { receipt_json(&run, out) } else { Ok(print_receipt(&run, out)?) };
    }
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = RunPage { run: &call.await?, now: now(), full: args.full, tenant: args.remote.tenant() };
    Ok(page.print(out)?)
}

/// Longer output would not be read.
const DIFFERENCES_MAX: usize = 200;

pub(super) async fn print_revision(
    client: &Client,
    run_id: &RunId,
    revision: u32,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let view = client.revision(run_id, revision).await?;
    revision_headline(&view, out)?;
    if let Some(payload) = &view.payload {
        for line in escape::lines(payload.get()) {
            out.line(format_args!("  {line}"))?;
        }
    } else if let Some(bytes) = &view.payload_base64 {
        out.line(format_args!("  base64 {bytes}"))?;
    } else {
        out.line("  no payload")?;
    }
    Ok(())
}

pub(super) async fn print_revision_diff(
    client: &Client,
    run_id: &RunId,
    revision: u32,
    out: &mut Printer,
) -> anyhow::Result<()> {
    if revision < 2 {
        return Err(UsageError::new("revision 1 is the payload as it came: there is nothing before it").into());
    }
    let (before, after) = (client.revision(run_id, revision - 1).await?, client.revision(run_id, revision).await?);
    revision_headline(&after, out)?;
    let (Some(before), Some(after)) = (&before.payload, &after.payload) else {
        return Ok(out.line("  the whole payload: one of the two is not JSON")?);
    };
    let found = differences(before.get(), after.get(), DIFFERENCES_MAX);
    for difference in &found {
        print_difference(difference, out)?;
    }
    match found.len() {
        0 => Ok(out.line("  no difference in meaning")?),
        DIFFERENCES_MAX => Ok(out.line("  … and perhaps more")?),
        _ => Ok(()),
    }
}

fn revision_headline(view: &RevisionView, out: &mut Printer) -> std::io::Result<()> {
    let id = out.styled(Style::Heading, view.run_id.as_str());
    let how = view.json_patch.as_ref().map_or_else(String::new, |patch| format!(", a patch of {}", patch.len()));
    out.line(format_args!("{id}  revision {} by {}, {}{how}", view.revision, escape::line(&view.actor), view.at))
}

fn print_difference(difference: &Difference<'_>, out: &mut Printer) -> std::io::Result<()> {
    let path = if difference.path.is_empty() { "(all)" } else { &difference.path };
    out.line(format_args!("  {}", escape::line(path)))?;
    for (mark, style, value) in [("-", Style::Bad, difference.before), ("+", Style::Good, difference.after)] {
        if let Some(value) = value {
            let line = out.styled(style, &format!("{mark} {}", escape::line(&cut(value))));
            out.line(format_args!("    {line}"))?;
        }
    }
    Ok(())
}

pub(super) fn print_sent(sent: &SentAnswer, only_diff: bool, out: &mut Printer) -> anyhow::Result<()> {
    let made_of = format!("attempt {} of {}, revision {}", sent.attempt, sent.run_id, sent.revision);
    if !sent.changed {
        out.line(format_args!("{made_of}: the payload went out as it is"))?;
    } else {
        out.line(format_args!("{made_of}: the payload was changed"))?;
    }
    for handed in &sent.changes {
        let done = if handed.applied { "done" } else { "left to the worker" };
        out.line(format_args!("  {:<22}{done}", handed.change.as_str()))?;
    }
    for operation in &sent.diff {
        for line in difference_lines(operation) {
            out.line(escape::line(&line))?;
        }
    }
    if sent.diff_cut {
        out.line("… and more; --json has the payload as it went out")?;
    }
    if only_diff {
        return Ok(());
    }
    match (&sent.payload, &sent.payload_base64) {
        (Some(json), _) => out.line(escape::line(json.get()))?,
        (None, Some(base64)) => out.line(escape::line(base64))?,
        (None, None) => out.line("no payload")?,
    }
    Ok(())
}

/// A difference as people read one: what went after `-`, what came after `+`.
fn difference_lines(operation: &DiffOperation) -> Vec<String> {
    let DiffOperation { op, path, old, new, old_bytes, new_bytes } = operation;
    let size = |bytes: &Option<usize>| bytes.map_or_else(String::new, |bytes| format!(" ({bytes} bytes)"));
    let gone = old.as_ref().map(|old| format!("- {path}: {old}{}", size(old_bytes)));
    let come = new.as_ref().map(|new| format!("+ {path}: {new}{}", size(new_bytes)));
    match op {
        DiffOp::Add => come.into_iter().collect(),
        DiffOp::Remove => gone.into_iter().collect(),
        DiffOp::Replace => gone.into_iter().chain(come).collect(),
    }
}

pub(super) fn print_receipt(run: &RunDetail, out: &mut Printer) -> io::Result<()> {
    let Receipt { reference, outcome, events, effects } = receipt(run);
    let title = out.styled(Style::Heading, &format!("Receipt for {}", escape::line(&reference)));
    out.line(title)?;
    out.line(format_args!("\n{outcome}"))?;
    receipt_section(out, "What happened", &events)?;
    receipt_section(out, "What was done", &effects)
}

fn receipt_section(out: &mut Printer, title: &str, told: &[Told]) -> io::Result<()> {
    if told.is_empty() {
        return Ok(());
    }
    let title = out.styled(Style::Heading, title);
    out.line(format_args!("\n{title}"))?;
    for Told { at, what } in told {
        let at = at.to_string();
        // To the second, which is enough for a customer.
        let at = at.split('.').next().unwrap_or(&at).replace('T', " ");
        out.line(format_args!("  {at} UTC  {}", escape::line(what)))?;
    }
    Ok(())
}

pub(super) fn receipt_json(run: &RunDetail, out: &mut Printer) -> anyhow::Result<()> {
    Ok(out.json(&serde_json::to_string(&receipt(run))?)?)
}

const CUT_AT_CHARS: usize = 160;

pub(super) fn error_kind(error: &ErrorReport) -> Option<String> {
    let kind = error.error_type.as_ref().map(|kind| kind.decode().into_owned());
    let status = error.http_status.map(|status| format!("HTTP {status}"));
    let said: Vec<String> = [kind, status].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// A long line without its end.
pub(super) fn cut(line: &str) -> String {
    if line.chars().nth(CUT_AT_CHARS).is_none() {
        return line.into();
    }
    let mut short: String = line.chars().take(CUT_AT_CHARS).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_value_is_shown_before_and_after() {
        let operation = DiffOperation {
            op: DiffOp::Replace,
            path: "/model".into(),
            old: Some("\"a\"".into()),
            new: Some("\"b".into()),
            old_bytes: None,
            new_bytes: Some(900),
        };
        assert_eq!(difference_lines(&operation), ["- /model: \"a\"", "+ /model: \"b (900 bytes)"]);
    }
}
