//! The steps of `cargo xtask test`.

use std::io;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::tally::Tally;
use super::{needs, report, stream};
use crate::suites::{self, Suite};

pub(crate) fn run(filter: Option<&str>) -> Result<ExitCode> {
    needs::provide(suites::ALL.iter().flat_map(|suite| suite.needs))?;
    let mut tally = Tally::default();
    for suite in suites::ALL {
        run_suite(suite, filter, &mut tally).with_context(|| format!("suite {}", suite.name))?;
    }
    print!("{}", report::render(&tally));
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_suite(suite: &Suite, filter: Option<&str>, tally: &mut Tally) -> Result<()> {
    println!("suite {}", suite.name);
    let command = (suite.command)(filter)?;
    let status = stream::run(command, &mut io::stdout(), |line| tally.line(line))?;
    tally.end_of_suite(suite.name, status.success());
    Ok(())
}
