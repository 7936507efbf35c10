//! `redrive runs list|duplicates`: filters, tables, as many pages as asked for.

use clap::ArgAction;
use redrive_client::{Client, RunsQuery};
use redrive_core::ids::{QueueName, RunId};
use redrive_core::reason::{Category, Reason};
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{Likeness, RunSummary, RunsPage, Severity, Sort};

use crate::args::{Remote, When, word};
use crate::commands::now;
use crate::out::{Printer, TextTable, or_dash, relative, style_of};

/// The most that one page of the API holds.
const PAGE_MAX: u32 = 500;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these states
    #[arg(long, value_delimiter = ',', value_parser = word(StateName::ALL, StateName::as_str), help_heading = "Filter")]
    state: Vec<StateName>,
    /// Only these queues
    #[arg(long, value_delimiter = ',', help_heading = "Filter", value_name = "NAME")]
    queue: Vec<QueueName>,
    /// Only these agents' runs
    #[arg(long, value_delimiter = ',', help_heading = "Filter", value_name = "NAME")]
    agent: Vec<String>,
    /// Why they failed: a reason such as timeout or auth_failed
    #[arg(long, value_delimiter = ',', help_heading = "Filter")]
    reason: Vec<Reason>,
    /// Whether a retry can help: transient, conditional or permanent
    #[arg(long, value_delimiter = ',', help_heading = "Filter")]
    category: Vec<Category>,
    /// A pattern's id, or a fingerprint
    #[arg(long, value_delimiter = ',', help_heading = "Filter", value_name = "ID")]
    pattern: Vec<String>,
    /// Why automation stopped
    #[arg(long, value_delimiter = ',', value_name = "WHY", value_parser = word(DeadBecause::ALL, DeadBecause::as_str))]
    #[arg(help_heading = "Filter")]
    dead_because: Vec<DeadBecause>,
    /// Only these severities
    #[arg(long, value_delimiter = ',', value_parser = word(Severity::ALL, Severity::as_str), help_heading = "Filter")]
    severity: Vec<Severity>,
    /// Only these environments, such as production
    #[arg(long, value_delimiter = ',', help_heading = "Filter", value_name = "NAME")]
    environment: Vec<String>,
    /// Only these customers' runs
    #[arg(long, value_delimiter = ',', help_heading = "Filter", value_name = "NAME")]
    customer: Vec<String>,
    /// Only runs assigned to these people or teams
    #[arg(long, value_delimiter = ',', help_heading = "Filter", value_name = "NAME")]
    assigned_to: Vec<String>,
    /// Only runs that something holds; `--held=false` for those that nothing does
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Filter")]
    held: Option<bool>,
    /// First reported since then: a time, or how long ago (15m, 2h, 7d)
    #[arg(long, help_heading = "Filter", value_name = "TIME")]
    since: Option<When>,
    /// First reported before then
    #[arg(long, help_heading = "Filter", value_name = "TIME")]
    until: Option<When>,
    /// The beginning of a run's id, idempotency key or customer, or words of its error
    #[arg(short, long, help_heading = "Filter", value_name = "TEXT")]
    q: Option<String>,

    /// Sort order: -received (newest first), received (oldest first) or due
    #[arg(long, value_parser = word(Sort::ALL, Sort::as_str), allow_hyphen_values = true, help_heading = "Page")]
    sort: Option<Sort>,
    /// Maximum number of results
    #[arg(long, default_value_t = 50, help_heading = "Page", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// All results
    #[arg(long, conflicts_with = "limit", help_heading = "Page")]
    all: bool,
    /// Continue after this cursor of an earlier page
    #[arg(long, help_heading = "Page")]
    cursor: Option<String>,
    /// Also print the total
    #[arg(long, action = ArgAction::SetTrue, help_heading = "Page")]
    count: bool,

    #[command(flatten)]
    remote: Remote,
}

impl Args {
    fn query(&self, now: Timestamp) -> RunsQuery {
        RunsQuery {
            state: self.state.clone(),
            queue: self.queue.clone(),
            agent: self.agent.clone(),
            reason: self.reason.clone(),
            category: self.category.clone(),
            pattern: self.pattern.clone(),
            dead_because: self.dead_because.clone(),
            severity: self.severity.clone(),
            environment: self.environment.clone(),
            customer: self.customer.clone(),
            assigned_to: self.assigned_to.clone(),
            held: self.held,
            since: self.since.map(|when| when.from(now)),
            until: self.until.map(|when| when.from(now)),
            q: self.q.clone(),
            sort: self.sort,
            limit: None,
            cursor: self.cursor.clone(),
            count: self.count,
        }
    }
}

