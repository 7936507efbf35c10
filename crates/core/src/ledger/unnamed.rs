//! Steps without a key of their own: known by their name and by which of that name they are within the attempt.
//!
//! - `started` is always the next one of its name: a second mail is a second entry, and the first of a replay is the
//!   recorded first.
//! - An outcome belongs to the first of its name that this attempt began and has not settled; with none of that kind it repeats the last one's,
//!   if that one had been started; otherwise it is the next one, recorded without an intent.
//!
//! So a `started` that is sent twice counts twice, and what nobody settles is in doubt afterwards. Whoever sends again,
//! or has two of one name open at once, gives keys.

use crate::ledger::entry::{EntryState, Known};
use crate::ledger::moves::Report;

const NAME_MAX_CHARS: usize = 180;
const PREFIX: &str = "step:";

/// One that the run has on record under the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unnamed {
    /// From 1.
    pub ordinal: u32,
    pub state: EntryState,
    /// The attempt that reports has begun it, or had it given back.
    pub met: bool,
    /// It was started before it was settled.
    pub intended: bool,
}

/// Which of its name a report means.
pub fn ordinal(of_name: &[Unnamed], report: Report) -> u32 {
    let last_met = of_name.iter().filter(|step| step.met).max_by_key(|step| step.ordinal);
    let next = last_met.map_or(0, |step| step.ordinal) + 1;
    let first = |wanted: &dyn Fn(&&Unnamed) -> bool| of_name.iter().filter(wanted).map(|step| step.ordinal).min();
    let unsettled = |step: &Unnamed| matches!(step.state.known(), Known::Open | Known::InDoubt);
    let open = || first(&|step| step.met && unsettled(step));
    let repeated = || last_met.filter(|step| step.intended).map(|step| step.ordinal);
    match report {
        Report::Started => next,
        Report::Outcome(_) => open().or_else(repeated).unwrap_or(next),
        Report::Checked(_) => {
            let doubtful = first(&|step| step.state.known() == Known::InDoubt);
            doubtful.or_else(open).or_else(repeated).unwrap_or(next)
        }
    }
}

/// What the keys of a name have in common.
pub fn unnamed_stem(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(plain).take(NAME_MAX_CHARS).collect();
    format!("{PREFIX}{name}")
}

pub fn unnamed_key(name: &str, ordinal: u32) -> String {
    let stem = unnamed_stem(name);
    if ordinal == 1 { stem } else { format!("{stem}:{ordinal}") }
}

/// The ordinal that a key of this stem stands for.
pub fn ordinal_of_key(key: &str, stem: &str) -> Option<u32> {
    let rest = key.strip_prefix(stem)?;
    if rest.is_empty() {
        return Some(1);
    }
    rest.strip_prefix(':')?.parse().ok().filter(|ordinal| *ordinal > 1)
}
