//! `cargo xtask bench` and `cargo xtask torture`: build the release binary and hand it to the tool of that name. Torture also
//! runs many seeds of the simulation and a long fuzz run, which need nothing but time.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::workspace;

pub(crate) fn bench(args: &[&str]) -> Result<ExitCode> {
    let built = workspace::cargo()?
        .args(["build", "--release", "--package", "redrive", "--package", "redrive-bench"])
        .status()
        .context("cargo build")?;
    ensure!(built.success(), "the release build failed");
    let measured = workspace::cargo()?
        .args(["run", "--quiet", "--release", "--package", "redrive-bench", "--"])
        .args(args)
        .status()
        .context("redrive-bench")?;
    Ok(if measured.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Of each, for every minute of torture: together they take about a minute.
const SEEDS_A_MINUTE: f64 = 200.0;
const EXECUTIONS_A_MINUTE: f64 = 20_000.0;

pub(crate) fn torture(args: &[&str]) -> Result<ExitCode> {
    let built = workspace::cargo()?
        .args(["build", "--release", "--package", "redrive", "--package", "redrive-torture"])
        .status()
        .context("cargo build")?;
    ensure!(built.success(), "the release build failed");
    let binary = workspace::root()?.join("target/release/redrive");
    let tortured = workspace::cargo()?
        .args(["run", "--quiet", "--release", "--package", "redrive-torture", "--", "--binary"])
        .arg(binary)
        .args(args)
        .status()
        .context("redrive-torture")?;
    let played = run_as_long(args, "redrive-sim", "--seeds", SEEDS_A_MINUTE)?;
    let fuzzed = run_as_long(args, "redrive-fuzz", "--executions", EXECUTIONS_A_MINUTE)?;
    Ok(if tortured.success() && played && fuzzed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// As long as the torture was.
fn run_as_long(args: &[&str], package: &str, count: &str, a_minute: f64) -> Result<bool> {
    let value = |flag: &str| args.iter().position(|arg| *arg == flag).and_then(|at| args.get(at + 1).copied());
    let minutes: f64 = value("--minutes").and_then(|minutes| minutes.parse().ok()).unwrap_or(1.0);
    let many = format!("{:.0}", minutes * a_minute);
    let done = workspace::cargo()?
        .args(["run", "--quiet", "--profile", "checked", "--package", package, "--", count, &many])
        .args(["--seed", value("--seed").unwrap_or("1")])
        .status()
        .with_context(|| package.to_owned())?;
    Ok(done.success())
}
