//! `redrive patterns`: list root causes and triage them.

use clap::Subcommand;
use redrive_client::{ApiRequest, PatternsQuery};
use redrive_core::reason::Reason;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    AssignPattern, MergePattern, MutePattern, PatternDetail, PatternEntry, PatternHour, PatternSort, PatternState,
    PatternView, ResolvePattern, UnmergePattern, Versions,
};

use crate::args::{Remote, When, word};
use crate::commands::now;
use crate::escape;
use crate::out::{Printer, Style, TextTable, or_dash, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List patterns, with how many runs wait for each
    List(PatternListArgs),
    /// Show a pattern: counts, history, triage
    Show(PatternShowArgs),
    /// Acknowledge a pattern: somebody works on it
    Acknowledge(TriageArgs),
    /// Resolve a pattern; if it recurs with the fix, it returns as a regression
    Resolve(ResolveArgs),
    /// Mute a pattern, for a time or indefinitely
    Mute(MuteArgs),
    /// Assign a pattern to a person or team
    Assign(PatternAssignArgs),
    /// Add a note
    Note(PatternNoteArgs),
    /// Merge a pattern into another
    Merge(PatternMergeArgs),
    /// Undo a merge
    Unmerge(UnmergeArgs),
}

pub(crate) async fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::List(args) => list(args, out).await,
        Command::Show(args) => show(args, out).await,
        Command::Acknowledge(args) => acknowledge(args, out).await,
        Command::Resolve(args) => resolve(args, out).await,
        Command::Mute(args) => mute(args, out).await,
        Command::Assign(args) => assign(args, out).await,
        Command::Note(args) => note(args, out).await,
        Command::Merge(args) => merge(args, out).await,
        Command::Unmerge(args) => unmerge(args, out).await,
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct PatternListArgs {
    /// Only these states
    #[arg(long, value_delimiter = ',', value_parser = word(PatternState::ALL, PatternState::as_str))]
    #[arg(help_heading = "Filter", value_name = "STATE")]
    state: Vec<PatternState>,
    /// Only these reasons
    #[arg(long, value_delimiter = ',', help_heading = "Filter")]
    reason: Vec<Reason>,
    /// Part of the error's template, case-insensitive
    #[arg(short, long, help_heading = "Filter", value_name = "TEXT")]
    q: Option<String>,
    /// Sort order, largest first
    #[arg(long, value_parser = word(PatternSort::ALL, PatternSort::as_str), help_heading = "Page")]
    sort: Option<PatternSort>,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500), help_heading = "Page")]
    limit: u32,
    /// Continue after this cursor of an earlier page
    #[arg(long, help_heading = "Page")]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn list(args: PatternListArgs, out: &mut Printer) -> anyhow::Result<()> {
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
        TextTable::new(["PATTERN", "STATE", "OPEN", "COUNT", "REASON", "OWNER", "LAST SEEN", "ERROR"]).right(&[2, 3]);
    for pattern in &page.patterns {
        let cells = [
            pattern.id.clone(),
            state_name(pattern),
            pattern.open.to_string(),
            pattern.count.to_string(),
            pattern.reason.to_string(),
            or_dash(pattern.owner.as_ref()),
            relative(pattern.last_seen, now()),
            pattern.template.clone(),
        ];
        table.row_with(cells, 1, state_style(pattern));
    }
    out.table(table)?;
    if let Some(cursor) = page.next_cursor {
        out.line(format_args!("\nmore: --cursor {}", escape::shell(&cursor)))?;
    }
    Ok(())
}

/// An acknowledged regression is not highlighted.
pub(super) fn state_name(pattern: &PatternView) -> String {
    match pattern.state {
        PatternState::New if pattern.regression => "regression".into(),
        state @ (PatternState::New | PatternState::Acknowledged | PatternState::Resolved | PatternState::Muted) => {
            state.to_string()
        }
    }
}

pub(super) fn state_style(pattern: &PatternView) -> Style {
    match pattern.state {
        PatternState::New if pattern.regression => Style::Bad,
        PatternState::New => Style::Waiting,
        PatternState::Acknowledged => Style::Plain,
        PatternState::Resolved => Style::Good,
        PatternState::Muted => Style::Faint,
    }
}

