//! Fuzzing of everything that reads untrusted bytes, with mutated examples. It catches panics, broken laws (round trips,
//! no 500) and work beyond a bound in CPU time. The same seed gives the same inputs.

#![allow(unreachable_pub, reason = "a tool of its own: what its modules show, they show to each other")]

mod inputs;
mod targets;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redrive_engine::{Dice as _, SeededDice};
use rustix::time::{ClockId, clock_gettime};

pub use targets::{TARGETS, Target};

/// No input here is longer than this.
pub const INPUT_MAX_BYTES: usize = 16 * 1024;
/// What one input may cost, in microseconds of the thread's own time: far above anything seen, far below a hang.
const WORK_MAX_US: i64 = 2_000_000;
/// Inputs that showed something new are changed further.
const KEPT_MAX: usize = 4_096;

/// The result of an input: a value that distinguishes behaviours, or the law that it broke.
pub type Verdict = Result<u64, String>;

/// An input that something is wrong with.
#[derive(Debug, Clone)]
pub struct Finding {
    pub target: &'static str,
    pub input: Vec<u8>,
    pub what: String,
}

#[derive(Debug)]
pub struct Report {
    pub target: &'static str,
    pub executions: u64,
    /// How many different things were seen to happen.
    pub seen: usize,
    pub findings: Vec<Finding>,
}

pub struct Chance(SeededDice);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(SeededDice::new(seed))
    }

    pub fn below(&self, n: usize) -> usize {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        usize::try_from(u64::from_le_bytes(bytes) % n.max(1) as u64).unwrap_or(0)
    }
}

/// Where the corpus lies, and what once went wrong.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Runs the corpus unchanged, then mutated, until the number of executions or the first finding.
pub fn fuzz(target: &Target, seed: u64, executions: u64) -> Report {
    let ask = (target.make)();
    let chance = Chance::new(seed);
    let mut kept = inputs::corpus_of(target);
    let mut seen = BTreeSet::new();
    let mut report = Report { target: target.name, executions: 0, seen: 0, findings: Vec::new() };
    let mut n = 0;
    while report.executions < executions.max(kept.len() as u64) && report.findings.is_empty() {
        let input = match kept.get(n) {
            Some(as_it_is) if report.executions < kept.len() as u64 => as_it_is.clone(),
            _ => inputs::changed(&kept, &chance, target.words),
        };
        n += 1;
        report.executions += 1;
        match execute(&*ask, &input) {
            Ok(happened) => {
                if seen.insert(happened) && kept.len() < KEPT_MAX && report.executions > kept.len() as u64 {
                    kept.push(input);
                }
            }
            Err(what) => report.findings.push(Finding { target: target.name, input, what }),
        }
    }
    report.seen = seen.len();
    report
}

fn execute(ask: &dyn Fn(&[u8]) -> Verdict, input: &[u8]) -> Verdict {
    let before = work_us();
    let said = catch_unwind(AssertUnwindSafe(|| ask(input))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("it panicked: {}", text.unwrap_or_default()))
    });
    let worked = work_us() - before;
    if worked > WORK_MAX_US {
        return Err(format!("{} bytes cost {worked} µs", input.len()));
    }
    said
}

fn work_us() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Minimises the input of a finding.
pub fn shrink(target: &Target, finding: &Finding) -> Finding {
    let ask = (target.make)();
    let mut best = finding.clone();
    let mut piece = best.input.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at + piece <= best.input.len() {
            let mut less = best.input.clone();
            less.drain(at..at + piece);
            match execute(&*ask, &less) {
                Err(what) => best = Finding { input: less, what, ..best },
                Ok(_) => at += piece,
            }
        }
        piece /= 2;
    }
    best
}
