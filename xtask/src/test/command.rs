//! The steps of `cargo xtask test`.

use std::io;
use std::process::ExitCode;

use anyhow::{Context, Error, Result};
use private_postgres::{ADMIN_URL, Server};

use super::tally::Tally;
use super::{needs, report, stream};
use crate::suites::{self, Suite};

pub(crate) fn run(filter: Option<&str>) -> Result<ExitCode> {
    needs::provide(suites::ALL.iter().flat_map(|suite| suite.needs))?;
    // One for all suites; it goes when this does.
    let postgres = Server::start().map_err(Error::msg).context("a PostgreSQL for the suites")?;
    let mut tally = Tally::default();
    for suite in suites::ALL {
        run_suite(suite, filter, postgres.url(), &mut tally).with_context(|| format!("suite {}", suite.name))?;
    }
    print!("{}", report::render(&tally));
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_suite(suite: &Suite, filter: Option<&str>, postgres: &str, tally: &mut Tally) -> Result<()> {
    println!("suite {}", suite.name);
    let mut command = (suite.command)(filter)?;
    command.env(ADMIN_URL, postgres);
    let status = stream::run(command, &mut io::stdout(), |line| tally.line(line))?;
    tally.end_of_suite(suite.name, status.success());
    Ok(())
}
