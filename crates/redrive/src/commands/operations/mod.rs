//! `redrive operations`: one action over many runs.

mod create;
mod list;
mod show;
mod watch;

use clap::Subcommand;
use redrive_core::operation::Steer;

use crate::out::Out;
use crate::remote::Remote;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Do one thing to many runs; with --dry-run only say what it would do
    Create(Box<create::Args>),
    /// The newest first
    List(list::Args),
    /// How far one is, and what stood in the way
    Show(OneArgs),
    /// What became of each run of its set
    Items(list::ItemsArgs),
    /// Start what was previewed
    Start(OneArgs),
    /// Move no more for now
    Pause(OneArgs),
    /// Go on
    Resume(OneArgs),
    /// Move no more; what has moved stays where it went
    Cancel(OneArgs),
    /// Follow one until it ends
    Watch(watch::Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    /// As `redrive operations list` prints it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(command: Command, out: &mut Out) -> anyhow::Result<()> {
    match command {
        Command::Create(args) => create::run(*args, out).await,
        Command::List(args) => list::run(args, out).await,
        Command::Items(args) => list::items(args, out).await,
        Command::Watch(args) => watch::run(args, out).await,
        Command::Show(OneArgs { id, remote }) => {
            let call = remote.client()?.operation(&id);
            show::told(call, &remote, out).await
        }
        Command::Start(args) => steer(args, Steer::Start, out).await,
        Command::Pause(args) => steer(args, Steer::Pause, out).await,
        Command::Resume(args) => steer(args, Steer::Resume, out).await,
        Command::Cancel(args) => steer(args, Steer::Cancel, out).await,
    }
}

async fn steer(args: OneArgs, by: Steer, out: &mut Out) -> anyhow::Result<()> {
    let OneArgs { id, remote } = args;
    let call = remote.client()?.steer_operation(&id, by);
    show::told(call, &remote, out).await
}
