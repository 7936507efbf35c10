//! `redrive completions`

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::out::Out;

#[derive(Debug, clap::Args)]
#[command(after_long_help = "For bash: redrive completions bash > /etc/bash_completion.d/redrive")]
pub(crate) struct Args {
    shell: Shell,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> anyhow::Result<()> {
    // Into memory first: the generator panics when its writer fails, and a pipe may be closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "redrive", &mut script);
    Ok(out.bytes(&script)?)
}
