//! The project's own commands: `cargo xtask test`, `torture`, `seeded`, `mutants`, `bench`, `names`, `generate`, `verify`.
//! This file only reads the command line; each command is a module.

#![allow(clippy::print_stdout, reason = "a command-line tool: what it prints is what it is for")]

mod generated;
mod mutants;
mod names;
mod needs;
mod release;
mod seeded;
mod suites;
mod tally;
mod test;
mod workspace;

use std::env;
use std::process::ExitCode;

use suites::Scope;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [FILTER]   set up what the suites need, run them all, end with `N passed, N failed`;
                  FILTER runs only the tests whose name contains it; --quick is the inner loop: a part of
                  the suites, under five minutes once built
  torture [FLAGS] the real binary, killed, stopped, cut off and starved while clients keep a record: --minutes N,
                  --store sqlite|postgres, --seed N
  seeded [NAME]   put bugs that others had into a copy of the tree, one by one: the suites must turn red;
                  --check only says whether each still fits the code
  mutants [FLAGS] small faults in the code that holds the promises: prints how many the suites catch, by module;
                  --sample N of each module, --seed N, --only MODULE,MODULE, --units (the domain's unit tests alone)
  bench [FLAGS]   measure beside raw SQLite in one run: --only classify|preflight|ingest|claims|operations|lists|pages|sdk|abuse, --pairs N,
                  --runs N, --large N, --huge N, --part NAME (one part of abuse), --json FILE
  names [FLAGS]   list type names that product code defines more than once; --most N fails above N
  generate        write the files that are made from the code
  verify          fail if a file that is made from the code is not what the code says";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["test"] => test::run(&Scope::default()),
        ["test", "--quick"] => test::run(&Scope { quick: true, filter: None }),
        // `test --help` is a question about the command, not a filter.
        ["test", filter] if !filter.starts_with('-') => test::run(&Scope { filter: Some(filter), quick: false }),
        ["bench", flags @ ..] => release::bench(flags),
        ["torture", flags @ ..] => release::torture(flags),
        ["seeded", rest @ ..] => seeded::run(rest),
        ["mutants", flags @ ..] => mutants::run(flags),
        ["names", flags @ ..] => names::run(flags),
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
