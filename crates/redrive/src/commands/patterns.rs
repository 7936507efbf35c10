//! `redrive patterns`

use clap::Subcommand;
use redrive_core::wire::PatternView;

use crate::commands::now;
use crate::escape;
use crate::out::Out;
use crate::remote::Remote;
use crate::table::Table;
use crate::when::relative;
use crate::words::or_dash;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List patterns, with how many runs wait for each
    List(ListArgs),
    /// One pattern
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Where an earlier list ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The pattern's id, or a fingerprint
    id: String,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(command: Command, out: &mut Out) -> anyhow::Result<()> {
    match command {
        Command::List(args) => list(args, out).await,
        Command::Show(args) => show(args, out).await,
    }
}

async fn list(args: ListArgs, out: &mut Out) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.patterns(Some(args.limit), args.cursor.as_deref());
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = call.await?;
    if page.patterns.is_empty() {
        return Ok(out.line("no patterns")?);
    }
    let mut table = Table::new(["PATTERN", "REASON", "OPEN", "COUNT", "STATE", "LAST SEEN", "ERROR"]).right(&[2, 3]);
    for pattern in &page.patterns {
        table.row([
            pattern.id.clone(),
            pattern.reason.to_string(),
            pattern.open.to_string(),
            pattern.count.to_string(),
            pattern.state.to_string(),
            relative(pattern.last_seen, now()),
            pattern.template.clone(),
        ]);
    }
    out.table(table)?;
    if let Some(cursor) = page.next_cursor {
        out.line(format_args!("\nmore: --cursor {}", escape::shell(&cursor)))?;
    }
    Ok(())
}

async fn show(args: ShowArgs, out: &mut Out) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.pattern(&args.id);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    page(&call.await?, out)
}

fn page(pattern: &PatternView, out: &mut Out) -> anyhow::Result<()> {
    let tenants: Vec<&str> = pattern.tenants.iter().map(|tenant| tenant.as_str()).collect();
    let facts = [
        ("template", pattern.template.clone()),
        ("reason", format!("{}, {}", pattern.reason, pattern.category)),
        ("state", format!("{}{}", pattern.state, if pattern.regression { ", came back" } else { "" })),
        ("open runs", pattern.open.to_string()),
        ("failures", pattern.count.to_string()),
        ("first seen", relative(pattern.first_seen, now())),
        ("last seen", relative(pattern.last_seen, now())),
        ("owner", or_dash(pattern.owner.as_ref())),
        ("tenants", tenants.join(", ")),
        ("fingerprint", pattern.fingerprint.clone()),
    ];
    for (name, value) in facts {
        out.line(format_args!("{name:<13}{}", escape::line(&value)))?;
    }
    Ok(out.line(format_args!("\nredrive runs list --pattern {}", escape::shell(&pattern.id)))?)
}