/// A sparkline of seven days, six hours per character.
const HOURS_A_BAR: usize = 6;
const BARS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, clap::Args)]
pub(crate) struct PatternShowArgs {
    /// The pattern's id, or a fingerprint
    id: String,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn show(args: PatternShowArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.pattern(&args.id);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    print_page(&call.await?, now(), out)
}

fn print_page(detail: &PatternDetail, now: Timestamp, out: &mut Printer) -> anyhow::Result<()> {
    let (pattern, body) = (&detail.pattern, &detail.body);
    for (name, value) in facts(pattern, now) {
        out.line(format_args!("{name:<13}{}", escape::line(&value)))?;
    }
    out.line(format_args!("{:<13}{}", "last 7 days", bars(&body.hours)))?;
    if !body.merged.is_empty() {
        out.line(format_args!("\n{}", out.styled(Style::Heading, "MERGED INTO IT")))?;
        for part in &body.merged {
            out.line(format_args!("{}  {} failures  {}", part.id, part.count, escape::line(&part.template)))?;
        }
    }
    out.line(format_args!("\n{}", out.styled(Style::Heading, "WHAT HAPPENED")))?;
    for entry in &body.events {
        out.line(history_line(entry))?;
    }
    Ok(out.line(format_args!("\nredrive runs list --pattern {}", escape::shell(&pattern.id)))?)
}

fn facts(pattern: &PatternView, now: Timestamp) -> Vec<(&'static str, String)> {
    let tenants: Vec<&str> = pattern.tenants.iter().map(|tenant| tenant.as_str()).collect();
    let state = match (pattern.muted_until, pattern.resolved_at) {
        (Some(until), _) => format!("{} until {until}", state_name(pattern)),
        (None, Some(at)) => format!("{} {}{}", state_name(pattern), relative(at, now), fixed_in(&pattern.resolved_in)),
        (None, None) => state_name(pattern),
    };
    let mut facts = vec![
        ("template", pattern.template.clone()),
        ("reason", format!("{}, {}", pattern.reason, pattern.category)),
        ("state", state),
        ("open runs", pattern.open.to_string()),
        ("failures", pattern.count.to_string()),
        ("first seen", relative(pattern.first_seen, now)),
        ("last seen", relative(pattern.last_seen, now)),
        ("owner", or_dash(pattern.owner.as_ref())),
        ("tenants", tenants.join(", ")),
        ("fingerprint", pattern.fingerprint.clone()),
    ];
    facts.extend(pattern.merged_into.clone().map(|into| ("part of", into)));
    facts
}

fn fixed_in(versions: &Option<Versions>) -> String {
    let Some(versions) = versions else { return String::new() };
    let words: Vec<String> = versions.iter().map(|(kind, version)| format!("{kind}={version}")).collect();
    format!(" in {}", words.join(", "))
}

/// Scaled to the maximum; any failure shows.
fn bars(hours: &[PatternHour]) -> String {
    let sums: Vec<u64> = hours.chunks(HOURS_A_BAR).map(|hours| hours.iter().map(|hour| hour.failed).sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let top = u64::try_from(BARS.len() - 1).unwrap_or(1);
    let bar = |sum: &u64| usize::try_from((sum * top).div_ceil(most)).ok().and_then(|at| BARS.get(at)).unwrap_or(&' ');
    sums.iter().map(bar).collect()
}

fn history_line(entry: &PatternEntry) -> String {
    let about = entry.about.as_ref().map_or_else(String::new, |about| format!(" {about}"));
    let note = entry.note.as_ref().map_or_else(String::new, |note| format!(": {}", note.decode()));
    let text = format!("{}  {}{about}, by {}{note}", entry.at, entry.event, entry.actor);
    escape::line(&text).into_owned()
}

/// Arguments that every action shares.
#[derive(Debug, clap::Args)]
pub(crate) struct TriageArgs {
    /// The pattern's id, or a fingerprint; with a spanning key and no --tenant, in every tenant
    #[arg(value_name = "PATTERN")]
    id: String,
    /// Reason; recorded with the pattern
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

impl TriageArgs {
    fn reason(&self) -> Option<Text> {
        self.reason.as_deref().map(Text::from)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    args: TriageArgs,
    /// The version with the fix, by kind: worker=abc123; repeatable
    #[arg(long, value_name = "KIND=VERSION", value_parser = parse_version)]
    in_version: Vec<(String, Label)>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MuteArgs {
    #[command(flatten)]
    args: TriageArgs,
    /// Until then: a time, or a distance (15m, 8h, 7d); indefinitely by default
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PatternAssignArgs {
    #[command(flatten)]
    args: TriageArgs,
    /// A person or a team
    #[arg(required_unless_present = "nobody", value_name = "TO")]
    to: Option<String>,
    /// Remove the owner
    #[arg(long, conflicts_with = "to")]
    nobody: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PatternNoteArgs {
    #[arg(value_name = "PATTERN")]
    id: String,
    /// The note's text
    #[arg(value_name = "NOTE")]
    note: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PatternMergeArgs {
    #[command(flatten)]
    args: TriageArgs,
    /// The target pattern: its id, or a fingerprint
    #[arg(value_name = "INTO")]
    into: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UnmergeArgs {
    #[command(flatten)]
    args: TriageArgs,
    /// Only the part of this fingerprint
    #[arg(long)]
    fingerprint: Option<String>,
}

fn parse_version(text: &str) -> Result<(String, Label), String> {
    match text.split_once('=') {
        Some((kind, version)) if !kind.is_empty() && !version.is_empty() => Ok((kind.into(), version.into())),
        Some(_) | None => Err("a version is written with its kind: worker=abc123".into()),
    }
}

pub(crate) async fn acknowledge(args: TriageArgs, out: &mut Printer) -> anyhow::Result<()> {
    let call = args.remote.client()?.acknowledge_pattern(&args.id, args.reason.as_deref());
    print_answer(call, &args.remote, out).await
}

pub(crate) async fn resolve(all: ResolveArgs, out: &mut Printer) -> anyhow::Result<()> {
    let args = all.args;
    let in_version = all.in_version.into_iter().collect();
    let request = ResolvePattern { tenant: None, reason: args.reason(), in_version };
    print_answer(args.remote.client()?.resolve_pattern(&args.id, &request), &args.remote, out).await
}

pub(crate) async fn mute(all: MuteArgs, out: &mut Printer) -> anyhow::Result<()> {
    let args = all.args;
    let until = all.until.map(|until| until.ahead_of(now()));
    let request = MutePattern { tenant: None, reason: args.reason(), until };
    print_answer(args.remote.client()?.mute_pattern(&args.id, &request), &args.remote, out).await
}

pub(crate) async fn assign(all: PatternAssignArgs, out: &mut Printer) -> anyhow::Result<()> {
    let args = all.args;
    let to = all.to.as_deref().map(Label::from);
    let request = AssignPattern { tenant: None, reason: args.reason(), to };
    print_answer(args.remote.client()?.assign_pattern(&args.id, &request), &args.remote, out).await
}

pub(crate) async fn note(args: PatternNoteArgs, out: &mut Printer) -> anyhow::Result<()> {
    print_answer(args.remote.client()?.note_pattern(&args.id, &args.note), &args.remote, out).await
}

pub(crate) async fn merge(all: PatternMergeArgs, out: &mut Printer) -> anyhow::Result<()> {
    let args = all.args;
    let request = MergePattern { tenant: None, reason: args.reason(), into: all.into.as_str().into() };
    print_answer(args.remote.client()?.merge_pattern(&args.id, &request), &args.remote, out).await
}

pub(crate) async fn unmerge(all: UnmergeArgs, out: &mut Printer) -> anyhow::Result<()> {
    let args = all.args;
    let fingerprint = all.fingerprint.as_deref().map(Label::from);
    let request = UnmergePattern { tenant: None, reason: args.reason(), fingerprint };
    print_answer(args.remote.client()?.unmerge_pattern(&args.id, &request), &args.remote, out).await
}

async fn print_answer(call: ApiRequest<PatternView>, remote: &Remote, out: &mut Printer) -> anyhow::Result<()> {
    if remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let pattern = call.await?;
    let state = out.styled(state_style(&pattern), &state_name(&pattern));
    let owner = pattern.owner.as_ref().map_or_else(String::new, |owner| format!(", owner {owner}"));
    let template = escape::line(&pattern.template);
    let figures = format!("{} open, {} failures{}", pattern.open, pattern.count, escape::line(&owner));
    Ok(out.line(format_args!("{}  {state}  {figures}  {template}", pattern.id))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_days_are_a_line_of_bars() {
        let mut hours: Vec<PatternHour> =
            (0..168).map(|_| PatternHour { hour: Timestamp::default(), failed: 0 }).collect();
        assert_eq!(bars(&hours), "·".repeat(28));
        (hours[167].failed, hours[161].failed) = (800, 1);
        assert!(bars(&hours).ends_with("·▁█"));
    }
}
