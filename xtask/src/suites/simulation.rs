//! The simulation at its full figure: a thousand seeds, a million operations. Built like a release, with every assertion
//! of a debug build: it plays as fast as it may and misses nothing.

use std::process::Command;

use anyhow::Result;

use super::Suite;
use crate::workspace;

const SEEDS: &str = "1000";

pub(super) const SUITE: Suite = Suite { name: "simulation", needs: &[], command };

fn command(filter: Option<&str>) -> Result<Command> {
    let mut command = workspace::cargo()?;
    command
        .args(["test", "--color", "never", "--profile", "checked", "-p", "redrive-sim", "--test", "simulation"])
        .env("REDRIVE_SIM_SEEDS", SEEDS)
        .args(filter);
    Ok(command)
}
