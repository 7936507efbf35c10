//! A thousand seeds of the simulation, 1,000 operations each. A suite of its own: it takes minutes, and what it did is to
//! be seen also when nothing broke.

use std::process::Command;

use anyhow::Result;

use super::Suite;
use crate::workspace;

const SEEDS: &str = "1000";

pub(super) const SUITE: Suite = Suite { name: "simulation", needs: &[], command };

fn command(filter: Option<&str>) -> Result<Command> {
    let mut command = workspace::cargo()?;
    command.args(["test", "--color", "never", "-p", "redrive-sim", "--test", "simulation"]).args(filter);
    command.args(["--", "--nocapture", "--test-threads", "1"]).env("REDRIVE_SIM_SEEDS", SEEDS);
    Ok(command)
}
