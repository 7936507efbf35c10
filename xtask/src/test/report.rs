//! The end of `cargo xtask test`: a table of the test binaries, what was slow, what failed, and the closing line.

use std::fmt::Write as _;

use super::tally::{Binary, Tally};

pub(super) fn render(tally: &Tally) -> String {
    let mut out = String::new();
    table(&mut out, tally);
    names(&mut out, "ran for over a minute", tally, |binary| &binary.slow);
    names(&mut out, "failed", tally, |binary| &binary.failures);
    // Scripts read this line: nothing else may stand on it or after it.
    put(&mut out, format_args!("\n{} passed, {} failed", tally.passed(), tally.failed()));
    out
}

fn table(out: &mut String, tally: &Tally) {
    let mut ran: Vec<&Binary> = tally.binaries.iter().filter(|binary| !binary.ran_nothing()).collect();
    if ran.is_empty() {
        return put(out, format_args!("\nno test ran"));
    }
    ran.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    put(
        out,
        format_args!("\n{:>7} {:>7} {:>7} {:>9}  test binary, slowest first", "passed", "failed", "ignored", "took"),
    );
    for Binary { name, passed, failed, ignored, took, .. } in ran {
        put(out, format_args!("{passed:>7} {failed:>7} {ignored:>7} {took:>9}  {name}"));
    }
}

fn seconds(binary: &Binary) -> f64 {
    binary.took.trim_end_matches('s').parse().unwrap_or(0.0)
}

fn names(out: &mut String, title: &str, tally: &Tally, of: impl Fn(&Binary) -> &[String]) {
    if tally.binaries.iter().all(|binary| of(binary).is_empty()) {
        return;
    }
    put(out, format_args!("\n{title}:"));
    for binary in &tally.binaries {
        for test in of(binary) {
            put(out, format_args!("  {test}  ({})", binary.name));
        }
    }
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing into a string has no way to fail.
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str, success: bool) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.line(line));
        tally.end_of_suite("workspace", success);
        tally
    }

    #[test]
    fn slowest_comes_first_failures_are_named_and_the_sum_closes() {
        let tally = tally(
            "     Running unittests src/lib.rs (target/debug/deps/core-01)
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s
     Running unittests src/main.rs (target/debug/deps/empty-01)
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
     Running tests/api.rs (target/debug/deps/api-01)
test kills has been running for over 60 seconds
failures:
    reports
test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 70.10s",
            false,
        );
        assert_eq!(
            render(&tally),
            "
 passed  failed ignored      took  test binary, slowest first
      3       1       0    70.10s  api, tests/api.rs
     12       0       1     0.02s  core, src/lib.rs

ran for over a minute:
  kills  (api, tests/api.rs)

failed:
  reports  (api, tests/api.rs)

15 passed, 1 failed
"
        );
    }

    #[test]
    fn no_test_at_all_is_said() {
        assert_eq!(render(&tally("", true)), "\nno test ran\n\n0 passed, 0 failed\n");
    }
}
