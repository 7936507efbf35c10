//! `redrive health` and `redrive stats`

use redrive_client::StatsQuery;
use redrive_core::ids::QueueName;

use crate::args::{Remote, When};
use crate::commands::now;
use crate::escape;
use crate::out::{Printer, Style, TextTable, duration, relative};

#[derive(Debug, clap::Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatsArgs {
    #[arg(long, value_name = "NAME")]
    queue: Option<QueueName>,
    /// From when: a time, or how long ago (2h, 7d)
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn health(args: HealthArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.health();
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let health = call.await?;
    let style = if health.status == "ok" { Style::Good } else { Style::Waiting };
    let status = out.styled(style, &escape::line(&health.status));
    out.line(format_args!("{status}  (redrive {})", escape::line(&health.version)))?;
    let (dead, review) = (health.dead, health.review);
    out.line(format_args!(
        "dead {dead}, in review {review}, scheduled {}, running {}",
        health.scheduled, health.running
    ))?;
    for alert in &health.queues_without_workers {
        let since = relative(alert.oldest_due_at, now());
        let line = format!("queue {}: work was due {since} and no worker takes it. {}", alert.queue, alert.what_to_do);
        out.line(escape::line(&line))?;
    }
    if let Some(jump) = health.clock {
        let way = if jump.by_ms < 0 { "back" } else { "forward" };
        out.line(format_args!(
            "the server's clock was set {way} by {}; its times are {} ahead of it",
            duration(jump.by_ms.unsigned_abs()),
            duration(jump.ahead_ms)
        ))?;
    }
    for queue in &health.queues_without_owner {
        out.line(format_args!("queue {queue}: no owner (redrive queues set {queue} --owner …)"))?;
    }
    if health.set_aside > 0 {
        out.line(format_args!(
            "{} rows set aside: a service could not read them (see table set_aside and the server's log)",
            health.set_aside
        ))?;
    }
    Ok(())
}

pub(crate) async fn stats(args: StatsArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let (since, until) = (args.since.map(|when| when.from(now())), args.until.map(|when| when.from(now())));
    let call = client.stats(&StatsQuery { queue: args.queue, since, until });
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let stats = call.await?;
    let heads = ["HOUR", "STARTED", "FAILED", "RETRIED", "DEAD", "RECOVERED", "SUCCEEDED"];
    let mut hours = TextTable::new(heads).right(&[1, 2, 3, 4, 5, 6]);
    for hour in &stats.hours {
        let figures = [hour.started, hour.failed, hour.retried, hour.dead, hour.recovered, hour.succeeded];
        let [started, failed, retried, dead, recovered, succeeded] = figures.map(|figure| figure.to_string());
        hours.row([hour.hour.to_string(), started, failed, retried, dead, recovered, succeeded]);
    }
    if hours.is_empty() {
        out.line("nothing happened in that time")?;
    } else {
        out.table(hours)?;
    }
    let mut reasons = TextTable::new(["REASON", "FAILURES"]).right(&[1]);
    for (reason, count) in &stats.reasons {
        reasons.row([reason.to_string(), count.to_string()]);
    }
    if !reasons.is_empty() {
        out.line("")?;
        out.table(reasons)?;
    }
    Ok(())
}
