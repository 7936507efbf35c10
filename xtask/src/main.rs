//! The project's own commands: `cargo xtask test`, `torture`, `seeded`, `bench`, `generate`, `verify`.
//! This file only reads the command line; each command is a module.

#![allow(clippy::print_stdout, reason = "a command-line tool: what it prints is what it is for")]

mod bench;
mod generated;
mod seeded;
mod suites;
mod test;
mod torture;
mod workspace;

use std::env;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [FILTER]   set up what the suites need, run them all, end with `N passed, N failed`;
                  FILTER runs only the tests whose name contains it
  torture [FLAGS] the real binary, killed, stopped, cut off and starved while clients keep a record: --minutes N,
                  --store sqlite|postgres, --seed N
  seeded [NAME]   put bugs that others had into a copy of the tree, one by one: the suites must turn red;
                  --check only says whether each still fits the code
  bench [FLAGS]   measure beside raw SQLite in one run: --only classify|preflight|ingest|claims|operations|lists|pages|sdk, --pairs N,
                  --runs N, --large N, --huge N, --json FILE
  generate        write the files that are made from the code
  verify          fail if a file that is made from the code is not what the code says";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["test"] => test::run(None),
        // `test --help` is a question about the command, not a filter.
        ["test", filter] if !filter.starts_with('-') => test::run(Some(filter)),
        ["bench", flags @ ..] => bench::run(flags),
        ["torture", flags @ ..] => torture::run(flags),
        ["seeded", rest @ ..] => seeded::run(rest),
        ["generate"] => generated::generate(),
        ["verify"] => generated::verify(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
