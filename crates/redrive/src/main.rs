//! The binary: one file for each command, and the configuration.

mod args;
mod cli;
mod commands;
mod config;
mod escape;
mod failure;
mod log;
mod out;
mod whole;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::out::Printer;

/// Reports are allocated on one thread and freed on another, which the system allocator serialises.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = Printer::stdout();
    let result = run(cli.command, &mut out).and_then(|()| Ok(out.flush()?));
    failure::exit_code(result)
}

fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    use commands::{
        breakers, classify, demo, doctor, effects, generate, health, keys, operations, patterns, preflight, queues,
        runs, serve, spool, store, tenants,
    };
    match command {
        Command::Demo(args) => demo::run(&args, out),
        Command::Serve(args) => serve::run(args, out),
        Command::Runs(command) => commands::block_on(runs::run(command, out)),
        Command::Operations(command) => commands::block_on(operations::run(command, out)),
        Command::Effects(command) => commands::block_on(effects::run(command, out)),
        Command::Patterns(command) => commands::block_on(patterns::run(command, out)),
        Command::Queues(command) => commands::block_on(queues::run(command, out)),
        Command::Tenants(command) => commands::block_on(tenants::run(command, out)),
        Command::Breakers(args) => commands::block_on(breakers::of_everybody(args, out)),
        Command::Health(args) => commands::block_on(health::health(args, out)),
        Command::Stats(args) => commands::block_on(health::stats(args, out)),
        Command::Spool(command) => commands::block_on(spool::run(command, out)),
        Command::Keys(command) => keys::run(command, out),
        Command::Store(command) => store::run(command, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Classify(args) => classify::run(&args, out),
        Command::Preflight(args) => preflight::run(&args, out),
        Command::Completions(args) => generate::completions(&args, out),
        Command::Generate(args) => generate::run(&args, out),
    }
}
