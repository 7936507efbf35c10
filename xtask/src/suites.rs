//! The suites that `cargo xtask test` runs. A new one is a `Suite` and its line in [`ALL`].

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, Result, ensure};

use crate::needs::Need;
use crate::workspace;

/// What of the suites is to run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scope<'a> {
    /// Only tests whose name contains it.
    pub(crate) filter: Option<&'a str>,
    /// The inner loop: minutes, not the whole.
    pub(crate) quick: bool,
}

pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What must be on the machine before the suite can run.
    pub(crate) needs: &'static [Need],
    /// Part of the inner loop.
    pub(crate) quick: bool,
    /// A command that prints as `cargo test` does.
    pub(crate) command: fn(&Scope<'_>) -> Result<Command>,
}

/// In the order in which they run.
pub(crate) const ALL: &[Suite] = &[WORKSPACE, SIMULATION, PYTHON, SDK_PYTHON, BROWSER];

/// Every test that cargo knows, and the whole-system tests of the binary, which start it by the path that cargo gives them.
const WORKSPACE: Suite = Suite {
    name: "workspace",
    needs: &[
        Need { program: "cc", package: "build-essential", why: "SQLite is compiled from its C source" },
        Need { program: "mount", package: "mount", why: "a small disk is filled up" },
        Need {
            program: "pg_ctlcluster",
            package: "postgresql",
            why: "every suite of the store runs over PostgreSQL too",
        },
        Need { program: "runuser", package: "util-linux", why: "PostgreSQL refuses to be root" },
        Need { program: "openssl", package: "openssl", why: "a PostgreSQL is given a certificate" },
        Need { program: "kill", package: "procps", why: "servers are stopped by their signals" },
    ],
    quick: true,
    command: workspace_command,
};

/// What most changes break first, without the suites that take minutes each.
const QUICK_TARGETS: [&str; 8] = ["--lib", "--bins", "--test", "conformance", "--test", "api", "--test", "growth"];

fn workspace_command(scope: &Scope<'_>) -> Result<Command> {
    let mut command = workspace::cargo()?;
    command.args(["test", "--color", "never", "--workspace", "--no-fail-fast"]);
    if scope.quick {
        command.args(QUICK_TARGETS);
    }
    command.args(scope.filter);
    Ok(command)
}

const SIMULATION_SEEDS: &str = "1000";
const QUICK_SIMULATION_SEEDS: &str = "40";
/// Optimised for the simulation: the second build costs less than it saves. Their dependencies are shared with the other
/// suites.
const OPTIMISED: [&str; 5] = ["redrive-core", "redrive-engine", "redrive-store", "redrive-server", "redrive-sim"];

/// Many seeds of the simulation, 1,000 operations each.
const SIMULATION: Suite = Suite { name: "simulation", needs: &[], quick: true, command: simulation_command };

fn simulation_command(scope: &Scope<'_>) -> Result<Command> {
    let seeds = if scope.quick { QUICK_SIMULATION_SEEDS } else { SIMULATION_SEEDS };
    let mut command = workspace::cargo()?;
    command.arg("test");
    for package in OPTIMISED {
        command.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=1"));
    }
    command.args(["--color", "never", "--package", "redrive-sim", "--test", "simulation"]).args(scope.filter);
    command.args(["--", "--nocapture", "--test-threads", "1"]).env("REDRIVE_SIM_SEEDS", seeds);
    Ok(command)
}

/// Rewritten requests, checked by the request types of the `openai` and `anthropic` packages.
const PYTHON: Suite = Suite {
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
    command: python_command,
};

fn python_command(scope: &Scope<'_>) -> Result<Command> {
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

/// The Python SDK against the built binary: its tests, the shared scenarios, its wheel, real agent frameworks.
const SDK_PYTHON: Suite = Suite {
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
    command: sdk_python_command,
};

fn sdk_python_command(scope: &Scope<'_>) -> Result<Command> {
    let root = workspace::root()?;
    let status = workspace::cargo()?.args(["build", "--quiet", "-p", "redrive"]).status()?;
    ensure!(status.success(), "the binary could not be built: {status}");
    let mut python = Command::new("python3");
    python.current_dir(&root).arg("sdk/python/tests/run.py").args(scope.filter);
    Ok(python)
}

/// The desk in Chromium, driven by `node --test`.
const BROWSER: Suite = Suite {
    name: "browser",
    needs: &[
        Need { program: "chromium", package: "chromium", why: "pages are looked at in a real browser" },
        Need { program: "node", package: "nodejs", why: "it drives the browser" },
        Need { program: "npm", package: "npm", why: "what drives it is installed into a folder of its own" },
    ],
    quick: false,
    command: browser_command,
};

fn browser_command(scope: &Scope<'_>) -> Result<Command> {
    let root = workspace::root()?;
    let built = workspace::cargo()?.args(["build", "--quiet", "-p", "redrive"]).status()?;
    ensure!(built.success(), "the build of the binary failed: {built}");
    let mut files: Vec<PathBuf> = fs::read_dir(root.join("tests/browser"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    files.retain(|path| path.to_string_lossy().ends_with(".test.mjs"));
    files.sort();
    let mut node = Command::new("node");
    node.current_dir(&root).args(["--test", "--test-reporter=./tests/browser/reporter.mjs"]);
    node.args(scope.filter.map(|filter| format!("--test-name-pattern={filter}"))).args(files);
    Ok(node)
}
