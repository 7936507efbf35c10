//! Who notices a mutant: first which tests reach its code at all, then those tests with the mutant on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use private_postgres::ADMIN_URL;

use super::build::Suite;
use super::switch::{ACTIVE, REACHED};

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
