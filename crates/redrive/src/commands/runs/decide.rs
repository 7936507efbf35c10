//! `redrive runs review|approve|reject|defer|reassign|assign|merge|unmerge`

use redrive_core::ids::{QueueName, RunId};

use super::triage::{Args, each};
use crate::commands::now;
use crate::out::Out;
use crate::remote::Remote;
use crate::when::When;

#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    run_id: RunId,
    /// The plan that you looked at: `redrive runs plan` shows its hash
    #[arg(long, value_name = "HASH")]
    plan_hash: String,
    /// Why; kept in the run's history
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeferArgs {
    #[command(flatten)]
    args: Args,
    /// Until then: a time, or for how long (15m, 8h, 7d)
    #[arg(long, value_name = "TIME")]
    until: When,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("to").required(true).multiple(true).args(["agent", "queue"]))]
pub(crate) struct ReassignArgs {
    #[command(flatten)]
    args: Args,
    /// The agent to take it
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The queue to put it into, which has to be there
    #[arg(long, value_name = "NAME")]
    queue: Option<QueueName>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AssignArgs {
    #[command(flatten)]
    args: Args,
    /// A person or a team
    #[arg(long, required_unless_present = "nobody", value_name = "NAME")]
    to: Option<String>,
    /// Take it from whoever has it
    #[arg(long, conflicts_with = "to")]
    nobody: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    args: Args,
    /// The run that they are duplicates of
    #[arg(long, value_name = "RUN_ID")]
    into: RunId,
}

pub(crate) async fn review(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.review(run_id, reason)).await
}

pub(crate) async fn approve(args: ApproveArgs, out: &mut Out) -> anyhow::Result<()> {
    let (hash, reason) = (&args.plan_hash, args.reason.as_deref());
    each(&[args.run_id], &args.remote, out, |client, run_id| client.approve(run_id, hash, reason)).await
}

pub(crate) async fn reject(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.reject(run_id, reason)).await
}

pub(crate) async fn defer(args: DeferArgs, out: &mut Out) -> anyhow::Result<()> {
    let DeferArgs { args, until } = args;
    let (until, reason) = (until.ahead_of(now()), args.reason.as_deref());
    each(&args.run_ids, &args.remote, out, |client, run_id| client.defer(run_id, until, reason)).await
}

pub(crate) async fn reassign(args: ReassignArgs, out: &mut Out) -> anyhow::Result<()> {
    let ReassignArgs { args, agent, queue } = args;
    let (agent, reason) = (agent.as_deref(), args.reason.as_deref());
    each(&args.run_ids, &args.remote, out, |client, run_id| client.reassign(run_id, agent, queue.as_ref(), reason))
        .await
}

pub(crate) async fn assign(args: AssignArgs, out: &mut Out) -> anyhow::Result<()> {
    let AssignArgs { args, to, nobody: _ } = args;
    let (to, reason) = (to.as_deref(), args.reason.as_deref());
    each(&args.run_ids, &args.remote, out, |client, run_id| client.assign(run_id, to, reason)).await
}

pub(crate) async fn merge(args: MergeArgs, out: &mut Out) -> anyhow::Result<()> {
    let MergeArgs { args, into } = args;
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.merge(run_id, &into, reason)).await
}

pub(crate) async fn unmerge(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.unmerge(run_id, reason)).await
}
