//! The Python SDK against the built binary: its own tests, the scenarios that every SDK plays, its wheel in a fresh
//! environment, and real agent frameworks. What it needs from PyPI goes into `target/sdk-python`, once.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{Scope, Suite};
use crate::test::needs::Need;
use crate::workspace;

pub(super) const SUITE: Suite = Suite {
    name: "sdk-python",
    needs: &[
        Need { program: "python3", package: "python3", why: "the Python SDK is tested with it" },
        Need {
            program: "pip3",
            package: "python3-pip",
            why: "agent frameworks are installed into folders of their own",
        },
    ],
    quick: false,
    command,
};

fn command(scope: &Scope<'_>) -> Result<Command> {
    let root = workspace::root()?;
    let status = workspace::cargo()?.args(["build", "--quiet", "-p", "redrive"]).status()?;
    ensure!(status.success(), "the binary could not be built: {status}");
    let mut python = Command::new("python3");
    python.current_dir(&root).arg("sdk/python/tests/run.py").args(scope.filter);
    Ok(python)
}
