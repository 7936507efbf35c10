//! `redrive-fuzz [--target NAME] [--seed N] [--executions N]`: each target in turn, with what was found.

#![allow(clippy::print_stdout, reason = "a command-line tool: what it prints is what it is for")]

use std::process::ExitCode;

use redrive_fuzz::{Finding, TARGETS, folder, fuzz, shrink};

fn main() -> ExitCode {
    let (mut only, mut seed, mut executions) = (None, 1, 100_000);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        match (word.as_str(), value.parse()) {
            ("--target", _) => only = Some(value),
            ("--seed", Ok(n)) => seed = n,
            ("--executions", Ok(n)) => executions = n,
            _ => {
                eprintln!("usage: redrive-fuzz [--target NAME] [--seed N] [--executions N]");
                return ExitCode::from(2);
            }
        }
    }
    let mut found = 0;
    for target in TARGETS.iter().filter(|target| only.as_ref().is_none_or(|only| only == target.name)) {
        let report = fuzz(target, seed, executions);
        println!(
            "{:<14} {:>9} executions, {:>5} kinds of answers, {} findings",
            report.target,
            report.executions,
            report.seen,
            report.findings.len()
        );
        for finding in &report.findings {
            found += 1;
            keep(&shrink(target, finding));
        }
    }
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Where the next run, and git, will find it.
fn keep(finding: &Finding) {
    println!("  {}", finding.what);
    println!("  {:?}", String::from_utf8_lossy(&finding.input));
    let folder = folder().join("regressions").join(finding.target);
    let file = folder.join(format!("{}-bytes", finding.input.len()));
    let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, &finding.input));
    match kept {
        Ok(()) => println!("  kept in {}", file.display()),
        Err(error) => println!("  could not be kept: {error}"),
    }
}
