//! `redrive runs show --receipt`: what happened, for the customer it was for.

use std::io;

use redrive_core::receipt::{Receipt, Told, receipt};
use redrive_core::wire::RunDetail;

use crate::escape;
use crate::out::{Out, Style};

pub(super) fn print(run: &RunDetail, out: &mut Out) -> io::Result<()> {
    let Receipt { reference, outcome, events, effects } = receipt(run);
    let title = out.styled(Style::Heading, &format!("Receipt for {}", escape::line(&reference)));
    out.line(title)?;
    out.line(format_args!("\n{outcome}"))?;
    list(out, "What happened", &events)?;
    list(out, "What was done", &effects)
}

fn list(out: &mut Out, title: &str, told: &[Told]) -> io::Result<()> {
    if told.is_empty() {
        return Ok(());
    }
    let title = out.styled(Style::Heading, title);
    out.line(format_args!("\n{title}"))?;
    for Told { at, what } in told {
        let at = at.to_string();
        // To the second: more is of no use to a customer.
        let at = at.split('.').next().unwrap_or(&at).replace('T', " ");
        out.line(format_args!("  {at} UTC  {}", escape::line(what)))?;
    }
    Ok(())
}

pub(super) fn json(run: &RunDetail, out: &mut Out) -> anyhow::Result<()> {
    Ok(out.json(&serde_json::to_string(&receipt(run))?)?)
}
