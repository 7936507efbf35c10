//! `cargo xtask seeded`: applies known bugs to a copy of the tree one by one. The suites must fail for each; a bug that no
//! suite catches is a gap in the tests. `--check` only checks that each patch still applies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// Enough seeds for the simulation to find a bug, and few enough that a gap shows within an hour.
const SIM_SEEDS: &str = "300";
const FUZZ_EXECUTIONS: &str = "20000";

struct Bug {
    name: String,
    patch: PathBuf,
    what: String,
    /// In the order in which they are asked; the first that turns red is enough.
    suites: Vec<String>,
}

pub(crate) fn run(args: &[&str]) -> Result<ExitCode> {
    let bugs = bugs(&workspace::root()?.join("tests/seeded"))?;
    match args {
        ["--check"] => check(&bugs),
        [] => prove(&bugs),
        [name] => {
            let bugs: Vec<Bug> = bugs.into_iter().filter(|bug| bug.name.contains(name)).collect();
            ensure!(!bugs.is_empty(), "no bug is called {name}");
            prove(&bugs)
        }
        _ => bail!("cargo xtask seeded [--check | NAME]"),
    }
}

fn bugs(folder: &Path) -> Result<Vec<Bug>> {
    let mut patches: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    patches.sort();
    patches.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "patch")).map(read).collect()
}

/// What stands above the first difference says what it is and who should see it.
fn read(patch: PathBuf) -> Result<Bug> {
    let text = fs::read_to_string(&patch)?;
    let all = |field: &str| {
        text.lines().filter_map(|line| line.strip_prefix(field)).map(|said| said.trim().to_owned()).collect::<Vec<_>>()
    };
    let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let what = all("Bug:").pop().with_context(|| format!("{name} does not say which bug it is"))?;
    let suites = all("Run:");
    ensure!(!suites.is_empty(), "{name} does not say who should see it");
    Ok(Bug { name, patch, what, suites })
}

fn check(bugs: &[Bug]) -> Result<ExitCode> {
    let tree = workspace::copy("seeded/tree")?;
    let mut stale = 0;
    for bug in bugs {
        if !apply(&tree, bug, &["--check"])? {
            println!("{} does not fit the code any more: make it again", bug.name);
            stale += 1;
        }
    }
    println!("{} patches, {stale} stale", bugs.len());
    Ok(if stale == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn prove(bugs: &[Bug]) -> Result<ExitCode> {
    let mut unseen = 0;
    for bug in bugs {
        let tree = workspace::copy("seeded/tree")?;
        ensure!(apply(&tree, bug, &[])?, "{} does not fit the code any more: make it again", bug.name);
        println!("{}\n  {}", bug.name, bug.what);
        let mut seen = false;
        for suite in &bug.suites {
            let red = red_tests(&tree, suite)?;
            println!(
                "  {suite}: {}",
                if red.is_empty() { "green".to_owned() } else { format!("red: {}", red.join(", ")) }
            );
            if !red.is_empty() {
                seen = true;
                break;
            }
        }
        unseen += usize::from(!seen);
    }
    workspace::copy("seeded/tree")?;
    println!("{} bugs, {unseen} that nobody saw", bugs.len());
    Ok(if unseen == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn apply(tree: &Path, bug: &Bug, more: &[&str]) -> Result<bool> {
    // The copy lies inside of a repository and is none itself.
    let above = tree.parent().context("no folder")?;
    let applied = Command::new("git")
        .arg("apply")
        .args(more)
        .arg(&bug.patch)
        .current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", above)
        .stderr(Stdio::null())
        .status()
        .context("git apply")?;
    Ok(applied.success())
}

/// The names of the tests that failed; none when all passed. What does not build proves nothing.
fn red_tests(tree: &Path, suite: &str) -> Result<Vec<String>> {
    let mut cargo = workspace::cargo()?;
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", tree.with_file_name("build"));
    cargo.args(["test", "--color", "never", "--no-fail-fast"]);
    match suite {
        "simulation" => cargo
            .args(["-p", "redrive-sim", "--test", "simulation"])
            .env("REDRIVE_SIM_SEEDS", SIM_SEEDS)
            .env("REDRIVE_SEED", "1"),
        "fuzz" => cargo
            .args(["-p", "redrive-fuzz", "--test", "fuzz"])
            .env("REDRIVE_FUZZ_EXECUTIONS", FUZZ_EXECUTIONS)
            .env("REDRIVE_SEED", "1"),
        narrow => cargo.args(narrow.split(' ')),
    };
    let done = cargo.stderr(Stdio::piped()).output().context("cargo test")?;
    let said = String::from_utf8_lossy(&done.stdout);
    let red: Vec<String> = said
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .map(str::to_owned)
        .collect();
    if red.is_empty() && !done.status.success() {
        bail!("{suite} neither passed nor failed: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(red)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_names_its_bug_and_suites() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/seeded");
        let bugs = bugs(&folder).unwrap();
        assert!(bugs.len() >= 15, "{}", bugs.len());
    }
}
