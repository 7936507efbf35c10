//! `redrive operations watch`: a bar with rate and time to go on a terminal; elsewhere a line for each change.

use std::time::Duration;

use redrive_core::wire::{OperationState, OperationView};

use super::show::print;
use crate::commands::now;
use crate::out::Out;
use crate::remote::Remote;
use crate::when::duration;

const BAR_CHARS: u64 = 30;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(value_name = "ID")]
    id: String,
    /// How often to look
    #[arg(long, default_value_t = 500, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..))]
    every_ms: u64,
    #[command(flatten)]
    remote: Remote,
}

pub(super) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let (mut first, mut shown) = (None, String::new());
    loop {
        let text = client.operation(&args.id).text().await?;
        let operation: OperationView = serde_json::from_str(&text)?;
        let (began, before) = *first.get_or_insert((now(), turns(&operation)));
        let line = line(&operation, before, now().since(began));
        if args.remote.json && text != shown {
            out.json(&text)?;
            shown = text;
        } else if !args.remote.json && line != shown {
            match out.columns() {
                Some(_) => out.bytes(format!("\r\x1b[2K{line}").as_bytes())?,
                None => out.line(&line)?,
            }
            shown = line;
        }
        out.flush()?;
        if is_over(&operation) {
            if args.remote.json {
                return Ok(());
            }
            out.line("")?;
            return print(&operation, out);
        }
        tokio::time::sleep(Duration::from_millis(args.every_ms)).await;
    }
}

/// Items that have had their turn.
fn turns(operation: &OperationView) -> u64 {
    operation.moved + operation.skipped
}

fn is_over(operation: &OperationView) -> bool {
    match operation.state {
        OperationState::Preview => !operation.preparing,
        OperationState::Running | OperationState::Paused => false,
        OperationState::Stopped | OperationState::Cancelled | OperationState::Completed => true,
    }
}

/// `before` had had their turn when we began to look, `ms` ago.
fn line(operation: &OperationView, before: u64, ms: u64) -> String {
    let (done, of) = (turns(operation), operation.eligible);
    let full = (BAR_CHARS * done).checked_div(of).unwrap_or(0).min(BAR_CHARS);
    let bar: String = (0..BAR_CHARS).map(|at| if at < full { '#' } else { '-' }).collect();
    let state = if operation.preparing { "preparing" } else { operation.state.as_str() };
    let rate = (done - before.min(done)).saturating_mul(1_000).checked_div(ms).unwrap_or(0);
    let to_go = match (of.saturating_sub(done)).checked_div(rate) {
        Some(seconds) if done < of => format!("  {rate}/s  {} to go", duration(seconds * 1_000)),
        Some(_) | None => String::new(),
    };
    let (succeeded, failed) = (operation.succeeded, operation.failed);
    format!("[{bar}] {done}/{of}  {state}  succeeded {succeeded}, failed {failed}{to_go}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(moved: u64) -> OperationView {
        serde_json::from_value(serde_json::json!({
            "id": "op-1", "action": "replay", "state": "running", "actor": "a", "reason": null, "filter": {},
            "rate_per_s": null, "canary": null, "matched": 100, "eligible": 100, "ineligible": {}, "reasons": {},
            "moved": moved, "succeeded": 3, "failed": 1, "skipped": 0, "skipped_because": {}, "stopped_because": null,
            "created_at": "2026-01-01T00:00:00Z", "started_at": null, "ended_at": null
        }))
        .unwrap()
    }

    #[test]
    fn a_bar_tells_how_far_how_fast_and_how_long() {
        assert_eq!(
            line(&operation(40), 20, 2_000),
            "[############------------------] 40/100  running  succeeded 3, failed 1  10/s  6 s to go"
        );
        assert_eq!(
            line(&operation(100), 0, 2_000),
            "[##############################] 100/100  running  succeeded 3, failed 1"
        );
    }
}
