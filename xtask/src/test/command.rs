//! The steps of `cargo xtask test`.

use std::io;
use std::process::ExitCode;

use anyhow::{Context, Error, Result};
use private_postgres::{ADMIN_URL, Server};

use super::tally::Tally;
use super::{needs, report, stream};
use crate::suites::{self, Scope, Suite};

pub(crate) fn run(scope: &Scope<'_>) -> Result<ExitCode> {
    let (chosen, left_out): (Vec<&Suite>, Vec<&Suite>) =
        suites::ALL.iter().partition(|suite| suite.quick || !scope.quick);
    needs::provide(chosen.iter().flat_map(|suite| suite.needs))?;
    // One for all suites; it goes when this does.
    let postgres = Server::start().map_err(Error::msg).context("a PostgreSQL for the suites")?;
    let mut tally = Tally::default();
    for suite in chosen {
        run_suite(suite, scope, postgres.url(), &mut tally).with_context(|| format!("suite {}", suite.name))?;
    }
    if scope.quick {
        let names: Vec<&str> = left_out.iter().map(|suite| suite.name).collect();
        println!("\nquick: only a part of each suite ran, and nothing of {}", names.join(", "));
    }
    print!("{}", report::render(&tally));
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_suite(suite: &Suite, scope: &Scope<'_>, postgres: &str, tally: &mut Tally) -> Result<()> {
    println!("suite {}", suite.name);
    let mut command = (suite.command)(scope)?;
    command.env(ADMIN_URL, postgres);
    let status = stream::run(command, &mut io::stdout(), |line| tally.line(line))?;
    tally.end_of_suite(suite.name, status.success());
    Ok(())
}
