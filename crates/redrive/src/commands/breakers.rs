//! `redrive breakers` and `redrive tenants breaker`: what holds retries back, and a person's word on it.

use clap::Subcommand;
use redrive_core::breaker::StateName;
use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{BreakerAction, BreakerEntry, BreakerRequest, BreakerView};

use crate::args::{Remote, When};
use crate::commands::now;
use crate::escape;
use crate::out::{Out, Table, or_dash, relative};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    act: Option<Act>,
    #[command(flatten)]
    remote: Remote,
}

/// A person's word on a breaker, everybody's or with `--tenant` one tenant's.
#[derive(Debug, Subcommand)]
pub(crate) enum Act {
    /// Open breakers: hold retries and replays during an outage
    Open(OpenArgs<Model>),
    /// Close the breaker
    Close(CloseArgs<Model>),
    /// Close the breaker and reset its failure counts
    Reset(CloseArgs<Model>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a tenant's breakers and their history
    Show(ShowArgs),
    /// Open the breaker: hold the tenant's retries and replays
    Open(OpenArgs<OfTenant>),
    /// Close the breaker
    Close(CloseArgs<OfTenant>),
    /// Close the breaker and reset its failure counts
    Reset(CloseArgs<OfTenant>),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[arg(value_name = "TENANT")]
    name: Tenant,
    #[command(flatten)]
    remote: Remote,
}

/// Which of a tenant's breakers.
#[derive(Debug, clap::Args)]
pub(crate) struct OfTenant {
    #[arg(value_name = "TENANT")]
    name: Tenant,
    /// Only what it asks of this provider
    #[arg(long)]
    provider: Option<String>,
    /// Only what it asks of this model
    #[arg(long)]
    model: Option<String>,
}

/// Which of everybody's breakers. `--tenant`, which every command has, makes it that tenant's.
#[derive(Debug, clap::Args)]
pub(crate) struct Model {
    /// What is asked of this provider
    #[arg(long, required_unless_present_any = ["model", "tenant"])]
    provider: Option<String>,
    /// What is asked of this model
    #[arg(long)]
    model: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OpenArgs<W: clap::Args> {
    #[command(flatten)]
    said: CloseArgs<W>,
    /// Until then: a time, or for how long (15m, 8h, 7d); until somebody closes it unless told
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CloseArgs<W: clap::Args> {
    #[command(flatten)]
    which: W,
    /// Reason; recorded with the breaker
    #[arg(long)]
    reason: String,
    /// [default: production]
    #[arg(long)]
    environment: Option<String>,
    #[command(flatten)]
    remote: Remote,
}
pub(crate) async fn of_everybody(args: Args, out: &mut Out) -> anyhow::Result<()> {
    match args.act {
        None => list(args.remote, out).await,
        Some(Act::Open(open)) => opens(open.said, open.until, out).await,
        Some(Act::Close(close)) => operate(close.into(), BreakerAction::Close, None, out).await,
        Some(Act::Reset(reset)) => operate(reset.into(), BreakerAction::Reset, None, out).await,
    }
}

pub(crate) async fn run(command: Command, out: &mut Out) -> anyhow::Result<()> {
    match command {
        Command::Show(args) => show(args, out).await,
        Command::Open(open) => opens(open.said, open.until, out).await,
        Command::Close(close) => operate(close.into(), BreakerAction::Close, None, out).await,
        Command::Reset(reset) => operate(reset.into(), BreakerAction::Reset, None, out).await,
    }
}

async fn list(remote: Remote, out: &mut Out) -> anyhow::Result<()> {
    let call = remote.client()?.breakers();
    if remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let answer = call.await?;
    if answer.breakers.is_empty() {
        return Ok(out.line("every breaker is closed, and none has seen a failure lately")?);
    }
    Ok(out.table(table(&answer.breakers))?)
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

/// Which breaker a person's word is about, and why.
struct Said {
    tenant: Option<Tenant>,
    provider: Option<String>,
    model: Option<String>,
    reason: String,
    environment: Option<String>,
    remote: Remote,
}

impl From<CloseArgs<OfTenant>> for Said {
    fn from(args: CloseArgs<OfTenant>) -> Self {
        let CloseArgs { which: OfTenant { name, provider, model }, reason, environment, remote } = args;
        Self { tenant: Some(name), provider, model, reason, environment, remote }
    }
}

impl From<CloseArgs<Model>> for Said {
    fn from(args: CloseArgs<Model>) -> Self {
        let CloseArgs { which: Model { provider, model }, reason, environment, remote } = args;
        Self { tenant: remote.tenant().cloned(), provider, model, reason, environment, remote }
    }
}

async fn opens(said: impl Into<Said>, until: Option<When>, out: &mut Out) -> anyhow::Result<()> {
    operate(said.into(), BreakerAction::Open, until.map(|until| until.ahead_of(now())), out).await
}

async fn operate(
    said: Said,
    action: BreakerAction,
    until: Option<redrive_core::time::Timestamp>,
    out: &mut Out,
) -> anyhow::Result<()> {
    let label = |given: &Option<String>| given.as_deref().map(Label::from);
    let request = BreakerRequest {
        action,
        reason: Text::from(said.reason.as_str()),
        until,
        environment: label(&said.environment),
        provider: label(&said.provider),
        model: label(&said.model),
    };
    let client = said.remote.client()?;
    let call = match &said.tenant {
        Some(tenant) => client.operate_breaker(tenant, &request),
        None => client.operate_shared_breaker(&request),
    };
    if said.remote.json {
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
            breaker.since.map_or_else(|| "-".into(), |since| relative(since, now())),
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
