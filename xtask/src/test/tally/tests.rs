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
    let rows: Vec<_> = tally.binaries.iter().map(|b| (b.name.as_str(), b.passed, b.ignored, b.took.as_str())).collect();
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
fn failed_and_slow_tests_are_named_and_captured_output_is_not_believed() {
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
