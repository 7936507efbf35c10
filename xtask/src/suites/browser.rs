//! The desk in a real browser: the binary as it is built for tests, Chromium without a window, and people in front of it.
//! The packages that drive it are installed into a folder of their own.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{Scope, Suite};
use crate::test::needs::Need;
use crate::workspace;

pub(super) const SUITE: Suite = Suite {
    name: "browser",
    needs: &[
        Need { program: "chromium", package: "chromium", why: "pages are looked at in a real browser" },
        Need { program: "node", package: "nodejs", why: "it drives the browser" },
        Need { program: "npm", package: "npm", why: "what drives it is installed into a folder of its own" },
    ],
    quick: false,
    command,
};

fn command(scope: &Scope<'_>) -> Result<Command> {
    let root = workspace::root()?;
    let built = workspace::cargo()?.args(["build", "--quiet", "-p", "redrive"]).status()?;
    ensure!(built.success(), "the build of the binary failed: {built}");
    let mut node = Command::new("node");
    node.current_dir(&root).arg("tests/browser/run.mjs").args(scope.filter);
    Ok(node)
}
