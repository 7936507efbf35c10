//! `redrive breakers` and `redrive tenants breaker`: list breakers, open and close them by hand.

use clap::Subcommand;
use redrive_core::breaker::BreakerStateName;
use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{BreakerAction, BreakerEntry, BreakerRequest, BreakerView};

use crate::args::{Remote, When};
use crate::commands::now;
use crate::escape;
use crate::out::{Printer, TextTable, or_dash, relative};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    act: Option<SharedBreakerCommand>,
    #[command(flatten)]
    remote: Remote,
}

/// Opens or closes a breaker: the shared one, or with `--tenant` a tenant's.
#[derive(Debug, Subcommand)]
pub(crate) enum SharedBreakerCommand {
    /// Open breakers: hold retries and replays during an outage
    Open(BreakerOpenArgs<Model>),
    /// Close the breaker
    Close(BreakerCloseArgs<Model>),
    /// Close the breaker and reset its failure counts
    Reset(BreakerCloseArgs<Model>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a tenant's breakers and their history
    Show(BreakerShowArgs),
    /// Open the breaker: hold the tenant's retries and replays
    Open(BreakerOpenArgs<OfTenant>),
    /// Close the breaker
    Close(BreakerCloseArgs<OfTenant>),
    /// Close the breaker and reset its failure counts
    Reset(BreakerCloseArgs<OfTenant>),
}

#[derive(Debug, clap::Args)]
pub(crate) struct BreakerShowArgs {
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
    /// Only requests to this provider
    #[arg(long)]
    provider: Option<String>,
    /// Only requests to this model
    #[arg(long)]
    model: Option<String>,
}

/// Which shared breaker. The global `--tenant` selects a tenant's instead.
#[derive(Debug, clap::Args)]
pub(crate) struct Model {
    /// Requests to this provider
    #[arg(long, required_unless_present_any = ["model", "tenant"])]
    provider: Option<String>,
    /// Requests to this model
    #[arg(long)]
    model: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BreakerOpenArgs<W: clap::Args> {
    #[command(flatten)]
    change: BreakerCloseArgs<W>,
    /// When it closes: a time, or a distance (15m, 8h, 7d); by default it stays open until closed
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BreakerCloseArgs<W: clap::Args> {
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
pub(crate) async fn of_everybody(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    match args.act {
        None => list(args.remote, out).await,
        Some(SharedBreakerCommand::Open(open)) => open_breaker(open.change, open.until, out).await,
        Some(SharedBreakerCommand::Close(close)) => operate(close.into(), BreakerAction::Close, None, out).await,
        Some(SharedBreakerCommand::Reset(reset)) => operate(reset.into(), BreakerAction::Reset, None, out).await,
    }
}

pub(crate) async fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::Show(args) => show(args, out).await,
        Command::Open(open) => open_breaker(open.change, open.until, out).await,
        Command::Close(close) => operate(close.into(), BreakerAction::Close, None, out).await,
        Command::Reset(reset) => operate(reset.into(), BreakerAction::Reset, None, out).await,
    }
}

async fn list(remote: Remote, out: &mut Printer) -> anyhow::Result<()> {
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

async fn show(args: BreakerShowArgs, out: &mut Printer) -> anyhow::Result<()> {
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

/// Which breaker to change, and why.
struct BreakerChange {
    tenant: Option<Tenant>,
    provider: Option<String>,
    model: Option<String>,
    reason: String,
    environment: Option<String>,
    remote: Remote,
}

impl From<BreakerCloseArgs<OfTenant>> for BreakerChange {
    fn from(args: BreakerCloseArgs<OfTenant>) -> Self {
        let BreakerCloseArgs { which: OfTenant { name, provider, model }, reason, environment, remote } = args;
        Self { tenant: Some(name), provider, model, reason, environment, remote }
    }
}

impl From<BreakerCloseArgs<Model>> for BreakerChange {
    fn from(args: BreakerCloseArgs<Model>) -> Self {
        let BreakerCloseArgs { which: Model { provider, model }, reason, environment, remote } = args;
        Self { tenant: remote.tenant().cloned(), provider, model, reason, environment, remote }
    }
}

async fn open_breaker(change: impl Into<BreakerChange>, until: Option<When>, out: &mut Printer) -> anyhow::Result<()> {
    operate(change.into(), BreakerAction::Open, until.map(|until| until.ahead_of(now())), out).await
}

async fn operate(
    change: BreakerChange,
    action: BreakerAction,
    until: Option<redrive_core::time::Timestamp>,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let label = |given: &Option<String>| given.as_deref().map(Label::from);
    let request = BreakerRequest {
        action,
        reason: Text::from(change.reason.as_str()),
        until,
        environment: label(&change.environment),
        provider: label(&change.provider),
        model: label(&change.model),
    };
    let client = change.remote.client()?;
    let call = match &change.tenant {
        Some(tenant) => client.operate_breaker(tenant, &request),
        None => client.operate_shared_breaker(&request),
    };
    if change.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let view = call.await?;
    Ok(out.line(format_args!("{} is {}", escape::line(view.name.as_str()), state_words(&view)))?)
}

fn table(breakers: &[BreakerView]) -> TextTable {
    let mut table = TextTable::new(["BREAKER", "STATE", "SINCE", "FAILED", "HELD", "REASON"]).right(&[3, 4]);
    for breaker in breakers {
        let failed = breaker.attempts.zip(breaker.failed).map(|(attempts, failed)| format!("{failed} of {attempts}"));
        table.row([
            breaker.name.to_string(),
            state_words(breaker),
            breaker.since.map_or_else(|| "-".into(), |since| relative(since, now())),
            or_dash(failed),
            breaker.held.to_string(),
            or_dash(breaker.reason.as_ref().map(|reason| reason.decode().into_owned())),
        ]);
    }
    table
}

fn state_words(breaker: &BreakerView) -> String {
    match (breaker.state, breaker.until) {
        (BreakerStateName::Open, Some(until)) if breaker.by_hand => format!("open by hand until {until}"),
        (BreakerStateName::Open, None) if breaker.by_hand => "open by hand".into(),
        (BreakerStateName::Open, Some(until)) => format!("open, tries {}", relative(until, now())),
        (BreakerStateName::HalfOpen, _) if breaker.probing => "half open, trying".into(),
        (BreakerStateName::Open | BreakerStateName::HalfOpen | BreakerStateName::Closed, _) => {
            breaker.state.to_string()
        }
    }
}

fn happened(entry: &BreakerEntry) -> String {
    let note = entry.note.as_ref().map_or_else(String::new, |note| format!(": {}", note.decode()));
    let told = format!("{} {} {} by {}{note}", entry.at, entry.breaker, entry.event, entry.actor);
    escape::line(&told).to_string()
}
