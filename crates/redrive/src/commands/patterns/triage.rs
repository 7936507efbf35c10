//! `redrive patterns acknowledge|resolve|mute|assign|note|merge|unmerge`: what is done about a cause.

use redrive_client::Call;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{AssignPattern, MergePattern, MutePattern, PatternView, ResolvePattern, UnmergePattern};

use super::list::{state, style};
use crate::commands::now;
use crate::escape;
use crate::out::Out;
use crate::remote::Remote;
use crate::when::When;

/// What every act takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pattern's id, or a fingerprint; with a key that spans tenants and no --tenant, every tenant's of it
    #[arg(value_name = "PATTERN")]
    id: String,
    /// Why; kept with the pattern
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

impl Args {
    fn reason(&self) -> Option<Text> {
        self.reason.as_deref().map(Text::from)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    args: Args,
    /// The version that has the fix, by its kind: worker=abc123; several times for several kinds
    #[arg(long, value_name = "KIND=VERSION", value_parser = version)]
    in_version: Vec<(String, Label)>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MuteArgs {
    #[command(flatten)]
    args: Args,
    /// Until then: a time, or for how long (15m, 8h, 7d); for good unless told
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AssignArgs {
    #[command(flatten)]
    args: Args,
    /// A person or a team
    #[arg(required_unless_present = "nobody", value_name = "TO")]
    to: Option<String>,
    /// Take it from its owner
    #[arg(long, conflicts_with = "to")]
    nobody: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct NoteArgs {
    #[arg(value_name = "PATTERN")]
    id: String,
    /// What to remember
    #[arg(value_name = "NOTE")]
    note: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    args: Args,
    /// The pattern that it becomes part of: its id, or a fingerprint
    #[arg(value_name = "INTO")]
    into: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UnmergeArgs {
    #[command(flatten)]
    args: Args,
    /// Only the part of this fingerprint
    #[arg(long)]
    fingerprint: Option<String>,
}

fn version(text: &str) -> Result<(String, Label), String> {
    match text.split_once('=') {
        Some((kind, version)) if !kind.is_empty() && !version.is_empty() => Ok((kind.into(), version.into())),
        Some(_) | None => Err("a version is written with its kind: worker=abc123".into()),
    }
}

pub(crate) async fn acknowledge(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let call = args.remote.client()?.acknowledge_pattern(&args.id, args.reason.as_deref());
    told(call, &args.remote, out).await
}

pub(crate) async fn resolve(all: ResolveArgs, out: &mut Out) -> anyhow::Result<()> {
    let args = all.args;
    let in_version = all.in_version.into_iter().collect();
    let request = ResolvePattern { tenant: None, reason: args.reason(), in_version };
    told(args.remote.client()?.resolve_pattern(&args.id, &request), &args.remote, out).await
}

pub(crate) async fn mute(all: MuteArgs, out: &mut Out) -> anyhow::Result<()> {
    let args = all.args;
    let until = all.until.map(|until| until.ahead_of(now()));
    let request = MutePattern { tenant: None, reason: args.reason(), until };
    told(args.remote.client()?.mute_pattern(&args.id, &request), &args.remote, out).await
}

pub(crate) async fn assign(all: AssignArgs, out: &mut Out) -> anyhow::Result<()> {
    let args = all.args;
    let to = all.to.as_deref().map(Label::from);
    let request = AssignPattern { tenant: None, reason: args.reason(), to };
    told(args.remote.client()?.assign_pattern(&args.id, &request), &args.remote, out).await
}

pub(crate) async fn note(args: NoteArgs, out: &mut Out) -> anyhow::Result<()> {
    told(args.remote.client()?.note_pattern(&args.id, &args.note), &args.remote, out).await
}

pub(crate) async fn merge(all: MergeArgs, out: &mut Out) -> anyhow::Result<()> {
    let args = all.args;
    let request = MergePattern { tenant: None, reason: args.reason(), into: all.into.as_str().into() };
    told(args.remote.client()?.merge_pattern(&args.id, &request), &args.remote, out).await
}

pub(crate) async fn unmerge(all: UnmergeArgs, out: &mut Out) -> anyhow::Result<()> {
    let args = all.args;
    let fingerprint = all.fingerprint.as_deref().map(Label::from);
    let request = UnmergePattern { tenant: None, reason: args.reason(), fingerprint };
    told(args.remote.client()?.unmerge_pattern(&args.id, &request), &args.remote, out).await
}

async fn told(call: Call<PatternView>, remote: &Remote, out: &mut Out) -> anyhow::Result<()> {
    if remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let pattern = call.await?;
    let state = out.styled(style(&pattern), &state(&pattern));
    let owner = pattern.owner.as_ref().map_or_else(String::new, |owner| format!(", owner {owner}"));
    let template = escape::line(&pattern.template);
    let figures = format!("{} open, {} failures{}", pattern.open, pattern.count, escape::line(&owner));
    Ok(out.line(format_args!("{}  {state}  {figures}  {template}", pattern.id))?)
}
