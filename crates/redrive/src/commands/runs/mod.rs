//! `redrive runs`

mod decide;
mod duplicates;
mod list;
mod page;
mod plan;
pub(crate) mod proposal;
mod receipt;
mod revision;
mod sent;
mod show;
mod tail;
mod triage;
mod wording;

use clap::Subcommand;

use crate::out::Out;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List runs, newest first
    List(Box<list::Args>),
    /// Everything about one run: what happened, what is advised, what to do next
    Show(show::Args),
    /// What a replay would do: which steps are skipped, what is in doubt, who has to agree
    Plan(Box<plan::Args>),
    /// Send runs round again, with a fresh budget and whatever is to be different
    Replay(Box<triage::ReplayArgs>),
    /// Put runs aside for somebody to decide on
    Review(triage::Args),
    /// Say yes to the plan of a run in review, and to no other
    Approve(decide::ApproveArgs),
    /// Say no: the runs are dead as they were
    Reject(triage::Args),
    /// Put runs off until later, and out of the list
    Defer(decide::DeferArgs),
    /// Give runs to another agent or queue
    Reassign(decide::ReassignArgs),
    /// Give runs somebody who looks after them
    Assign(decide::AssignArgs),
    /// Runs that look like the same work
    Duplicates(duplicates::Args),
    /// Make runs part of another that is the same work
    Merge(decide::MergeArgs),
    /// Take runs apart again
    Unmerge(triage::Args),
    /// Stop runs that are under way or waiting; they become dead letters
    Cancel(triage::Args),
    /// Close runs: the matter is settled elsewhere
    Resolve(triage::Args),
    /// Close runs: nobody wants them any more
    Discard(triage::Args),
    /// Add a note to runs' history
    Note(triage::NoteArgs),
    /// Follow what happens, run by run
    Tail(tail::Args),
}

pub(crate) async fn run(command: Command, out: &mut Out) -> anyhow::Result<()> {
    match command {
        Command::List(args) => list::run(*args, out).await,
        Command::Show(args) => show::run(args, out).await,
        Command::Plan(args) => plan::run(*args, out).await,
        Command::Replay(args) => triage::replay(*args, out).await,
        Command::Review(args) => decide::review(args, out).await,
        Command::Approve(args) => decide::approve(args, out).await,
        Command::Reject(args) => decide::reject(args, out).await,
        Command::Defer(args) => decide::defer(args, out).await,
        Command::Reassign(args) => decide::reassign(args, out).await,
        Command::Assign(args) => decide::assign(args, out).await,
        Command::Duplicates(args) => duplicates::run(args, out).await,
        Command::Merge(args) => decide::merge(args, out).await,
        Command::Unmerge(args) => decide::unmerge(args, out).await,
        Command::Cancel(args) => triage::cancel(args, out).await,
        Command::Resolve(args) => triage::resolve(args, out).await,
        Command::Discard(args) => triage::discard(args, out).await,
        Command::Note(args) => triage::note(args, out).await,
        Command::Tail(args) => tail::run(args, out).await,
    }
}
