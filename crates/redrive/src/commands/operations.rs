//! `redrive operations`: one action over many runs, previewed, started, watched.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Subcommand;
use redrive_client::ApiRequest;
use redrive_core::ids::RunId;
use redrive_core::operation::Steer;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    Canary, ItemOutcome, OperationAction, OperationFilter, OperationRequest, OperationState, OperationView,
    ReplayRequest,
};
use serde_json::{Map, Value};

use crate::args::{Remote, word};
use crate::commands::now;
use crate::commands::runs::plan::Proposal;
use crate::escape;
use crate::failure::UsageError;
use crate::out::{Printer, Style, TextTable, duration, or_dash, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an operation; with --dry-run only preview it
    Create(Box<OperationCreateArgs>),
    /// List operations, newest first
    List(OperationListArgs),
    /// Show an operation's progress
    Show(OneArgs),
    /// List its runs with their outcomes
    Items(ItemsArgs),
    /// Start a previewed operation
    Start(OneArgs),
    /// Pause an operation
    Pause(OneArgs),
    /// Resume a paused operation
    Resume(OneArgs),
    /// Cancel an operation; runs already moved stay moved
    Cancel(OneArgs),
    /// Watch an operation until it ends
    Watch(WatchArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    /// As `redrive operations list` prints it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::Create(args) => create(*args, out).await,
        Command::List(args) => list(args, out).await,
        Command::Items(args) => items(args, out).await,
        Command::Watch(args) => watch(args, out).await,
        Command::Show(OneArgs { id, remote }) => {
            let call = remote.client()?.operation(&id);
            print_answer(call, &remote, out).await
        }
        Command::Start(args) => steer(args, Steer::Start, out).await,
        Command::Pause(args) => steer(args, Steer::Pause, out).await,
        Command::Resume(args) => steer(args, Steer::Resume, out).await,
        Command::Cancel(args) => steer(args, Steer::Cancel, out).await,
    }
}

async fn steer(args: OneArgs, by: Steer, out: &mut Printer) -> anyhow::Result<()> {
    let OneArgs { id, remote } = args;
    let call = remote.client()?.steer_operation(&id, by);
    print_answer(call, &remote, out).await
}

#[derive(Debug, clap::Args)]
pub(crate) struct OperationCreateArgs {
    /// The action on each run
    #[arg(value_parser = word(OperationAction::ALL, OperationAction::as_str))]
    action: OperationAction,
    /// Which runs: a field of `redrive runs list` and its values, such as state=dead or queue=mail,invoices; several narrow
    #[arg(long = "where", value_name = "FIELD=VALUES", help_heading = "Filter")]
    filter: Vec<String>,
    /// These runs instead of a filter; requires --tenant with a spanning key
    #[arg(long = "id", value_name = "RUN_ID", conflicts_with_all = ["filter", "all"], help_heading = "Filter")]
    ids: Vec<RunId>,
    /// Every run; required when there is no filter
    #[arg(long, help_heading = "Filter")]
    all: bool,
    /// Only preview; `redrive operations start` starts it
    #[arg(long)]
    dry_run: bool,
    /// Reason; recorded in each run's history
    #[arg(long)]
    reason: Option<String>,
    /// Runs per second; unlimited by default
    #[arg(long, value_name = "N")]
    rate_per_s: Option<f64>,
    /// Size of the canary: the rest follows only if few enough of these fail
    #[arg(long, value_name = "RUNS", help_heading = "Canary")]
    canary: Option<u32>,
    /// The share of the canary that may fail, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "canary", help_heading = "Canary")]
    max_failure_share: f64,
    /// Canary items without an outcome after this time count as failed
    #[arg(long, value_name = "MS", default_value_t = 900_000, requires = "canary", help_heading = "Canary")]
    canary_wait_ms: u64,
    /// How long to wait for outcomes after the last move
    #[arg(long, value_name = "MS", default_value_t = 900_000)]
    settle_ms: u64,
    #[command(flatten)]
    proposal: Proposal,
    /// With assign: the person or team
    #[arg(long, value_name = "NAME", conflicts_with = "nobody")]
    to: Option<String>,
    /// With assign: remove the assignee
    #[arg(long)]
    nobody: bool,
    /// With defer: not before this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// With merge: the run that they are duplicates of
    #[arg(long, value_name = "RUN_ID")]
    into: Option<RunId>,
    #[command(flatten)]
    remote: Remote,
}

pub(super) async fn create(args: OperationCreateArgs, out: &mut Printer) -> anyhow::Result<()> {
    let call = args.remote.client()?.create_operation(&args.request()?);
    print_answer(call, &args.remote, out).await
}

