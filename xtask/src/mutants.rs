//! `cargo xtask mutants`: changes the code that holds the promises, one small fault at a time, and counts the faults that
//! the suites catch. A seeded sample of each module, run by hand: every mutant costs a build and a test run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Error, Result, bail, ensure};
use private_postgres::{ADMIN_URL, Server};

use crate::workspace;

/// The goal for each module, in per cent of the viable mutants.
const GOAL: f64 = 90.0;
const DEFAULT_SAMPLE: usize = 12;
/// A mutant that loops is stopped here; the slowest of the suites below takes about a minute.
const TIMEOUT_S: &str = "300";

struct Module {
    name: &'static str,
    /// As cargo-mutants takes them: relative to the workspace.
    files: &'static [&'static str],
}

const MODULES: &[Module] = &[
    Module { name: "lifecycle", files: &["crates/core/src/lifecycle/*.rs"] },
    Module { name: "ledger", files: &["crates/core/src/ledger/*.rs"] },
    Module { name: "guard", files: &["crates/core/src/guard.rs"] },
    Module { name: "breaker", files: &["crates/core/src/breaker/*.rs"] },
    Module { name: "operation", files: &["crates/core/src/operation/*.rs"] },
    Module { name: "plan", files: &["crates/core/src/plan/*.rs"] },
    Module { name: "strategy", files: &["crates/core/src/strategy/*.rs"] },
    Module { name: "transactions", files: &["crates/store/src/commands/*.rs", "crates/store/src/commands/*/*.rs"] },
];

/// The suites that judge a mutant: unit tests of the domain and the store, every verb on both stores, the model.
const JUDGES: &[&str] = &["--lib", "--test", "conformance", "--test", "model"];

struct Call {
    sample: usize,
    seed: u64,
    only: Option<String>,
}

#[derive(Default)]
struct Score {
    caught: usize,
    missed: Vec<String>,
    unviable: usize,
}

impl Score {
    fn per_cent(&self) -> f64 {
        let viable = self.caught + self.missed.len();
        if viable == 0 { 100.0 } else { 100.0 * self.caught as f64 / viable as f64 }
    }
}

