//! `redrive runs replay|cancel|resolve|discard|note`: each for one run or several. Each run is answered by itself; one
//! that is refused does not stop the others.

use redrive_client::{Call, Client, Error};
use redrive_core::ids::RunId;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{ReplayRequest, StateAnswer};

use super::proposal::Proposal;
use crate::failure::{AlreadyTold, tell};
use crate::out::Out;
use crate::remote::Remote;
use crate::words::style_of;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(required = true, value_name = "RUN_ID")]
    pub(super) run_ids: Vec<RunId>,
    /// Why; kept in the run's history
    #[arg(long)]
    pub(super) reason: Option<String>,
    #[command(flatten)]
    pub(super) remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    args: Args,
    /// Past every guard (closed, unsafe, too many replays): operators only, and a reason is needed
    #[arg(long, requires = "reason")]
    force: bool,
    /// Only if the plan is still this one
    #[arg(long, value_name = "HASH")]
    plan_hash: Option<String>,
    #[command(flatten)]
    proposal: Proposal,
}

#[derive(Debug, clap::Args)]
pub(crate) struct NoteArgs {
    #[arg(required = true, value_name = "RUN_ID")]
    run_ids: Vec<RunId>,
    /// What to remember
    #[arg(required = true, value_name = "NOTE")]
    note: String,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn replay(args: ReplayArgs, out: &mut Out) -> anyhow::Result<()> {
    let ReplayArgs { args, force, plan_hash, proposal } = args;
    let request = ReplayRequest {
        reason: args.reason.as_deref().map(Text::from),
        force,
        plan_hash: plan_hash.as_deref().map(Label::from),
        ..proposal.request()?
    };
    each(&args.run_ids, &args.remote, out, |client, run_id| client.replay(run_id, &request)).await
}

pub(crate) async fn cancel(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.cancel(run_id, reason)).await
}

pub(crate) async fn resolve(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.resolve(run_id, reason)).await
}

pub(crate) async fn discard(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let reason = args.reason.as_deref();
    each(&args.run_ids, &args.remote, out, |client, run_id| client.discard(run_id, reason)).await
}

pub(crate) async fn note(args: NoteArgs, out: &mut Out) -> anyhow::Result<()> {
    each(&args.run_ids, &args.remote, out, |client, run_id| client.note(run_id, &args.note)).await
}

pub(super) async fn each<T>(
    run_ids: &[RunId],
    remote: &Remote,
    out: &mut Out,
    verb: impl Fn(&Client, &RunId) -> Call<T>,
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
            // The next one would fare no better.
            Err(error) => return Err(error.into()),
        }
    }
    if all_went_well { Ok(()) } else { Err(AlreadyTold.into()) }
}

/// A refused key or a missing tenant would be the same for every run.
fn concerns_one_run(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if matches!(problem.status, 404 | 409))
}