impl OperationCreateArgs {
    fn request(&self) -> anyhow::Result<OperationRequest> {
        let ReplayRequest { fix, instruction, model, agent, queue, from_step, .. } = self.proposal.request()?;
        if from_step.is_some() {
            return Err(UsageError::new("--from-step is for one run: `redrive runs replay`").into());
        }
        let to = self.to.as_deref().map(|to| Some(Label::from(to)));
        let canary = self.canary.map(|size| Canary {
            size,
            max_failure_share: self.max_failure_share,
            wait_ms: self.canary_wait_ms,
        });
        Ok(OperationRequest {
            filter: OperationFilter { tenant: self.remote.tenant().cloned(), ..parse_filter(&self.filter)? },
            ids: (!self.ids.is_empty()).then(|| self.ids.clone()),
            all: self.all,
            reason: self.reason.as_deref().map(Text::from),
            rate_per_s: self.rate_per_s,
            canary,
            settle_ms: self.settle_ms,
            dry_run: self.dry_run,
            fix,
            instruction,
            model,
            agent,
            queue,
            to: to.or(self.nobody.then_some(None)),
            until: self.until,
            into: self.into.clone(),
            ..OperationRequest::new(self.action)
        })
    }
}

/// `field=a,b`, each field once.
fn parse_filter(said: &[String]) -> anyhow::Result<OperationFilter> {
    let mut fields = Map::new();
    for part in said {
        let (name, values) = part
            .split_once('=')
            .ok_or_else(|| UsageError::new(format!("--where {part}: write it as field=values, such as state=dead")))?;
        let value = match (name, values) {
            ("held", "true") => Value::Bool(true),
            ("held", "false") => Value::Bool(false),
            _ => Value::from(values),
        };
        if fields.insert(name.to_owned(), value).is_some() {
            return Err(
                UsageError::new(format!("--where {name} is given twice: many values go in a comma list")).into()
            );
        }
    }
    serde_json::from_value(Value::Object(fields)).map_err(|e| UsageError::new(format!("--where: {e}")).into())
}

#[derive(Debug, clap::Args)]
pub(crate) struct OperationListArgs {
    /// Maximum number of results
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Continue after this cursor of an earlier page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

pub(super) async fn list(args: OperationListArgs, out: &mut Printer) -> anyhow::Result<()> {
    let call = args.remote.client()?.operations(Some(args.limit), args.cursor.as_deref());
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = call.await?;
    if page.operations.is_empty() {
        return Ok(out.line("no operations")?);
    }
    let mut table = TextTable::new(["OPERATION", "ACTION", "STATE", "MATCHED", "MOVED", "SUCCEEDED", "FAILED", "MADE"])
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
        table.row_with(cells, 2, state_style(operation.state));
    }
    out.table(table)?;
    print_cursor(page.next_cursor.as_deref(), out)
}

