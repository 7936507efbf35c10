//! `redrive patterns list`

use redrive_client::PatternsQuery;
use redrive_core::reason::Reason;
use redrive_core::wire::{PatternSort, PatternState, PatternView};

use crate::commands::now;
use crate::escape;
use crate::out::{Out, Style};
use crate::remote::Remote;
use crate::table::Table;
use crate::when::relative;
use crate::words::{or_dash, word};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these states
    #[arg(long, value_delimiter = ',', value_parser = word(PatternState::ALL, PatternState::as_str))]
    #[arg(help_heading = "Filter", value_name = "STATE")]
    state: Vec<PatternState>,
    /// Only these reasons
    #[arg(long, value_delimiter = ',', help_heading = "Filter")]
    reason: Vec<Reason>,
    /// A part of the error's template, in any case
    #[arg(short, long, help_heading = "Filter", value_name = "TEXT")]
    q: Option<String>,
    /// The greatest first
    #[arg(long, value_parser = word(PatternSort::ALL, PatternSort::as_str), help_heading = "Page")]
    sort: Option<PatternSort>,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500), help_heading = "Page")]
    limit: u32,
    /// Where an earlier list ended
    #[arg(long, help_heading = "Page")]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let query = PatternsQuery {
        state: args.state,
        reason: args.reason,
        q: args.q,
        sort: args.sort,
        limit: Some(args.limit),
        cursor: args.cursor,
    };
    let call = client.patterns(&query);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = call.await?;
    if page.patterns.is_empty() {
        return Ok(out.line("no patterns")?);
    }
    let mut table =
        Table::new(["PATTERN", "STATE", "OPEN", "COUNT", "REASON", "OWNER", "LAST SEEN", "ERROR"]).right(&[2, 3]);
    for pattern in &page.patterns {
        let cells = [
            pattern.id.clone(),
            state(pattern),
            pattern.open.to_string(),
            pattern.count.to_string(),
            pattern.reason.to_string(),
            or_dash(pattern.owner.as_ref()),
            relative(pattern.last_seen, now()),
            pattern.template.clone(),
        ];
        table.row_with(cells, 1, style(pattern));
    }
    out.table(table)?;
    if let Some(cursor) = page.next_cursor {
        out.line(format_args!("\nmore: --cursor {}", escape::shell(&cursor)))?;
    }
    Ok(())
}

/// A regression that somebody has taken up is no longer shouted.
pub(super) fn state(pattern: &PatternView) -> String {
    match pattern.state {
        PatternState::New if pattern.regression => "regression".into(),
        state @ (PatternState::New | PatternState::Acknowledged | PatternState::Resolved | PatternState::Muted) => {
            state.to_string()
        }
    }
}

pub(super) fn style(pattern: &PatternView) -> Style {
    match pattern.state {
        PatternState::New if pattern.regression => Style::Bad,
        PatternState::New => Style::Waiting,
        PatternState::Acknowledged => Style::Plain,
        PatternState::Resolved => Style::Good,
        PatternState::Muted => Style::Faint,
    }
}
