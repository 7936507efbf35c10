//! `redrive generate`: files in git that are made from the code; `cargo xtask generate` writes them.

use clap::ValueEnum;

use crate::commands::reference;
use crate::config;
use crate::out::Out;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    what: What,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    Transitions,
    Cli,
    Config,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> anyhow::Result<()> {
    let text = match args.what {
        What::Transitions => redrive_core::lifecycle::transition_table(),
        What::Cli => reference::page(),
        What::Config => config::page(),
    };
    Ok(out.bytes(text.as_bytes())?)
}