#[derive(Debug, clap::Args)]
pub(crate) struct ItemsArgs {
    #[arg(value_name = "ID")]
    id: String,
    /// Only these outcomes
    #[arg(long, value_delimiter = ',', value_parser = word(ItemOutcome::ALL, ItemOutcome::as_str))]
    outcome: Vec<ItemOutcome>,
    /// Maximum number of results
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Continue after this cursor of an earlier page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

pub(super) async fn items(args: ItemsArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.operation_items(&args.id, &args.outcome, Some(args.limit), args.cursor.as_deref());
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = call.await?;
    if page.items.is_empty() && page.next_cursor.is_none() {
        return Ok(out.line("no items")?);
    }
    let mut table = TextTable::new(["RUN", "TENANT", "OUTCOME", "WHY"]);
    for item in page.items {
        let cells = [or_dash(item.run_id), or_dash(item.tenant), item.outcome.to_string(), or_dash(item.why)];
        table.row_with(cells, 2, item_style(item.outcome));
    }
    out.table(table)?;
    print_cursor(page.next_cursor.as_deref(), out)
}

fn item_style(outcome: ItemOutcome) -> Style {
    match outcome {
        ItemOutcome::Waiting | ItemOutcome::Moved => Style::Waiting,
        ItemOutcome::Succeeded => Style::Good,
        ItemOutcome::Failed => Style::Bad,
        ItemOutcome::Skipped | ItemOutcome::Ineligible => Style::Faint,
    }
}

fn print_cursor(cursor: Option<&str>, out: &mut Printer) -> anyhow::Result<()> {
    match cursor {
        Some(cursor) => Ok(out.line(format_args!("\nmore: --cursor {}", crate::escape::shell(cursor)))?),
        None => Ok(()),
    }
}

pub(super) async fn print_answer(
    call: ApiRequest<OperationView>,
    remote: &Remote,
    out: &mut Printer,
) -> anyhow::Result<()> {
    if remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    print(&call.await?, out)
}

pub(super) fn state_style(state: OperationState) -> Style {
    match state {
        OperationState::Preview | OperationState::Running | OperationState::Paused => Style::Waiting,
        OperationState::Completed => Style::Good,
        OperationState::Stopped => Style::Bad,
        OperationState::Cancelled => Style::Faint,
    }
}

pub(super) fn print(operation: &OperationView, out: &mut Printer) -> anyhow::Result<()> {
    let state = out.styled(state_style(operation.state), operation.state.as_str());
    let preparing = if operation.preparing { "  (its set is still being frozen)" } else { "" };
    out.line(format_args!("{}  {}  {state}{preparing}", operation.id, operation.action))?;
    for (name, value) in facts(operation) {
        out.line(format_args!("  {name:<12}{}", escape::line(&value)))?;
    }
    for sample in &operation.samples {
        out.line(format_args!("  {} of {}:", sample.run_id, sample.tenant))?;
        for change in &sample.changes {
            let side = |raw: &Option<_>| raw.as_ref().map_or_else(String::new, ToString::to_string);
            let line = format!("{} {}: {} -> {}", change.op, change.path, side(&change.old), side(&change.new));
            out.line(format_args!("    {}", escape::line(&line)))?;
        }
    }
    Ok(())
}

fn facts(operation: &OperationView) -> Vec<(&'static str, String)> {
    let OperationView { matched, eligible, moved, succeeded, failed, skipped, .. } = operation;
    let mut facts = vec![
        ("by", format!("{} at {}", operation.actor, operation.created_at)),
        ("matched", format!("{matched}, eligible {eligible}{}", counts(&operation.ineligible, ", not: "))),
        ("reasons", counts(&operation.reasons, "")),
        ("moved", format!("{moved}, succeeded {succeeded}, failed {failed}")),
    ];
    if *skipped > 0 {
        facts.push(("skipped", format!("{skipped}{}", counts(&operation.skipped_because, ": "))));
    }
    facts.extend(operation.rate_per_s.map(|rate| ("rate", format!("{rate} a second"))));
    facts.extend(operation.canary.as_ref().map(|canary| {
        let share = canary.max_failure_share * 100.0;
        ("canary", format!("{} of {}, at most {share} % may fail", canary.state, canary.size))
    }));
    facts.extend(operation.reason.as_ref().map(|reason| ("why", reason.decode().into_owned())));
    facts.extend(operation.stopped_because.clone().map(|why| ("stopped", why)));
    facts
}

fn counts(tally: &BTreeMap<String, u64>, before: &str) -> String {
    if tally.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = tally.iter().map(|(what, n)| format!("{what} {n}")).collect();
    format!("{before}{}", parts.join(", "))
}

const BAR_CHARS: u64 = 30;

#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[arg(value_name = "ID")]
    id: String,
    /// Polling interval
    #[arg(long, default_value_t = 500, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..))]
    every_ms: u64,
    #[command(flatten)]
    remote: Remote,
}

pub(super) async fn watch(args: WatchArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let (mut first, mut shown) = (None, String::new());
    loop {
        let text = client.operation(&args.id).text().await?;
        let operation: OperationView = serde_json::from_str(&text)?;
        let (began, before) = *first.get_or_insert((now(), processed(&operation)));
        let line = progress_line(&operation, before, now().since(began));
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

/// Processed items.
fn processed(operation: &OperationView) -> u64 {
    operation.moved + operation.skipped
}

fn is_over(operation: &OperationView) -> bool {
    match operation.state {
        OperationState::Preview => !operation.preparing,
        OperationState::Running | OperationState::Paused => false,
        OperationState::Stopped | OperationState::Cancelled | OperationState::Completed => true,
    }
}

/// `before` items were processed when watching began, `ms` ago.
fn progress_line(operation: &OperationView, before: u64, ms: u64) -> String {
    let (done, of) = (processed(operation), operation.eligible);
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

    #[test]
    fn filter_fields_are_parsed_and_mistakes_named() {
        let read = |parts: &[&str]| parse_filter(&parts.iter().map(ToString::to_string).collect::<Vec<_>>());
        let found = read(&["state=dead,review", "held=false", "since=2026-01-01T00:00:00Z"]).unwrap();
        assert_eq!((found.state.unwrap().words(), found.held), (vec!["dead", "review"], Some(false)));
        for (parts, said) in [
            (&["state"][..], "field=values"),
            (&["stat=dead"][..], "unknown field"),
            (&["state=dead", "state=review"][..], "given twice"),
            (&["since=yesterday"][..], "--where:"),
        ] {
            let refused = read(parts).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }

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
    fn progress_bar_shows_share_rate_and_remaining_time() {
        assert_eq!(
            progress_line(&operation(40), 20, 2_000),
            "[############------------------] 40/100  running  succeeded 3, failed 1  10/s  6 s to go"
        );
        assert_eq!(
            progress_line(&operation(100), 0, 2_000),
            "[##############################] 100/100  running  succeeded 3, failed 1"
        );
    }
}
