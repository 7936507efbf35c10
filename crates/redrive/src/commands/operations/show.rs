//! One operation, for people.

use std::collections::BTreeMap;

use redrive_client::Call;
use redrive_core::wire::{OperationState, OperationView};

use crate::escape;
use crate::out::{Out, Style};
use crate::remote::Remote;

pub(super) async fn told(call: Call<OperationView>, remote: &Remote, out: &mut Out) -> anyhow::Result<()> {
    if remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    print(&call.await?, out)
}

pub(super) fn style(state: OperationState) -> Style {
    match state {
        OperationState::Preview | OperationState::Running | OperationState::Paused => Style::Waiting,
        OperationState::Completed => Style::Good,
        OperationState::Stopped => Style::Bad,
        OperationState::Cancelled => Style::Faint,
    }
}

pub(super) fn print(operation: &OperationView, out: &mut Out) -> anyhow::Result<()> {
    let state = out.styled(style(operation.state), operation.state.as_str());
    let preparing = if operation.preparing { "  (its set is still being frozen)" } else { "" };
    out.line(format_args!("{}  {}  {state}{preparing}", operation.id, operation.action))?;
    for (name, value) in facts(operation) {
        out.line(format_args!("  {name:<12}{}", escape::line(&value)))?;
    }
    for sample in &operation.samples {
        out.line(format_args!("  {} of {}:", sample.run_id, sample.tenant))?;
        for change in &sample.changes {
            let side = |raw: &Option<_>| raw.as_ref().map_or_else(String::new, ToString::to_string);
            let line = format!("{} {}: {} -> {}", change.op, change.path, side(&change.old), side(&change.new));
            out.line(format_args!("    {}", escape::line(&line)))?;
        }
    }
    Ok(())
}

fn facts(operation: &OperationView) -> Vec<(&'static str, String)> {
    let OperationView { matched, eligible, moved, succeeded, failed, skipped, .. } = operation;
    let mut facts = vec![
        ("by", format!("{} at {}", operation.actor, operation.created_at)),
        ("matched", format!("{matched}, eligible {eligible}{}", list(&operation.ineligible, ", not: "))),
        ("reasons", list(&operation.reasons, "")),
        ("moved", format!("{moved}, succeeded {succeeded}, failed {failed}")),
    ];
    if *skipped > 0 {
        facts.push(("skipped", format!("{skipped}{}", list(&operation.skipped_because, ": "))));
    }
    facts.extend(operation.rate_per_s.map(|rate| ("rate", format!("{rate} a second"))));
    facts.extend(operation.canary.as_ref().map(|canary| {
        let share = canary.max_failure_share * 100.0;
        ("canary", format!("{} of {}, at most {share} % may fail", canary.state, canary.size))
    }));
    facts.extend(operation.reason.as_ref().map(|reason| ("why", reason.decode().into_owned())));
    facts.extend(operation.stopped_because.clone().map(|why| ("stopped", why)));
    facts
}

fn list(tally: &BTreeMap<String, u64>, before: &str) -> String {
    if tally.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = tally.iter().map(|(what, n)| format!("{what} {n}")).collect();
    format!("{before}{}", parts.join(", "))
}
