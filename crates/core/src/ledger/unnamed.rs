//! Steps without a key of their own: known by their name and by which of that name they are within the attempt.
//!
//! - `started` is always the next one of its name: a second mail is a second entry, and the first of a replay is the
//!   recorded first.
//! - An outcome belongs to the first of its name that this attempt began and has not settled; with none of that kind it repeats the last one's,
//!   if that one had been started; otherwise it is the next one, recorded without an intent.
//!
//! - A `call_id` comes first: what it began under this lease is the one it means.
//!
//! So without a `call_id` a `started` that is sent twice counts twice, and what nobody settles is in doubt afterwards.
//! Whoever sends again, or has two of one name open at once, gives keys or a `call_id`.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::ledger::Report;
use crate::ledger::{EntryState, Known};

const PREFIX: &str = "step:";
/// Longer than this as it is written, a name is known by its beginning and its hash: with the prefix, `:` and any ordinal
/// a key still is an id.
const WRITTEN_MAX_BYTES: usize = 180;
const BEGINNING_BYTES: usize = 100;

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
    /// The call that reports is the one that began it.
    pub same_call: bool,
}

/// Which of its name a report means.
pub fn ordinal(of_name: &[Unnamed], report: Report) -> u32 {
    let last_met = of_name.iter().filter(|step| step.met).max_by_key(|step| step.ordinal);
    let next = last_met.map_or(0, |step| step.ordinal) + 1;
    let first = |wanted: &dyn Fn(&&Unnamed) -> bool| of_name.iter().filter(wanted).map(|step| step.ordinal).min();
    let unsettled = |step: &Unnamed| matches!(step.state.known(), Known::Open | Known::InDoubt);
    let open = || first(&|step| step.met && unsettled(step));
    let repeated = || last_met.filter(|step| step.intended).map(|step| step.ordinal);
    let same_call = || first(&|step| step.met && step.same_call);
    match report {
        Report::Started => same_call().unwrap_or(next),
        Report::Outcome(_) => same_call().or_else(open).or_else(repeated).unwrap_or(next),
        Report::Checked(_) => {
            let doubtful = first(&|step| step.state.known() == Known::InDoubt);
            doubtful.or_else(open).or_else(repeated).unwrap_or(next)
        }
    }
}

/// What the keys of a name have in common; no two names share it. ASCII letters, digits, `.`, `_` and `-` stand for
/// themselves, any other byte of the name's UTF-8 is `@` and two hexadecimal digits. A name that gets too long that way is
/// its first 100 bytes as written, `@@`, and the SHA-256 of the name.
pub fn unnamed_stem(name: &str) -> String {
    let mut stem = String::with_capacity(PREFIX.len() + name.len());
    stem.push_str(PREFIX);
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => stem.push(char::from(byte)),
            _ => push_hex(&mut stem, "@", byte),
        }
    }
    if stem.len() > PREFIX.len() + WRITTEN_MAX_BYTES {
        stem.truncate(PREFIX.len() + BEGINNING_BYTES);
        stem.push_str("@@");
        for byte in Sha256::digest(name.as_bytes()) {
            push_hex(&mut stem, "", byte);
        }
    }
    stem
}

fn push_hex(out: &mut String, before: &str, byte: u8) {
    // Writing to a string does not fail.
    let _ = write!(out, "{before}{byte:02x}");
}

/// The first of its name has the stem for a key, the others their ordinal after it. A name's own `:` is escaped, so no
/// name ends like an ordinal.
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