pub(crate) async fn run(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let query = args.query(now());
    let wanted = if args.all { u64::MAX } else { args.limit.into() };
    if args.remote.json {
        as_json(&client, query, wanted, out).await
    } else {
        as_table(&client, query, wanted, out).await
    }
}

/// One line per page: a list that fits into one page is one JSON document.
async fn as_json(client: &Client, mut query: RunsQuery, mut wanted: u64, out: &mut Printer) -> anyhow::Result<()> {
    while let Some(limit) = next_limit(wanted) {
        query.limit = Some(limit);
        let text = client.runs(&query).text().await?;
        out.json(&text)?;
        let page: RunsPage = serde_json::from_str(&text)?;
        wanted = wanted.saturating_sub(page.runs.len() as u64);
        if page.next_cursor.is_none() {
            break;
        }
        query.cursor = page.next_cursor;
    }
    Ok(())
}

async fn as_table(client: &Client, mut query: RunsQuery, mut wanted: u64, out: &mut Printer) -> anyhow::Result<()> {
    let asked = query.count;
    let mut runs = Vec::new();
    let mut total = None;
    while let Some(limit) = next_limit(wanted) {
        query.limit = Some(limit);
        let page = client.runs(&query).await?;
        wanted = wanted.saturating_sub(page.runs.len() as u64);
        runs.extend(page.runs);
        total = page.total.map(|total| (total, page.total_capped)).or(total);
        query.cursor = page.next_cursor;
        // The total is the same on every page.
        query.count = false;
        if query.cursor.is_none() {
            break;
        }
    }
    if runs.is_empty() {
        return Ok(out.line("no runs")?);
    }
    out.table(table(&runs, now()))?;
    let shown = runs.len() as u64;
    if let Some((total, capped)) = total.filter(|(total, _)| asked || *total > shown) {
        out.line(format_args!("\n{shown} of {}{total}", if capped { "more than " } else { "" }))?;
    }
    if let Some(cursor) = query.cursor {
        out.line(format_args!("\nmore: add --all, or --cursor {}", crate::escape::shell(&cursor)))?;
    }
    Ok(())
}

fn next_limit(wanted: u64) -> Option<u32> {
    let limit = u32::try_from(wanted).unwrap_or(PAGE_MAX).min(PAGE_MAX);
    (limit > 0).then_some(limit)
}

fn table(runs: &[RunSummary], now: Timestamp) -> TextTable {
    let mut table =
        TextTable::new(["RUN", "TENANT", "QUEUE", "STATE", "REASON", "TRY", "UPDATED", "NEXT", "ERROR"]).right(&[5]);
    for run in runs {
        let state = match run.dead_because {
            Some(because) => format!("{}/{because}", run.state),
            None => run.state.to_string(),
        };
        let next = match (&run.held_by, run.next_attempt_at) {
            (Some(by), _) => format!("held by {by}"),
            (None, at) => or_dash(at.map(|at| relative(at, now))),
        };
        let cells = [
            run.run_id.to_string(),
            run.tenant.to_string(),
            run.queue.to_string(),
            state,
            or_dash(run.reason.as_ref()),
            run.attempt.to_string(),
            relative(run.updated_at, now),
            next,
            or_dash(run.template.as_ref()),
        ];
        table.row_with(cells, 3, style_of(run.state));
    }
    table
}

#[derive(Debug, clap::Args)]
pub(crate) struct DuplicatesArgs {
    run_id: RunId,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn duplicates(args: DuplicatesArgs, out: &mut Printer) -> anyhow::Result<()> {
    let call = args.remote.client()?.duplicates(&args.run_id);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let answer = call.await?;
    if answer.duplicates.is_empty() {
        return Ok(out.line("no duplicates")?);
    }
    let mut table = TextTable::new(["RUN", "QUEUE", "STATE", "SAME", "RECEIVED"]);
    for duplicate in &answer.duplicates {
        let run = &duplicate.run;
        let same = match duplicate.same {
            Likeness::IdempotencyKey => "idempotency key",
            Likeness::Payload => "payload and failure",
        };
        let received = relative(run.received_at, now());
        let cells = [run.run_id.to_string(), run.queue.to_string(), run.state.to_string(), same.to_owned(), received];
        table.row_with(cells, 2, style_of(run.state));
    }
    out.table(table)?;
    if answer.more {
        out.line("\nThere may be more.")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_size_is_capped_and_ends_at_the_limit() {
        assert_eq!(next_limit(20), Some(20));
        assert_eq!(next_limit(1_200), Some(500));
        assert_eq!(next_limit(u64::MAX), Some(500));
        assert_eq!(next_limit(0), None);
    }
}
