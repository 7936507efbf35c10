//! `redrive tenants`

use clap::Subcommand;
use redrive_core::ids::Tenant;

use crate::args::Remote;
use crate::commands::{breakers, now};
use crate::escape;
use crate::out::{Printer, TextTable, or_dash, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List tenants
    List(TenantListArgs),
    /// Show a tenant's health
    Health(TenantHealthArgs),
    /// Show, open or close a tenant's breaker
    #[command(subcommand)]
    Breaker(breakers::Command),
}

#[derive(Debug, clap::Args)]
pub(crate) struct TenantListArgs {
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Continue after this cursor of an earlier page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TenantHealthArgs {
    #[arg(value_name = "TENANT")]
    name: Tenant,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::List(args) => list(args, out).await,
        Command::Health(args) => health(args, out).await,
        Command::Breaker(command) => breakers::run(command, out).await,
    }
}

async fn list(args: TenantListArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.tenants(Some(args.limit), args.cursor.as_deref());
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = call.await?;
    if page.tenants.is_empty() {
        return Ok(out.line("no tenants")?);
    }
    let mut table = TextTable::new(["TENANT", "DEAD", "SCHEDULED", "RUNNING", "LAST FAILURE"]).right(&[1, 2, 3]);
    for tenant in &page.tenants {
        table.row([
            tenant.tenant.to_string(),
            tenant.dead.to_string(),
            tenant.scheduled.to_string(),
            tenant.running.to_string(),
            or_dash(tenant.last_failure_at.map(|at| relative(at, now()))),
        ]);
    }
    out.table(table)?;
    if let Some(cursor) = page.next_cursor {
        out.line(format_args!("\nmore: --cursor {}", escape::shell(&cursor)))?;
    }
    Ok(())
}

async fn health(args: TenantHealthArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.tenant_health(&args.name);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let health = call.await?;
    let facts = [
        ("dead", health.dead.to_string()),
        ("  of these a retry won't help", health.active_poison.to_string()),
        ("waiting for a person", health.escalated.to_string()),
        ("waiting for a retry", health.pending_retries.to_string()),
        ("held", health.held.to_string()),
        ("recovered in 24 h", health.recovered_24h.to_string()),
        ("recovery rate in 24 h", or_dash(health.recovery_rate_pct.map(|rate| format!("{rate:.1} %")))),
        ("last failure", or_dash(health.last_failure_at.map(|at| relative(at, now())))),
    ];
    let limits = health.limits.map(|limits| {
        let running = limits.max_running.map(|most| format!("{} of {most} attempts under way", limits.running));
        let rate = limits.leases_per_s.map(|rate| format!("{rate} leases a second"));
        ("limits", running.into_iter().chain(rate).collect::<Vec<_>>().join(", "))
    });
    for (name, value) in facts.into_iter().chain(limits) {
        out.line(format_args!("{name:<31}{value}"))?;
    }
    Ok(())
}
