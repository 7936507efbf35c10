//! What other programs' own types say of what we make: requests after each change, held against the request types of the
//! `openai` and `anthropic` packages, which are installed into a folder of their own.

use std::fs::File;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Scope, Suite};
use crate::test::needs::Need;
use crate::workspace;

pub(super) const SUITE: Suite = Suite {
    name: "python",
    needs: &[
        Need { program: "python3", package: "python3", why: "requests are checked by the providers' own packages" },
        Need {
            program: "pip3",
            package: "python3-pip",
            why: "those packages are installed into a folder of their own",
        },
    ],
    quick: false,
    command,
};

fn command(scope: &Scope<'_>) -> Result<Command> {
    let root = workspace::root()?;
    let made = root.join("target/rewritten.jsonl");
    let lines = File::create(&made).with_context(|| made.display().to_string())?;
    let mut make = workspace::cargo()?;
    let status =
        make.args(["run", "--quiet", "-p", "redrive-core", "--example", "rewritten"]).stdout(lines).status()?;
    ensure!(status.success(), "the example `rewritten` failed: {status}");
    let mut python = Command::new("python3");
    python.current_dir(&root).arg("tests/python/rewritten.py").arg(&made).args(scope.filter);
    Ok(python)
}
