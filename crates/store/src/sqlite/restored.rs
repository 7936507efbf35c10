//! Marks a store as restored: every epoch is raised, so that no lease from before or after the backup counts, and the store is
//! frozen until an operator releases it.

use redrive_core::time::Timestamp;
use rusqlite::{Connection, TransactionBehavior, params};

use redrive_engine::error::PortResult as Result;
use redrive_engine::freeze::{EPOCHS_RAISED_BY, restored_document};

const BATCH_RUNS: usize = 1_000;

/// All of it in one transaction. Returns how many runs had been leased.
pub(super) fn mark_restored(conn: &mut Connection, now: Timestamp, backup_at: Timestamp) -> Result<u64> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (mut raised, mut after) = (0, i64::MIN);
    loop {
        let runs: Vec<(i64, String)> = tx
            .prepare_cached("SELECT id, life FROM runs WHERE id > ?1 ORDER BY id LIMIT ?2")?
            .query_map(params![after, BATCH_RUNS], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let Some((last, _)) = runs.last() else { break };
        after = *last;
        for (id, life) in &runs {
            // A document that can't be read can't be leased either: the services set it aside.
            if let Ok(Some(life)) = restored_document(life) {
                tx.prepare_cached("UPDATE runs SET life = ?2, lease_request = NULL WHERE id = ?1")?
                    .execute(params![id, life])?;
                raised += 1;
            }
        }
    }
    // Numbers that were given out after the backup are not given out again.
    tx.execute(
        "UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name IN ('runs', 'changes')",
        [i64::try_from(EPOCHS_RAISED_BY)?],
    )?;
    tx.execute(
        "INSERT OR REPLACE INTO store_freeze (id, restored_at, backup_at) VALUES (1, ?1, ?2)",
        params![now.as_millis(), backup_at.as_millis()],
    )?;
    tx.commit()?;
    Ok(raised)
}
