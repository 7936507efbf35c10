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
    Openapi,
    Transitions,
    Cli,
    Config,
    Taxonomy,
    Errors,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> anyhow::Result<()> {
    let text = match args.what {
        What::Openapi => format!("{:#}\n", redrive_server::openapi()),
        What::Transitions => redrive_core::lifecycle::transition_table(),
        What::Cli => reference::page(),
        What::Config => config::page(),
        What::Taxonomy => redrive_core::classify::taxonomy_markdown(),
        What::Errors => redrive_server::errors_markdown(),
    };
    Ok(out.bytes(text.as_bytes())?)
}
