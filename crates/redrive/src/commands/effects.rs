//! `redrive effects`

use clap::Subcommand;
use redrive_client::ApiRequest;
use redrive_core::ids::{RunId, StepKey};
use redrive_core::text::Text;
use redrive_core::wire::{EffectOutcome, EffectView, RawJson, ReconcileRequest};

use crate::args::{Remote, word};
use crate::escape;
use crate::failure::UsageError;
use crate::out::{Printer, step_style};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show an entry of the ledger
    Show(EffectShowArgs),
    /// Record the outcome of an unknown effect; its run can then be replayed
    Reconcile(ReconcileArgs),
}

/// Which entry.
#[derive(Debug, clap::Args)]
struct Which {
    /// The effect's key, as `redrive runs show` prints it
    #[arg(value_name = "KEY")]
    effect: StepKey,
    /// Of which run; needed for plain steps, and for effects that gave no key of their own
    #[arg(long = "run", value_name = "RUN_ID")]
    run_id: Option<RunId>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EffectShowArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReconcileArgs {
    #[command(flatten)]
    which: Which,
    /// The actual outcome
    #[arg(long, value_parser = word(EffectOutcome::ALL, EffectOutcome::as_str))]
    outcome: EffectOutcome,
    /// With committed: its output as JSON; a replay gets it back
    #[arg(long, value_name = "JSON", value_parser = json)]
    output: Option<RawJson>,
    /// Reason; recorded in the run's history
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

fn json(text: &str) -> Result<RawJson, serde_json::Error> {
    serde_json::value::RawValue::from_string(text.to_owned())
}

pub(crate) async fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::Show(EffectShowArgs { which, remote }) => {
            let call = remote.client()?.effect(&which.effect, which.run_id.as_ref());
            told(call, &remote, out).await
        }
        Command::Reconcile(args) => {
            let ReconcileArgs { which, outcome, output, reason, remote } = args;
            if outcome == EffectOutcome::NotDone && output.is_some() {
                return Err(UsageError::new("--output requires --outcome committed").into());
            }
            let reason = reason.as_deref().map(Text::from);
            let found = ReconcileRequest { tenant: None, outcome, output, reason };
            let call = remote.client()?.reconcile(&which.effect, which.run_id.as_ref(), &found);
            told(call, &remote, out).await
        }
    }
}

async fn told(call: ApiRequest<EffectView>, remote: &Remote, out: &mut Printer) -> anyhow::Result<()> {
    if remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let effect = call.await?;
    let outcome = effect.outcome.map_or_else(String::new, |outcome| format!(" as {outcome}"));
    let status = out.styled(step_style(effect.status), &format!("{}{outcome}", effect.status));
    out.line(format_args!("{}  {status}", effect.key))?;
    for (name, value) in facts(&effect) {
        out.line(format_args!("  {name:<12}{}", escape::line(&value)))?;
    }
    Ok(())
}

fn facts(effect: &EffectView) -> Vec<(&'static str, String)> {
    let kind = if effect.effect { "an effect" } else { "a plain step" };
    let mut facts = vec![
        ("step", format!("{}, {kind}", effect.name)),
        ("run", format!("{}, attempt {}, tenant {}", effect.run_id, effect.attempt, effect.tenant)),
    ];
    facts.extend(effect.started_at.map(|at| ("started", at.to_string())));
    facts.push(("since", effect.at.to_string()));
    facts.push(("last used", effect.last_used_at.to_string()));
    facts.extend(effect.settled_by.clone().map(|by| ("settled by", by)));
    facts.extend(effect.check.as_ref().map(|check| ("check", check.decode().into_owned())));
    facts.extend(effect.output.as_ref().map(|output| ("output", output.get().to_owned())));
    facts.extend(effect.output_omitted.as_ref().map(|o| ("output", format!("{} bytes, not stored", o.bytes))));
    facts
}
