//! Reads what `cargo test` prints and keeps the figures of each test binary.

/// What one test binary, or one crate's doc tests, came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Binary {
    pub(crate) name: String,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// As printed, such as `0.25s`.
    pub(crate) took: String,
    pub(crate) failures: Vec<String>,
    /// Tests that libtest itself remarked on: they ran for over a minute.
    pub(crate) slow: Vec<String>,
    finished: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) binaries: Vec<Binary>,
    /// Index of the current suite's first binary. Results of earlier suites no longer change.
    suite_start: usize,
}

impl Tally {
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(name) = header(line) {
            self.binaries.push(Binary { name, ..Binary::default() });
            return;
        }
        // Before the first header cargo compiles; nothing there is about tests.
        let Some(binary) = self.binaries[self.suite_start..].last_mut() else { return };
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

    /// Counts as failures: a binary without a result, a suite without any binary, and a command that failed without
    /// a failed test, as when the code does not compile.
    pub(crate) fn end_of_suite(&mut self, suite: &str, success: bool) {
        let binaries = &mut self.binaries[self.suite_start..];
        let reported = !binaries.is_empty();
        for binary in binaries.iter_mut().filter(|binary| !binary.finished) {
            binary.finish(&Figures { failed: 1, took: "-", ..Figures::default() });
            binary.failures = vec!["(ended without a result)".into()];
        }
        let explained = binaries.iter().any(|binary| binary.failed > 0);
        if !reported || (!success && !explained) {
            let failures = vec![if success { "(reported no tests)" } else { "(the command failed)" }.into()];
            self.binaries.push(Binary {
                name: suite.into(),
                failed: 1,
                took: "-".into(),
                failures,
                ..Binary::default()
            });
        }
        self.suite_start = self.binaries.len();
    }

    pub(crate) fn passed(&self) -> u64 {
        self.binaries.iter().map(|binary| binary.passed).sum()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.binaries.iter().map(|binary| binary.failed).sum()
    }

    /// Nothing failed, and something was tried: a filter that fits no test proves nothing.
    pub(crate) fn is_good(&self) -> bool {
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

    pub(crate) fn ran_nothing(&self) -> bool {
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
mod tests {
    use super::*;

    fn read(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.line(line));
        tally
    }

    const GREEN: &str = "
   Compiling redrive-core v0.1.0 (/src/crates/core)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 1.93s
     Running unittests src/lib.rs (target/debug/deps/redrive_core-0f0e0d0c0b0a0908)

running 3 tests
test reason::tests::one ... ok
test reason::tests::two ... ok
test reason::tests::three ... ignored

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.25s

     Running tests/api.rs (/elsewhere/debug/deps/api-0102030405060708)

running 1 test
test reports ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 3.10s

   Doc-tests redrive_core

running 1 test
test crates/core/src/run.rs - run::Run (line 12) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.61s
";

    const RED: &str = "
     Running unittests src/main.rs (target/debug/deps/redrive-0102030405060708)

running 3 tests
test a ... ok
test b has been running for over 60 seconds
test b ... FAILED
test c ... FAILED

failures:

---- b stdout ----
failures:
    not_a_test
test result: ok. 99 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.99s
assertion failed: it did not
    left: 1

---- c stdout ----
no


failures:
    b
    c

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 61.40s

error: test failed, to rerun pass `-p redrive --bin redrive`
error: 1 target failed:
    `-p redrive --bin redrive`
";

    #[test]
    fn unit_integration_and_doc_tests_are_summed() {
        let mut tally = read(GREEN);
        tally.end_of_suite("workspace", true);
        assert_eq!((tally.passed(), tally.failed()), (4, 0));
        assert!(tally.is_good());
        let rows: Vec<_> =
            tally.binaries.iter().map(|b| (b.name.as_str(), b.passed, b.ignored, b.took.as_str())).collect();
        assert_eq!(
            rows,
            [
                ("redrive_core, src/lib.rs", 2, 1, "0.25s"),
                ("api, tests/api.rs", 1, 0, "3.10s"),
                ("redrive_core, doc tests", 1, 0, "0.61s"),
            ]
        );
    }

    #[test]
    fn failed_and_slow_tests_are_named_ignoring_captured_output() {
        let mut tally = read(RED);
        tally.end_of_suite("workspace", false);
        assert_eq!((tally.passed(), tally.failed()), (1, 2));
        assert!(!tally.is_good());
        assert_eq!(tally.binaries[0].failures, ["b", "c"]);
        assert_eq!(tally.binaries[0].slow, ["b"]);
        assert_eq!(tally.binaries.len(), 1, "the failed command is explained by its failed tests");
    }

    #[test]
    fn indented_output_of_tests_that_pass_is_no_failure() {
        let mut tally = read(&GREEN.replace("running 1 test\n", "running 1 test\n    indented\n"));
        tally.end_of_suite("workspace", true);
        assert!(tally.binaries.iter().all(|binary| binary.failures.is_empty()));
    }

    #[test]
    fn a_binary_that_dies_before_its_result_is_a_failure() {
        let died = RED.split("failures:").next().unwrap();
        let mut tally = read(&format!("{GREEN}{died}"));
        tally.end_of_suite("workspace", false);
        assert_eq!((tally.passed(), tally.failed()), (4, 1));
        assert_eq!(tally.binaries[3].failures, ["(ended without a result)"]);
    }

    #[test]
    fn code_that_does_not_compile_is_a_failure() {
        let mut tally = read("error[E0308]: mismatched types\n    --> src/main.rs:1:1\n");
        tally.end_of_suite("workspace", false);
        assert_eq!((tally.passed(), tally.failed()), (0, 1));
        assert_eq!(tally.binaries[0].name, "workspace");
    }

    #[test]
    fn no_test_at_all_is_not_good() {
        let mut tally = read(
            "     Running unittests src/main.rs (target/debug/deps/redrive-0102030405060708)
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 12 filtered out; finished in 0.00s",
        );
        tally.end_of_suite("workspace", true);
        assert_eq!((tally.passed(), tally.failed()), (0, 0));
        assert!(!tally.is_good());
    }

    #[test]
    fn a_suite_never_overwrites_the_results_of_another() {
        let mut tally = read(RED);
        tally.end_of_suite("workspace", false);
        "test result: ok. 14 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.00s"
            .lines()
            .for_each(|line| tally.line(line));
        tally.end_of_suite("browser", true);
        assert_eq!((tally.passed(), tally.failed()), (1, 3), "the second suite named no test binary");
        assert_eq!(tally.binaries[1].failures, ["(reported no tests)"]);
    }
}
