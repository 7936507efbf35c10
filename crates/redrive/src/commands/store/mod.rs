//! `redrive store`: on stores themselves, with no server at work on them.

mod check;
mod copy;

use clap::Subcommand;

use crate::out::Out;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Copy a store into a new one, between a folder and PostgreSQL or between two of a kind; goes on where it was cut short
    Copy(copy::Args),
    /// Look for damage, and hold every counter against a recount
    Check(check::Args),
}

pub(crate) fn run(command: Command, out: &mut Out) -> anyhow::Result<()> {
    match command {
        Command::Copy(args) => crate::commands::block_on(copy::run(args, out)),
        Command::Check(args) => check::run(&args, out),
    }
}
