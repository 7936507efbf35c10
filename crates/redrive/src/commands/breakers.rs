//! `redrive breakers` and `redrive tenants breaker show|open|close`: what holds retries back, and a person's word on it.

use clap::Subcommand;
use redrive_core::breaker::StateName;
use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{BreakerAction, BreakerEntry, BreakerRequest, BreakerView};

use crate::commands::now;
use crate::escape;
use crate::out::Out;
use crate::remote::Remote;
use crate::table::Table;
use crate::when::{When, relative};
use crate::words::or_dash;

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// How a tenant's breakers stand, and what happened to them
    Show(ShowArgs),
    /// Hold the tenant's retries and replays: a change freeze
    Open(OpenArgs),
    /// Let them go, and forget what was counted
    Close(CloseArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[arg(value_name = "TENANT")]
    name: Tenant,
    #[command(flatten)]
    remote: Remote,
}

/// Which of a tenant's breakers, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    #[arg(value_name = "TENANT")]
    name: Tenant,
    /// Why; kept with the breaker
    #[arg(long)]
    reason: String,
    /// [default: production]
    #[arg(long)]
    environment: Option<String>,
    /// Only what it asks of this provider
    #[arg(long)]
    provider: Option<String>,
    /// Only what it asks of this model
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    which: Which,
    /// Until then: a time, or for how long (15m, 8h, 7d); until somebody closes it unless told
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CloseArgs {
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn list(args: ListArgs, out: &mut Out) -> anyhow::Result<()> {
    let call = args.remote.client()?.breakers();
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let answer = call.await?;
    if answer.breakers.is_empty() {
        return Ok(out.line("every breaker is closed, and none has seen a failure lately")?);
    }
    Ok(out.table(table(&answer.breakers))?)
}

pub(crate) async fn run(command: Command, out: &mut Out) -> anyhow::Result<()> {
    match command {
        Command::Show(args) => show(args, out).await,
        Command::Open(args) => {
            let until = args.until.map(|until| until.ahead_of(now()));
            operate(args.which, BreakerAction::Open, until, out).await
        }
        Command::Close(args) => operate(args.which, BreakerAction::Close, None, out).await,
    }
}

async fn show(args: ShowArgs, out: &mut Out) -> anyhow::Result<()> {
    let call = args.remote.client()?.tenant_breaker(&args.name);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let answer = call.await?;
    out.line(answer.state)?;
    if !answer.breakers.is_empty() {
        out.table(table(&answer.breakers))?;
    }
    for entry in &answer.history {
        out.line(happened(entry))?;
    }
    Ok(())
}

async fn operate(
    which: Which,
    action: BreakerAction,
    until: Option<redrive_core::time::Timestamp>,
    out: &mut Out,
) -> anyhow::Result<()> {
    let label = |given: &Option<String>| given.as_deref().map(Label::from);
    let request = BreakerRequest {
        action,
        reason: Text::from(which.reason.as_str()),
        until,
        environment: label(&which.environment),
        provider: label(&which.provider),
        model: label(&which.model),
    };
    let call = which.remote.client()?.operate_breaker(&which.name, &request);
    if which.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let view = call.await?;
    Ok(out.line(format_args!("{} is {}", escape::line(view.name.as_str()), stands(&view)))?)
}

fn table(breakers: &[BreakerView]) -> Table {
    let mut table = Table::new(["BREAKER", "STATE", "SINCE", "FAILED", "HELD", "REASON"]).right(&[3, 4]);
    for breaker in breakers {
        let failed = breaker.attempts.zip(breaker.failed).map(|(attempts, failed)| format!("{failed} of {attempts}"));
        table.row([
            breaker.name.to_string(),
            stands(breaker),
            relative(breaker.since, now()),
            or_dash(failed),
            breaker.held.to_string(),
            or_dash(breaker.reason.as_ref().map(|reason| reason.decode().into_owned())),
        ]);
    }
    table
}

fn stands(breaker: &BreakerView) -> String {
    match (breaker.state, breaker.until) {
        (StateName::Open, Some(until)) if breaker.by_hand => format!("open by hand until {until}"),
        (StateName::Open, None) if breaker.by_hand => "open by hand".into(),
        (StateName::Open, Some(until)) => format!("open, tries {}", relative(until, now())),
        (StateName::HalfOpen, _) if breaker.probing => "half open, trying".into(),
        (StateName::Open | StateName::HalfOpen | StateName::Closed, _) => breaker.state.to_string(),
    }
}

fn happened(entry: &BreakerEntry) -> String {
    let note = entry.note.as_ref().map_or_else(String::new, |note| format!(": {}", note.decode()));
    let told = format!("{} {} {} by {}{note}", entry.at, entry.breaker, entry.event, entry.actor);
    escape::line(&told).to_string()
}
