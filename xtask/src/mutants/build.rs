//! One build of each suite with every mutant in it. What the compiler refuses is no viable mutant: it is taken out and
//! the rest is built again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::switch::{self, Change, switch};
use super::{CORE, Mutant};
use crate::workspace;

/// The compiler stops at one kind of error at a time; more rounds than this and something else is wrong.
const ROUNDS: usize = 25;

#[derive(Clone, Copy)]
pub(super) struct Suite {
    pub(super) package: &'static str,
    pub(super) target: &'static [&'static str],
    /// The tests whose names begin so.
    pub(super) only: &'static str,
    /// Whether each of its tests plays at random for long: all of them run at once, and no note is made of who reaches what.
    pub(super) rounds: bool,
}

pub(super) struct Built {
    /// The test program of each suite.
    pub(super) programs: Vec<PathBuf>,
    pub(super) viable: BTreeSet<usize>,
}

type Pieces = BTreeMap<String, Vec<(Range<usize>, Vec<usize>)>>;

pub(super) fn build(tree: &Path, mutants: &[Mutant], suites: &[Suite]) -> Result<Built> {
    // What was refused once is refused again; a name holds the place in the code.
    let known = tree.with_file_name("refused.txt");
    let before = fs::read_to_string(&known).unwrap_or_default();
    let before: BTreeSet<&str> = before.lines().collect();
    let mut refused: BTreeSet<usize> =
        mutants.iter().filter(|mutant| before.contains(&*mutant.name)).map(|mutant| mutant.change.number).collect();
    for round in 1..=ROUNDS {
        let (written, pieces) = write(tree, mutants, &refused)?;
        println!("build {round}: {} mutants in the code, {} refused", written.len(), refused.len());
        let mut found = BTreeSet::new();
        let mut programs = Vec::new();
        for suite in suites {
            match compile(tree, suite)? {
                Compiled::Program(program) => programs.push(program),
                Compiled::Errors(errors) => {
                    found = blamed(&errors, &pieces)?;
                    break;
                }
            }
        }
        if found.is_empty() {
            return Ok(Built { programs, viable: written });
        }
        refused.extend(found);
        let names = refused.iter().map(|&number| format!("{}\n", mutants[number].name));
        let names: BTreeSet<String> = before.iter().map(|name| format!("{name}\n")).chain(names).collect();
        fs::write(&known, names.into_iter().collect::<String>())?;
    }
    bail!("the compiler still refuses mutants after {ROUNDS} builds")
}

fn write(tree: &Path, mutants: &[Mutant], refused: &BTreeSet<usize>) -> Result<(BTreeSet<usize>, Pieces)> {
    let (mut written, mut pieces) = (BTreeSet::new(), Pieces::new());
    let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        files.entry(&mutant.file).or_default().push(mutant);
    }
    for (file, here) in files {
        let changes: Vec<Change> = here
            .iter()
            .filter(|mutant| !refused.contains(&mutant.change.number))
            .map(|mutant| mutant.change.clone())
            .collect();
        let path = if here.iter().all(|mutant| mutant.package == CORE) { "crate" } else { "redrive_core" };
        let source = fs::read_to_string(workspace::root()?.join(file))?;
        let switched = switch(&source, path, &changes).with_context(|| file.to_owned())?;
        replace(&tree.join(file), &switched.text)?;
        written.extend(switched.written);
        pieces.insert(file.to_owned(), switched.pieces);
    }
    let library = "crates/core/src/lib.rs";
    let source = fs::read_to_string(workspace::root()?.join(library))?;
    replace(&tree.join(library), &(source + &switch::function()))?;
    Ok((written, pieces))
}

/// A file that did not change keeps its time, so that it is not built again.
fn replace(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

enum Compiled {
    Program(PathBuf),
    Errors(Vec<Value>),
}

fn compile(tree: &Path, suite: &Suite) -> Result<Compiled> {
    let mut cargo = workspace::cargo()?;
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", tree.with_file_name("build"));
    cargo.args(["test", "--no-run", "--message-format", "json", "--package", suite.package]).args(suite.target);
    let done = cargo.stderr(Stdio::piped()).output().context("cargo test --no-run")?;
    let said: Vec<Value> =
        String::from_utf8_lossy(&done.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if done.status.success() {
        let program = said.iter().rev().find_map(|said| said["executable"].as_str()).context("no test program")?;
        return Ok(Compiled::Program(program.into()));
    }
    let errors: Vec<Value> = said
        .into_iter()
        .filter(|said| said["reason"] == "compiler-message" && said["message"]["level"] == "error")
        .map(|mut said| said["message"].take())
        .collect();
    ensure!(!errors.is_empty(), "the suites do not build: {}", String::from_utf8_lossy(&done.stderr));
    Ok(Compiled::Errors(errors))
}

/// The mutants that the compiler's errors are about: those whose text it points at, or else the ones around it.
fn blamed(errors: &[Value], pieces: &Pieces) -> Result<BTreeSet<usize>> {
    let mut all = BTreeSet::new();
    for error in errors {
        let mut found = BTreeSet::new();
        for span in error["spans"].as_array().into_iter().flatten() {
            let Some(here) = span["file_name"].as_str().and_then(|file| pieces.get(file)) else { continue };
            let place = |field: &str| span[field].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or_default();
            let (start, end) = (place("byte_start"), place("byte_end"));
            let inside = here.iter().filter(|(range, _)| range.start < end && start < range.end);
            found.extend(inside.flat_map(|(_, numbers)| numbers).copied());
            if found.is_empty() {
                let before = here.iter().rfind(|(range, _)| range.end <= start);
                found.extend(before.iter().flat_map(|(_, numbers)| numbers).copied());
            }
        }
        all.extend(found);
    }
    if all.is_empty() {
        let said: Vec<&str> = errors.iter().filter_map(|error| error["rendered"].as_str()).take(3).collect();
        bail!("the compiler refuses something else: {}", said.join("\n"));
    }
    Ok(all)
}
