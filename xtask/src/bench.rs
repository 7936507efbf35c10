//! `cargo xtask bench`: builds the release binary and the bench, and hands over. What is measured, and beside what, is
//! in the folder `bench`.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::workspace;

pub(crate) fn run(args: &[&str]) -> Result<ExitCode> {
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
