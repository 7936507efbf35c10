//! Steps without a key of their own: known by their name and by which of that name they are within the attempt.
//!
//! - `started` is always the next one of its name: a second mail is a second entry, and the first of a replay is the
//!   recorded first.
//! - An outcome belongs to the first of its name that this attempt began and has not settled; with none of that kind it repeats the last one's,
//!   if that one had been started; otherwise it is the next one, recorded without an intent.
//!
//! - A `call_id` comes first: what it began under this lease is the one it means.
//!
//! So without a `call_id`, a `started` that is sent twice counts twice, and an unsettled one ends in doubt.
//! A client that resends, or has two of one name open at once, gives keys or a `call_id`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::ledger::{EntryReport, EntryState, Known};
use crate::text::name::bytes_of_label;

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
pub fn ordinal(of_name: &[Unnamed], report: EntryReport) -> u32 {
    let last_met = of_name.iter().filter(|step| step.met).max_by_key(|step| step.ordinal);
    // The first that this attempt has not met: a key that names a later one moves nobody on.
    let next = free_ordinal(&of_name.iter().filter(|step| step.met).map(|step| step.ordinal).collect(), 0);
    let first = |wanted: &dyn Fn(&&Unnamed) -> bool| of_name.iter().filter(wanted).map(|step| step.ordinal).min();
    let unsettled = |step: &Unnamed| matches!(step.state.known(), Known::Open | Known::InDoubt);
    let open = || first(&|step| step.met && unsettled(step));
    let repeated = || last_met.filter(|step| step.intended).map(|step| step.ordinal);
    let same_call = || first(&|step| step.met && step.same_call);
    match report {
        EntryReport::Started => same_call().unwrap_or(next),
        EntryReport::Outcome(_) => same_call().or_else(open).or_else(repeated).unwrap_or(next),
        EntryReport::Checked(_) => {
            let doubtful = first(&|step| step.state.known() == Known::InDoubt);
            doubtful.or_else(open).or_else(repeated).unwrap_or(next)
        }
    }
}

/// The first ordinal that is not among these, after so many others that are not.
pub fn free_ordinal(taken: &BTreeSet<u32>, after: usize) -> u32 {
    (1..).filter(|ordinal| !taken.contains(ordinal)).nth(after).unwrap_or(u32::MAX)
}

/// What the keys of a name have in common; no two names share it. ASCII letters, digits, `.`, `_` and `-` stand for
/// themselves, any other byte of the name's UTF-8 (a lone surrogate has three) is `@` and two hexadecimal digits. A name that gets too long that way is
/// its first 100 bytes as written, `@@`, and the SHA-256 of the name.
pub fn unnamed_stem(name: &str) -> String {
    let name = bytes_of_label(name);
    let mut stem = String::with_capacity(PREFIX.len() + name.len());
    stem.push_str(PREFIX);
    for byte in name.iter().copied() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => stem.push(char::from(byte)),
            _ => push_hex(&mut stem, "@", byte),
        }
    }
    if stem.len() > PREFIX.len() + WRITTEN_MAX_BYTES {
        stem.truncate(PREFIX.len() + BEGINNING_BYTES);
        stem.push_str("@@");
        for byte in Sha256::digest(&name) {
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

/// Whether a key is of the kind that is made of names.
pub fn is_of_name(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// Whether a caller may give this key to a step of this name: one that is made of a name belongs to that name alone, so
/// that no step is taken for another.
pub fn may_be_given(key: &str, name: &str) -> bool {
    !is_of_name(key) || ordinal_of_key(key, &unnamed_stem(name)).is_some()
}

/// The ordinal that a key of this stem stands for.
pub fn ordinal_of_key(key: &str, stem: &str) -> Option<u32> {
    let rest = key.strip_prefix(stem)?;
    if rest.is_empty() {
        return Some(1);
    }
    let written = rest.strip_prefix(':')?;
    written.parse().ok().filter(|ordinal: &u32| *ordinal > 1 && ordinal.to_string() == written)
}
