//! Reads what `cargo test` prints and keeps the figures of each test binary.

/// What one test binary, or one crate's doc tests, came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Binary {
    pub(super) name: String,
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) ignored: u64,
    /// As printed, such as `0.25s`.
    pub(super) took: String,
    pub(super) failures: Vec<String>,
    /// Tests that libtest itself remarked on: they ran for over a minute.
    pub(super) slow: Vec<String>,
    finished: bool,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) binaries: Vec<Binary>,
}

impl Tally {
    pub(super) fn line(&mut self, line: &str) {
        if let Some(name) = header(line) {
            self.binaries.push(Binary { name, ..Binary::default() });
            return;
        }
        // Before the first header cargo compiles; nothing there is about tests.
        let Some(binary) = self.binaries.last_mut() else { return };
        // A test's captured output may hold lines that look like a result or a list of failures.
        // The true ones come after it, so the last one of each kind counts.
        if line == "failures:" {
            binary.failures.clear();
            binary.finished = false;
        } else if let Some(test) = line.strip_prefix("    ") {
            // After the result cargo lists the targets that failed, indented likewise.
            if !binary.finished {
                binary.failures.push(test.to_owned());
            }
        } else if let Some(test) = slow_test(line) {
            binary.slow.push(test.to_owned());
        } else if let Some(result) = parse_result(line) {
            binary.finish(&result);
        }
    }

    /// Whatever went wrong is in the figures: a binary that died before its result counts as a failure, and so does
    /// a command that failed without any failed test, as when the code does not compile.
    pub(super) fn end_of_suite(&mut self, suite: &str, success: bool) {
        for binary in self.binaries.iter_mut().filter(|binary| !binary.finished) {
            binary.finish(&Figures { failed: 1, took: "-", ..Figures::default() });
            binary.failures = vec!["(ended without a result)".into()];
        }
        if !success && self.failed() == 0 {
            let failures = vec!["(the command failed)".into()];
            self.binaries.push(Binary {
                name: suite.into(),
                failed: 1,
                took: "-".into(),
                failures,
                ..Binary::default()
            });
        }
    }

    pub(super) fn passed(&self) -> u64 {
        self.binaries.iter().map(|binary| binary.passed).sum()
    }

    pub(super) fn failed(&self) -> u64 {
        self.binaries.iter().map(|binary| binary.failed).sum()
    }

    /// Nothing failed, and something was tried: a filter that fits no test proves nothing.
    pub(super) fn is_good(&self) -> bool {
        self.failed() == 0 && self.passed() > 0
    }
}

impl Binary {
    fn finish(&mut self, figures: &Figures<'_>) {
        self.passed = figures.passed;
        self.failed = figures.failed;
        self.ignored = figures.ignored;
        self.took = figures.took.to_owned();
        self.finished = true;
        if figures.failed == 0 {
            self.failures.clear();
        }
    }

    pub(super) fn ran_nothing(&self) -> bool {
        self.passed + self.failed + self.ignored == 0
    }
}

#[derive(Default)]
struct Figures<'a> {
    passed: u64,
    failed: u64,
    ignored: u64,
    took: &'a str,
}

/// `     Running tests/api.rs (target/debug/deps/api-0123abcd)` → `api, tests/api.rs`
fn header(line: &str) -> Option<String> {
    if let Some(krate) = line.strip_prefix("   Doc-tests ") {
        return Some(format!("{krate}, doc tests"));
    }
    let (source, file) = line.strip_prefix("     Running ")?.strip_suffix(')')?.split_once(" (")?;
    let file = file.rsplit('/').next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _hash)| name);
    Some(format!("{name}, {}", source.strip_prefix("unittests ").unwrap_or(source)))
}

/// `test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn parse_result(line: &str) -> Option<Figures<'_>> {
    let (_word, figures) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut parts = figures.split("; ");
    let mut count = |unit: &str| parts.next()?.strip_suffix(unit)?.trim_end().parse().ok();
    let (passed, failed, ignored) = (count("passed")?, count("failed")?, count("ignored")?);
    let took = parts.find_map(|part| part.strip_prefix("finished in ")).unwrap_or("-");
    Some(Figures { passed, failed, ignored, took })
}

fn slow_test(line: &str) -> Option<&str> {
    let (test, _limit) = line.strip_prefix("test ")?.split_once(" has been running for over ")?;
    Some(test)
}

#[cfg(test)]
mod tests;
