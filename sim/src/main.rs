//! Plays seeds until it is stopped: `redrive-sim [--seed N] [--seeds N] [--operations N] [--store sqlite] [--twice] [--trace]`.
//! `--twice` plays each seed a second time: it must be the same play.

#![allow(clippy::print_stdout, reason = "a command-line tool: what it prints is what it is for")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use redrive_sim::{Plan, play, shrink};

struct Args {
    plan: Plan,
    seeds: u64,
    twice: bool,
    trace: bool,
}

fn args() -> Result<Args, String> {
    let mut args = Args { plan: Plan::new(1, 1_000), seeds: 1, twice: false, trace: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse().ok()).ok_or(format!("{word} needs a number"));
        match word.as_str() {
            "--seed" => args.plan.seed = number()?,
            "--seeds" => args.seeds = number()?,
            "--operations" => args.plan.operations = number()?,
            "--store" => args.plan.store = words.next().unwrap_or_default().parse()?,
            "--twice" => args.twice = true,
            "--trace" => args.trace = true,
            other => return Err(format!("unknown: {other}")),
        }
    }
    Ok(args)
}

fn main() -> ExitCode {
    match args() {
        Ok(args) if args.trace => trace(args.plan),
        Ok(args) => seeds(&args),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn trace(plan: Plan) -> ExitCode {
    let outcome = play(Plan { trace_lines: usize::MAX, ..plan });
    outcome.trace.iter().for_each(|line| println!("{line}"));
    println!("seed {} hash {:016x} {:?}", plan.seed, outcome.hash, outcome.violation);
    if outcome.violation.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn seeds(args: &Args) -> ExitCode {
    let (next, operations, broken) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    if n >= args.seeds {
                        return;
                    }
                    let plan = Plan { seed: args.plan.seed.wrapping_add(n), ..args.plan };
                    let outcome = play(plan);
                    operations.fetch_add(outcome.operations, Ordering::SeqCst);
                    if args.twice && play(plan).hash != outcome.hash {
                        broken.fetch_add(1, Ordering::SeqCst);
                        println!("seed {}: two plays that differ", plan.seed);
                    }
                    if let Some(how) = &outcome.violation {
                        broken.fetch_add(1, Ordering::SeqCst);
                        println!("seed {}: {how}", plan.seed);
                        let (small, told) = shrink(plan, &outcome);
                        println!("smaller: {small:?}");
                        println!("  {}", told.violation.unwrap_or_default());
                    }
                }
            });
        }
    });
    let (operations, broken) = (operations.into_inner(), broken.into_inner());
    println!("{} seeds, {operations} operations, {broken} broken promises", args.seeds);
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
