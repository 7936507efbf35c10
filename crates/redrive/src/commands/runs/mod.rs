//! `redrive runs`: list, read, follow and decide.

mod list;
mod page;
pub(crate) mod plan;
mod show;
mod tail;
mod triage;

use clap::Subcommand;

use crate::out::Printer;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List runs, newest first
    List(Box<list::Args>),
    /// Show a run: history, advice, next commands
    Show(show::Args),
    /// Show what a replay would do: skipped steps, unknown effects, required approval
    Plan(Box<plan::Args>),
    /// Replay runs with a fresh retry budget, optionally with a fix
    Replay(Box<triage::ReplayArgs>),
    /// Put runs into review
    Review(triage::Args),
    /// Approve the plan of a run in review, and only that plan
    Approve(triage::ApproveArgs),
    /// Reject runs in review: they stay dead letters
    Reject(triage::Args),
    /// Defer runs until later
    Defer(triage::DeferArgs),
    /// Reassign runs to another agent or queue
    Reassign(triage::ReassignArgs),
    /// Assign runs to a person or team
    Assign(triage::RunAssignArgs),
    /// List likely duplicates of a run
    Duplicates(list::DuplicatesArgs),
    /// Merge duplicate runs into one
    Merge(triage::RunMergeArgs),
    /// Undo a merge
    Unmerge(triage::Args),
    /// Cancel running or scheduled runs; they become dead letters
    Cancel(triage::Args),
    /// Resolve runs: handled elsewhere
    Resolve(triage::Args),
    /// Discard runs: no longer needed
    Discard(triage::Args),
    /// Add a note to runs' history
    Note(triage::RunNoteArgs),
    /// Follow state changes as they happen
    Tail(tail::Args),
}

pub(crate) async fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
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
