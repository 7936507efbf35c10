//! What finds a run by its name.

use sha2::{Digest as _, Sha256};

/// What `runs.key_hash` holds.
pub fn key_hash(tenant: i64, run_id: &str) -> i64 {
    let hash = Sha256::new().chain_update(tenant.to_le_bytes()).chain_update(run_id).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_le_bytes(first)
}
