//! A short run of each fuzz target, from a fresh seed. The long one belongs to `cargo xtask torture`.

use std::process::Command;

use anyhow::Result;

use super::Suite;
use crate::workspace;

const EXECUTIONS: &str = "3000";

pub(super) const SUITE: Suite = Suite { name: "fuzz", needs: &[], command };

fn command(filter: Option<&str>) -> Result<Command> {
    let mut command = workspace::cargo()?;
    command
        .args(["test", "--color", "never", "--profile", "checked", "-p", "redrive-fuzz", "--test", "fuzz"])
        .env("REDRIVE_FUZZ_EXECUTIONS", EXECUTIONS)
        .args(filter);
    Ok(command)
}
