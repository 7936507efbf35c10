//! `redrive operations list|items`

use redrive_core::wire::ItemOutcome;

use super::show::style;
use crate::commands::now;
use crate::out::{Out, Style};
use crate::remote::Remote;
use crate::table::Table;
use crate::when::relative;
use crate::words::{or_dash, word};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Where an earlier list ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

pub(super) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let call = args.remote.client()?.operations(Some(args.limit), args.cursor.as_deref());
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = call.await?;
    if page.operations.is_empty() {
        return Ok(out.line("no operations")?);
    }
    let mut table = Table::new(["OPERATION", "ACTION", "STATE", "MATCHED", "MOVED", "SUCCEEDED", "FAILED", "MADE"])
        .right(&[3, 4, 5, 6]);
    for operation in &page.operations {
        let cells = [
            operation.id.clone(),
            operation.action.to_string(),
            operation.state.to_string(),
            operation.matched.to_string(),
            operation.moved.to_string(),
            operation.succeeded.to_string(),
            operation.failed.to_string(),
            relative(operation.created_at, now()),
        ];
        table.row_with(cells, 2, style(operation.state));
    }
    out.table(table)?;
    more(page.next_cursor.as_deref(), out)
}

#[derive(Debug, clap::Args)]
pub(crate) struct ItemsArgs {
    #[arg(value_name = "ID")]
    id: String,
    /// Only these outcomes
    #[arg(long, value_delimiter = ',', value_parser = word(ItemOutcome::ALL, ItemOutcome::as_str))]
    outcome: Vec<ItemOutcome>,
    /// How many at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Where an earlier list ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

pub(super) async fn items(args: ItemsArgs, out: &mut Out) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.operation_items(&args.id, &args.outcome, Some(args.limit), args.cursor.as_deref());
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = call.await?;
    if page.items.is_empty() && page.next_cursor.is_none() {
        return Ok(out.line("no items")?);
    }
    let mut table = Table::new(["RUN", "TENANT", "OUTCOME", "WHY"]);
    for item in page.items {
        let cells = [or_dash(item.run_id), or_dash(item.tenant), item.outcome.to_string(), or_dash(item.why)];
        table.row_with(cells, 2, item_style(item.outcome));
    }
    out.table(table)?;
    more(page.next_cursor.as_deref(), out)
}

fn item_style(outcome: ItemOutcome) -> Style {
    match outcome {
        ItemOutcome::Waiting | ItemOutcome::Moved => Style::Waiting,
        ItemOutcome::Succeeded => Style::Good,
        ItemOutcome::Failed => Style::Bad,
        ItemOutcome::Skipped | ItemOutcome::Ineligible => Style::Faint,
    }
}

fn more(cursor: Option<&str>, out: &mut Out) -> anyhow::Result<()> {
    match cursor {
        Some(cursor) => Ok(out.line(format_args!("\nmore: --cursor {}", crate::escape::shell(cursor)))?),
        None => Ok(()),
    }
}
