//! Builds the suites with all mutants behind switches, and runs the tests that reach each one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use private_postgres::ADMIN_URL;
use serde_json::Value;

use super::switch::{self, ACTIVE, Change, REACHED, switch};
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

/// So many tests at a time: the first that fails is enough, and each process costs a start.
const TOGETHER: usize = 16;
/// A test that does not end has noticed too.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);

pub(super) struct Judge<'a> {
    pub(super) tree: &'a Path,
    pub(super) suite: &'a Suite,
    pub(super) program: &'a Path,
    pub(super) postgres: &'a str,
}

enum End {
    Green,
    Red(String),
}

impl Judge<'_> {
    /// Says each of `mutants` that is noticed, with a test that does.
    pub(super) fn judge(&self, mutants: &[usize], mut noticed: impl FnMut(usize, &str)) -> Result<()> {
        if mutants.is_empty() {
            return Ok(());
        }
        let tests = self.tests()?;
        let who = self.who_reaches(&tests)?;
        for &number in mutants {
            let Some(tests) = who.get(&number) else { continue };
            for some in tests.chunks(if self.suite.rounds { 1 } else { TOGETHER }) {
                if let End::Red(test) = self.run(some, &[(ACTIVE, &number.to_string())])? {
                    noticed(number, &test);
                    break;
                }
            }
        }
        Ok(())
    }

    fn tests(&self) -> Result<Vec<String>> {
        let listed = self.command().args(["--list", "--format", "terse"]).output().context("a test program")?;
        let listed = String::from_utf8(listed.stdout)?;
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.filter(|name| name.starts_with(self.suite.only)).map(str::to_owned).collect())
    }

    /// The tests that reach each mutant, those that reach the fewest mutants first.
    fn who_reaches(&self, tests: &[String]) -> Result<BTreeMap<usize, Vec<String>>> {
        let note = self.tree.with_file_name("reached.txt");
        let mut reached: Vec<(BTreeSet<usize>, &String)> = Vec::new();
        for test in tests {
            if note.exists() {
                fs::remove_file(&note)?;
            }
            let end = self.run(std::slice::from_ref(test), &[(REACHED, &note.to_string_lossy())])?;
            ensure!(matches!(end, End::Green), "{test} fails without any mutant");
            let noted = fs::read_to_string(&note).unwrap_or_default();
            reached.push((noted.lines().filter_map(|line| line.parse().ok()).collect(), test));
        }
        reached.sort_by_key(|(numbers, _)| numbers.len());
        let mut who: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (numbers, test) in reached {
            for number in numbers {
                who.entry(number).or_default().push(test.clone());
            }
        }
        Ok(who)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        // As cargo runs it: in the folder of its package.
        let folder = self.suite.package.trim_start_matches("redrive-");
        command.current_dir(self.tree.join("crates").join(folder)).env(ADMIN_URL, self.postgres);
        command
    }

    #[allow(clippy::disallowed_methods, reason = "how long a test may take is a matter of the clock on the wall")]
    fn run(&self, tests: &[String], environment: &[(&str, &str)]) -> Result<End> {
        let said = self.tree.with_file_name("said.txt");
        let mut child = self
            .command()
            .arg("--exact")
            .args(tests)
            .envs(environment.iter().copied())
            .env("PROPTEST_FAILURE_PERSISTENCE", "off")
            .stdout(fs::File::create(&said)?)
            .stderr(Stdio::null())
            .spawn()?;
        let began = Instant::now();
        loop {
            let done = child.try_wait()?;
            let text = fs::read_to_string(&said).unwrap_or_default();
            let red = text.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
            let late = began.elapsed() > PATIENCE;
            if red.is_some() || late {
                child.kill()?;
                child.wait()?;
                return Ok(End::Red(red.unwrap_or("does not end").to_owned()));
            }
            match done {
                Some(status) if status.success() => return Ok(End::Green),
                Some(_) => return Ok(End::Red("ends the process".to_owned())),
                None => thread::sleep(LOOK),
            }
        }
    }
}
