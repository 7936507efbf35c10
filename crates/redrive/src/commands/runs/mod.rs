//! `redrive runs`: list, read, follow and decide.

mod list;
mod page;
pub(crate) mod plan;
mod show;
mod tail;
mod triage;

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
    Approve(triage::ApproveArgs),
    /// Say no: the runs are dead as they were
    Reject(triage::Args),
    /// Put runs off until later, and out of the list
    Defer(triage::DeferArgs),
    /// Give runs to another agent or queue
    Reassign(triage::ReassignArgs),
    /// Give runs somebody who looks after them
    Assign(triage::AssignArgs),
    /// Runs that look like the same work
    Duplicates(list::DuplicatesArgs),
    /// Make runs part of another that is the same work
    Merge(triage::MergeArgs),
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
        Command::Review(args) => triage::review(args, out).await,
        Command::Approve(args) => triage::approve(args, out).await,
        Command::Reject(args) => triage::reject(args, out).await,
        Command::Defer(args) => triage::defer(args, out).await,
        Command::Reassign(args) => triage::reassign(args, out).await,
        Command::Assign(args) => triage::assign(args, out).await,
        Command::Duplicates(args) => list::duplicates(args, out).await,
        Command::Merge(args) => triage::merge(args, out).await,
        Command::Unmerge(args) => triage::unmerge(args, out).await,
        Command::Cancel(args) => triage::cancel(args, out).await,
        Command::Resolve(args) => triage::resolve(args, out).await,
        Command::Discard(args) => triage::discard(args, out).await,
        Command::Note(args) => triage::note(args, out).await,
        Command::Tail(args) => tail::run(args, out).await,
    }
}
