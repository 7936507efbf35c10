//! A thousand seeds of the simulation, 1,000 operations each. A suite of its own: it takes minutes, and what it did is to
//! be seen also when nothing broke.

use std::process::Command;

use anyhow::Result;

use super::{Scope, Suite};
use crate::workspace;

const SEEDS: &str = "1000";
const QUICK_SEEDS: &str = "40";
/// Played so often that a second build of these, with every assertion, costs less than it saves. What they depend on is
/// shared with the other suites.
const FASTER: [&str; 4] = ["redrive-core", "redrive-store", "redrive-server", "redrive-sim"];

pub(super) const SUITE: Suite = Suite { name: "simulation", needs: &[], quick: true, command };

fn command(scope: &Scope<'_>) -> Result<Command> {
    let seeds = if scope.quick { QUICK_SEEDS } else { SEEDS };
    let mut command = workspace::cargo()?;
    command.arg("test");
    for package in FASTER {
        command.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=1"));
    }
    command.args(["--color", "never", "--package", "redrive-sim", "--test", "simulation"]).args(scope.filter);
    command.args(["--", "--nocapture", "--test-threads", "1"]).env("REDRIVE_SIM_SEEDS", seeds);
    Ok(command)
}
