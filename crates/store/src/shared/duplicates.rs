//! How far a search for duplicates goes, and how its two ways come together.

use redrive_core::wire::Likeness;

/// More than anybody looks through by hand.
pub(crate) const DUPLICATES_MAX: usize = 100;
/// Runs received before and after it whose idempotency key is compared.
pub(crate) const NEAR_RUNS: i64 = 25_000;
/// Runs of its pattern whose key and payload are compared, the newest first.
pub(crate) const ALIKE_RUNS: usize = 20_000;

/// What was found, and whether everything was looked at.
pub(crate) struct Found {
    pub(crate) runs: Vec<(i64, Likeness)>,
    pub(crate) all_seen: bool,
}

/// Each once, the newest first, and whether there may be more.
pub(crate) fn together(near: Found, alike: Found) -> (Vec<(i64, Likeness)>, bool) {
    let mut found = near.runs;
    for (run, same) in alike.runs {
        if !found.iter().any(|(known, _)| *known == run) {
            found.push((run, same));
        }
    }
    found.sort_by_key(|(run, _)| std::cmp::Reverse(*run));
    let more = found.len() > DUPLICATES_MAX || !near.all_seen || !alike.all_seen;
    found.truncate(DUPLICATES_MAX);
    (found, more)
}
