//! `redrive runs`

mod list;
mod page;
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
    /// Send runs round again, with a fresh budget
    Replay(triage::ReplayArgs),
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
        Command::Replay(args) => triage::replay(args, out).await,
        Command::Cancel(args) => triage::cancel(args, out).await,
        Command::Resolve(args) => triage::resolve(args, out).await,
        Command::Discard(args) => triage::discard(args, out).await,
        Command::Note(args) => triage::note(args, out).await,
        Command::Tail(args) => tail::run(args, out).await,
    }
}
