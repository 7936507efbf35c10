//! `redrive patterns`

mod list;
mod show;
mod triage;

use clap::Subcommand;

use crate::out::Out;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List patterns, with how many runs wait for each
    List(list::Args),
    /// One pattern: how often, since when, and what was done about it
    Show(show::Args),
    /// Somebody is on it
    Acknowledge(triage::Args),
    /// It is fixed; seen again with the fix, it comes back as a regression
    Resolve(triage::ResolveArgs),
    /// Silence it, for a time or until somebody says otherwise
    Mute(triage::MuteArgs),
    /// Give it an owner
    Assign(triage::AssignArgs),
    /// Add a note
    Note(triage::NoteArgs),
    /// Make it part of another pattern: it is the same thing
    Merge(triage::MergeArgs),
    /// Take it out of the pattern that it was merged into, or take a pattern's parts out
    Unmerge(triage::UnmergeArgs),
}

pub(crate) async fn run(command: Command, out: &mut Out) -> anyhow::Result<()> {
    match command {
        Command::List(args) => list::run(args, out).await,
        Command::Show(args) => show::run(args, out).await,
        Command::Acknowledge(args) => triage::acknowledge(args, out).await,
        Command::Resolve(args) => triage::resolve(args, out).await,
        Command::Mute(args) => triage::mute(args, out).await,
        Command::Assign(args) => triage::assign(args, out).await,
        Command::Note(args) => triage::note(args, out).await,
        Command::Merge(args) => triage::merge(args, out).await,
        Command::Unmerge(args) => triage::unmerge(args, out).await,
    }
}
