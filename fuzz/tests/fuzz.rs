//! A short run of each target, from the same seed each time: `REDRIVE_SEED` begins elsewhere, `REDRIVE_FUZZ_EXECUTIONS` makes it longer.

#![allow(clippy::panic, clippy::expect_used, clippy::print_stdout, reason = "a law that does not hold fails")]

use redrive_fuzz::{TARGETS, fuzz, shrink};

fn number(name: &str, otherwise: impl FnOnce() -> u64) -> u64 {
    std::env::var(name).ok().map_or_else(otherwise, |given| given.parse().expect("a number"))
}

fn run(of: fn(&str) -> bool) {
    let seed = number("REDRIVE_SEED", || 1);
    let executions = number("REDRIVE_FUZZ_EXECUTIONS", || 400);
    println!("REDRIVE_SEED={seed}");
    for target in TARGETS.iter().filter(|target| of(target.name)) {
        let report = fuzz(target, seed, executions);
        println!("{}: {} executions, {} kinds of answers", report.target, report.executions, report.seen);
        if let Some(finding) = report.findings.first() {
            let small = shrink(target, finding);
            panic!("{}: {}\n{:?}", target.name, small.what, String::from_utf8_lossy(&small.input));
        }
        assert!(report.seen > 1, "{}: every input gave the same, so that nothing was asked", target.name);
    }
}

const API: [&str; 8] = ["report", "ndjson", "under lease", "people", "operations", "filters", "cursors", "keys"];

#[test]
fn api_answers_any_input_with_json_and_never_500() {
    run(|name| API.contains(&name));
}

#[test]
fn whatever_strangers_write_what_reads_it_keeps_its_laws() {
    run(|name| !API.contains(&name));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for target in TARGETS.iter().filter(|target| target.name == "json patch" || target.name == "report") {
        let (one, other) = (fuzz(target, 7, 200), fuzz(target, 7, 200));
        assert_eq!((one.executions, one.seen), (other.executions, other.seen));
    }
}
