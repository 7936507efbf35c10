//! `cargo xtask mutants`: changes the code that holds the promises, one small fault at a time, and counts the faults that
//! the suites catch. cargo-mutants names the faults; here all of them go into one build, each behind a switch, because a
//! build takes a minute and the tests that reach a fault take a second. Run by hand, not in CI.

mod run;
mod switch;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Error, Result, bail, ensure};
use private_postgres::Server;
use serde_json::Value;

use crate::workspace;
use run::{Judge, Suite};
use switch::Change;

/// The goal for each module, in per cent of the viable mutants.
const GOAL: f64 = 90.0;
const DEFAULT_SAMPLE: usize = 200;

const CORE: &str = "redrive-core";
const ENGINE: &str = "redrive-engine";
const STORE: &str = "redrive-store";

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
    Module { name: "transactions", files: &["crates/engine/src/*.rs", "crates/engine/src/*/*.rs"] },
];

/// The suites that judge a mutant, the quickest first. The store's own judge what the domain's do not catch.
const UNITS: Suite = Suite { package: CORE, target: &["--lib"], only: "", rounds: false };
const STORES: &[Suite] = &[
    Suite { package: STORE, target: &["--test", "conformance"], only: "sqlite::", rounds: false },
    Suite { package: STORE, target: &["--lib"], only: "", rounds: false },
    Suite { package: STORE, target: &["--test", "conformance"], only: "postgres::", rounds: false },
    Suite { package: STORE, target: &["--test", "model"], only: "", rounds: true },
];

#[derive(Default)]
struct Call {
    sample: usize,
    seed: u64,
    only: Vec<String>,
    units: bool,
}

struct Mutant {
    name: String,
    module: &'static str,
    package: String,
    file: String,
    change: Change,
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
    let mut mutants = Vec::new();
    for module in
        MODULES.iter().filter(|module| call.only.is_empty() || call.only.iter().any(|only| only == module.name))
    {
        mutants.extend(sample(list(module)?, call.sample, call.seed));
    }
    ensure!(!mutants.is_empty(), "no such module; there are {}", names());
    for (number, mutant) in mutants.iter_mut().enumerate() {
        mutant.change.number = number;
    }
    let tree = workspace::copy("mutants/tree")?;
    let of_core = mutants.iter().any(|mutant| mutant.package == CORE);
    let mut verdicts = vec![None; mutants.len()];
    let units: &[Suite] = if of_core { &[UNITS] } else { &[] };
    let suites: Vec<Suite> = if call.units { units.to_vec() } else { units.iter().chain(STORES).copied().collect() };
    let built = run::build(&tree, &mutants, &suites)?;
    let postgres = Server::start().map_err(Error::msg).context("a PostgreSQL for the suites")?;
    for (suite, program) in suites.iter().zip(&built.programs) {
        let open: Vec<usize> =
            (0..mutants.len()).filter(|&number| verdicts[number].is_none() && built.viable.contains(&number)).collect();
        println!("{} {}{}: {} mutants", suite.package, suite.target.join(" "), suite.only, open.len());
        Judge { tree: &tree, suite, program, postgres: postgres.url() }.judge(&open, |number, test| {
            println!("  {}: {test}", mutants[number].name);
            verdicts[number] = Some(test.to_owned());
        })?;
    }
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    for (number, mutant) in mutants.iter().enumerate() {
        let score = scores.entry(mutant.module).or_default();
        match (&verdicts[number], built.viable.contains(&number)) {
            (_, false) => score.unviable += 1,
            (Some(_), true) => score.caught += 1,
            (None, true) => score.missed.push(mutant.name.clone()),
        }
    }
    let said = render(&scores, call.seed);
    fs::write(tree.with_file_name("score.txt"), &said)?;
    print!("{said}");
    Ok(if scores.values().all(|score| score.per_cent() >= GOAL) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn names() -> String {
    MODULES.iter().map(|module| module.name).collect::<Vec<_>>().join(", ")
}

fn parse(args: &[&str]) -> Result<Call> {
    let mut call = Call { sample: DEFAULT_SAMPLE, seed: 1, ..Call::default() };
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        if *flag == "--units" {
            call.units = true;
            continue;
        }
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match *flag {
            "--sample" => call.sample = value.parse().context("--sample")?,
            "--seed" => call.seed = value.parse().context("--seed")?,
            "--only" => call.only = value.split(',').map(str::to_owned).collect(),
            other => bail!("unknown flag {other}: --sample N, --seed N, --only MODULE,MODULE, --units"),
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

fn list(module: &Module) -> Result<Vec<Mutant>> {
    let mut command = workspace::cargo()?;
    command.args(["mutants", "--list", "--json", "--package", CORE, "--package", ENGINE]);
    for file in module.files {
        command.args(["--file", file]);
    }
    let listed = command.output().context("cargo mutants --list")?;
    ensure!(listed.status.success(), "cargo mutants --list: {}", String::from_utf8_lossy(&listed.stderr));
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout)?;
    let mutants = listed.iter().map(|said| read(module.name, said).context("what cargo mutants lists"));
    mutants.filter(|mutant| !mutant.as_ref().is_ok_and(|mutant| is_test_code(&mutant.file))).collect()
}

fn read(module: &'static str, said: &Value) -> Option<Mutant> {
    let text = |field: &str| said[field].as_str().map(str::to_owned);
    let start = &said["span"]["start"];
    let number = |field: &str| start[field].as_u64().and_then(|number| usize::try_from(number).ok());
    Some(Mutant {
        name: text("name")?,
        module,
        package: text("package")?,
        file: text("file")?,
        change: Change {
            number: 0,
            genre: text("genre")?,
            start: (number("line")?, number("column")?),
            replacement: text("replacement")?,
        },
    })
}

fn is_test_code(file: &str) -> bool {
    Path::new(file).file_name().is_some_and(|name| name == "tests.rs")
}

/// The same sample for the same seed and code.
fn sample<T>(mut names: Vec<T>, most: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    for last in (1..names.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 33) as usize % (last + 1);
        names.swap(last, at);
    }
    names.truncate(most);
    names
}

fn render(scores: &BTreeMap<&str, Score>, seed: u64) -> String {
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
        let said = render(&BTreeMap::from([("guard", score)]), 3);
        assert!(said.contains("guard            9 of 10    90.0 %  met  (5 unviable)"), "{said}");
        assert!(said.contains("not caught: a"), "{said}");
    }

    #[test]
    fn test_modules_are_not_mutated() {
        assert!(is_test_code("crates/core/src/plan/tests.rs"));
        assert!(!is_test_code("crates/core/src/plan/mod.rs"));
    }
}