pub(crate) fn run(args: &[&str]) -> Result<ExitCode> {
    let call = parse(args)?;
    install_if_missing()?;
    let postgres = Server::start().map_err(Error::msg).context("a PostgreSQL for the suites")?;
    let mut scores = Vec::new();
    for module in MODULES.iter().filter(|module| call.only.as_deref().is_none_or(|only| only == module.name)) {
        let chosen = sample(list(module)?, call.sample, call.seed);
        println!("{}: {} mutants", module.name, chosen.len());
        scores.push((module.name, judge(module, &chosen, postgres.url())?));
    }
    let names = || MODULES.iter().map(|module| module.name).collect::<Vec<_>>().join(", ");
    ensure!(!scores.is_empty(), "no such module; there are {}", names());
    print!("{}", render(&scores, call.seed));
    Ok(if scores.iter().all(|(_, score)| score.per_cent() >= GOAL) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(args: &[&str]) -> Result<Call> {
    let mut call = Call { sample: DEFAULT_SAMPLE, seed: 1, only: None };
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match *flag {
            "--sample" => call.sample = value.parse().context("--sample")?,
            "--seed" => call.seed = value.parse().context("--seed")?,
            "--only" => call.only = Some((*value).to_owned()),
            other => bail!("unknown flag {other}: --sample N, --seed N, --only MODULE"),
        }
    }
    Ok(call)
}

fn install_if_missing() -> Result<()> {
    let there = workspace::cargo()?.args(["mutants", "--version"]).output().is_ok_and(|done| done.status.success());
    if there {
        return Ok(());
    }
    println!("installing cargo-mutants");
    let installed = workspace::cargo()?.args(["install", "--locked", "--quiet", "cargo-mutants"]).status()?;
    ensure!(installed.success(), "cargo-mutants could not be installed: {installed}");
    Ok(())
}

fn mutants(module: &Module) -> Result<Command> {
    let mut command = workspace::cargo()?;
    command.arg("mutants");
    for file in module.files {
        command.args(["--file", file]);
    }
    Ok(command)
}

fn list(module: &Module) -> Result<Vec<String>> {
    let listed = mutants(module)?.arg("--list").output().context("cargo mutants --list")?;
    ensure!(listed.status.success(), "cargo mutants --list: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout)?;
    Ok(names.lines().filter(|name| !is_test_code(name)).map(str::to_owned).collect())
}

fn is_test_code(mutant: &str) -> bool {
    mutant.split(':').next().is_some_and(|file| file.ends_with("tests.rs"))
}

/// The same sample for the same seed and code.
fn sample(mut names: Vec<String>, most: usize, seed: u64) -> Vec<String> {
    let mut state = seed;
    for last in (1..names.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 33) as usize % (last + 1);
        names.swap(last, at);
    }
    names.truncate(most);
    names
}

fn judge(module: &Module, chosen: &[String], postgres: &str) -> Result<Score> {
    if chosen.is_empty() {
        return Ok(Score::default());
    }
    let out = workspace::root()?.join("target/mutants").join(module.name);
    fs::create_dir_all(&out)?;
    let mut command = mutants(module)?;
    for name in chosen {
        command.arg("--re").arg(format!("^{}$", escaped(name)));
    }
    command.args(["--timeout", TIMEOUT_S, "--no-times", "--output"]).arg(&out);
    command.args(["--test-package", "redrive-core", "--test-package", "redrive-store"]);
    command.arg("--").args(JUDGES).env(ADMIN_URL, postgres);
    // Its exit code says whether one was missed; the score says more.
    command.status().context("cargo mutants")?;
    read_score(&out.join("mutants.out"))
}

fn read_score(folder: &Path) -> Result<Score> {
    let lines = |name: &str| -> Result<Vec<String>> {
        let path: PathBuf = folder.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    Ok(Score {
        // A suite that does not end has noticed too.
        caught: lines("caught.txt")?.len() + lines("timeout.txt")?.len(),
        missed: lines("missed.txt")?,
        unviable: lines("unviable.txt")?.len(),
    })
}

fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len() * 2);
    for letter in name.chars() {
        if !letter.is_alphanumeric() && letter.is_ascii() && letter != ' ' && letter != '_' {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn render(scores: &[(&str, Score)], seed: u64) -> String {
    let mut out = format!("\nmutants, seed {seed}; goal {GOAL} % of the viable ones\n");
    for (name, score) in scores {
        let viable = score.caught + score.missed.len();
        let met = if score.per_cent() >= GOAL { "met" } else { "missed" };
        out += &format!(
            "  {name:<14}{:>4} of {viable:<4}{:>6.1} %  {met}  ({} unviable)\n",
            score.caught,
            score.per_cent(),
            score.unviable
        );
        for mutant in &score.missed {
            out += &format!("      not caught: {mutant}\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sample() {
        let names: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        let first = sample(names.clone(), 10, 7);
        assert_eq!(first.len(), 10);
        assert_eq!(first, sample(names.clone(), 10, 7));
        assert_ne!(first, sample(names, 10, 8));
    }

    #[test]
    fn a_score_counts_viable_mutants_only() {
        let score = Score { caught: 9, missed: vec!["a".into()], unviable: 5 };
        assert!((score.per_cent() - 90.0).abs() < 1e-9);
        let said = render(&[("guard", score)], 3);
        assert!(said.contains("guard            9 of 10    90.0 %  met  (5 unviable)"), "{said}");
        assert!(said.contains("not caught: a"), "{said}");
    }

    #[test]
    fn a_mutant_is_named_exactly() {
        assert_eq!(escaped("a.rs:1:2: replace f -> x"), r"a\.rs\:1\:2\: replace f \-\> x");
    }

    #[test]
    fn test_modules_are_not_mutated() {
        assert!(is_test_code("crates/core/src/plan/tests.rs:3:1: replace f with ()"));
        assert!(!is_test_code("crates/core/src/plan/made.rs:3:1: replace f with ()"));
    }
}
