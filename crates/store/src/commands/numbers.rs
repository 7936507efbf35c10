//! How a run's attempts and payloads are numbered, and what finds a run by its name.

use sha2::{Digest as _, Sha256};

/// An attempt or a payload of a run lies at `run << 20 | number`.
pub(crate) const NUMBER_BITS: u32 = 20;

pub(crate) fn numbered(run: i64, number: u32) -> i64 {
    (run << NUMBER_BITS) | i64::from(number)
}

/// Where a run's attempts or payloads lie: the first and the last number they can have.
pub(crate) fn span_of(run: i64) -> (i64, i64) {
    let first = run << NUMBER_BITS;
    (first, first | ((1 << NUMBER_BITS) - 1))
}

/// What `runs.key_hash` holds.
pub(crate) fn key_hash(tenant: i64, run_id: &str) -> i64 {
    let hash = Sha256::new().chain_update(tenant.to_le_bytes()).chain_update(run_id).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_le_bytes(first)
}
