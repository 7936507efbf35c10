//! `redrive runs replay|review|approve|…`: decisions on one run or several. Each run is answered by itself; a refusal does
//! not stop the others.

use redrive_client::{ApiRequest, Client, Error};
use redrive_core::ids::{QueueName, RunId};
use redrive_core::text::{Label, Text};
use redrive_core::wire::{ReplayRequest, StateAnswer};

use super::plan::Proposal;
use crate::args::{Remote, When};
use crate::commands::now;
use crate::failure::{AlreadyReported, tell};
use crate::out::{Printer, style_of};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(required = true, value_name = "RUN_ID")]
    pub(super) run_ids: Vec<RunId>,
    /// Reason; recorded in the run's history
    #[arg(long)]
    pub(super) reason: Option<String>,
    #[command(flatten)]
    pub(super) remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    args: Args,
    /// Bypass every guard (closed, unsafe, too many replays); operators only, requires --reason
    #[arg(long, requires = "reason")]
    force: bool,
    /// Only if the plan is still this one
    #[arg(long, value_name = "HASH")]
    plan_hash: Option<String>,
    #[command(flatten)]
    proposal: Proposal,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunNoteArgs {
    #[arg(required = true, value_name = "RUN_ID")]
    run_ids: Vec<RunId>,
    /// The note's text
    #[arg(required = true, value_name = "NOTE")]
    note: String,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn replay(args: ReplayArgs, out: &mut Printer) -> anyhow::Result<()> {
    let ReplayArgs { args, force, plan_hash, proposal } = args;
    let request = ReplayRequest {
        reason: args.reason.as_deref().map(Text::from),
        force,
        plan_hash: plan_hash.as_deref().map(Label::from),
        ..proposal.request()?
    };
    each(&args.run_ids, &args.remote, out, |client, run_id| client.replay(run_id, &request)).await
}

pub(crate) async fn cancel(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.cancel(run_id, reason)).await
}

pub(crate) async fn resolve(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.resolve(run_id, reason)).await
}

pub(crate) async fn discard(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.discard(run_id, reason)).await
}

pub(crate) async fn note(args: RunNoteArgs, out: &mut Printer) -> anyhow::Result<()> {
    each(&args.run_ids, &args.remote, out, |client, run_id| client.note(run_id, &args.note)).await
}

pub(super) async fn each<T>(
    run_ids: &[RunId],
    remote: &Remote,
    out: &mut Printer,
    verb: impl Fn(&Client, &RunId) -> ApiRequest<T>,
) -> anyhow::Result<()> {
    let client = remote.client()?;
    let mut all_went_well = true;
    for run_id in run_ids {
        match verb(&client, run_id).text().await {
            Ok(text) if remote.json => out.json(&text)?,
            Ok(text) => {
                let answer: StateAnswer = serde_json::from_str(&text)?;
                let state = out.styled(style_of(answer.state), answer.state.as_str());
                out.line(format_args!("{}  {state}", answer.run_id))?;
            }
            Err(error) if concerns_one_run(&error) => {
                all_went_well = false;
                tell(&format!("{run_id}: {error}"));
            }
            // The next run would fail the same way.
            Err(error) => return Err(error.into()),
        }
    }
    if all_went_well { Ok(()) } else { Err(AlreadyReported.into()) }
}

/// A refused key or a missing tenant would be the same for every run.
fn concerns_one_run(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if matches!(problem.status, 404 | 409))
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    run_id: RunId,
    /// The hash of the plan to approve, as `redrive runs plan` prints it
    #[arg(long, value_name = "HASH")]
    plan_hash: String,
    /// Reason; recorded in the run's history
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeferArgs {
    #[command(flatten)]
    args: Args,
    /// A time, or a distance (15m, 8h, 7d)
    #[arg(long, value_name = "TIME")]
    until: When,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("to").required(true).multiple(true).args(["agent", "queue"]))]
pub(crate) struct ReassignArgs {
    #[command(flatten)]
    args: Args,
    /// The new agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The new queue, which must exist
    #[arg(long, value_name = "NAME")]
    queue: Option<QueueName>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunAssignArgs {
    #[command(flatten)]
    args: Args,
    /// A person or a team
    #[arg(long, required_unless_present = "nobody", value_name = "NAME")]
    to: Option<String>,
    /// Remove the assignee
    #[arg(long, conflicts_with = "to")]
    nobody: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunMergeArgs {
    #[command(flatten)]
    args: Args,
    /// The run to merge into
    #[arg(long, value_name = "RUN_ID")]
    into: RunId,
}

pub(crate) async fn review(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.review(run_id, reason)).await
}

pub(crate) async fn approve(args: ApproveArgs, out: &mut Printer) -> anyhow::Result<()> {
    let (hash, reason) = (&args.plan_hash, args.reason.as_deref());
    each(&[args.run_id], &args.remote, out, |client, run_id| client.approve(run_id, hash, reason)).await
}

pub(crate) async fn reject(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.reject(run_id, reason)).await
}

pub(crate) async fn defer(args: DeferArgs, out: &mut Printer) -> anyhow::Result<()> {
    let DeferArgs { args, until } = args;
    let (until, reason) = (until.ahead_of(now()), args.reason.as_deref());
    each(&args.run_ids, &args.remote, out, |client, run_id| client.defer(run_id, until, reason)).await
}

pub(crate) async fn reassign(args: ReassignArgs, out: &mut Printer) -> anyhow::Result<()> {
    let ReassignArgs { args, agent, queue } = args;
    let (agent, reason) = (agent.as_deref(), args.reason.as_deref());
    each(&args.run_ids, &args.remote, out, |client, run_id| client.reassign(run_id, agent, queue.as_ref(), reason))
        .await
}

pub(crate) async fn assign(args: RunAssignArgs, out: &mut Printer) -> anyhow::Result<()> {
    let RunAssignArgs { args, to, nobody: _ } = args;
    let (to, reason) = (to.as_deref(), args.reason.as_deref());
    each(&args.run_ids, &args.remote, out, |client, run_id| client.assign(run_id, to, reason)).await
}

pub(crate) async fn merge(args: RunMergeArgs, out: &mut Printer) -> anyhow::Result<()> {
    let RunMergeArgs { args, into } = args;
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.merge(run_id, &into, reason)).await
}

pub(crate) async fn unmerge(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.unmerge(run_id, reason)).await
}
