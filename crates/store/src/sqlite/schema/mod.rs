//! The schema's versions. Each migration and its number go into one transaction, so a kill leaves the old schema or
//! the new one; two that start together take turns and the second finds nothing to do.

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, TransactionBehavior};

use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::failpoint;

struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// In order; the position plus one is the version. Never edited once released.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "0001_runs", sql: include_str!("migrations/0001_runs.sql") },
    Migration { name: "0002_pattern_triage", sql: include_str!("migrations/0002_pattern_triage.sql") },
    Migration { name: "0003_counters", sql: include_str!("migrations/0003_counters.sql") },
    Migration { name: "0004_sent", sql: include_str!("migrations/0004_sent.sql") },
    Migration { name: "0005_budgets", sql: include_str!("migrations/0005_budgets.sql") },
    Migration { name: "0006_ledger", sql: include_str!("migrations/0006_ledger.sql") },
    Migration { name: "0007_review", sql: include_str!("migrations/0007_review.sql") },
    Migration { name: "0008_breakers", sql: include_str!("migrations/0008_breakers.sql") },
    Migration { name: "0009_operations", sql: include_str!("migrations/0009_operations.sql") },
    Migration { name: "0010_urgent", sql: include_str!("migrations/0010_urgent.sql") },
    Migration { name: "0011_plain_log", sql: include_str!("migrations/0011_plain_log.sql") },
    Migration { name: "0012_names", sql: include_str!("migrations/0012_names.sql") },
    Migration { name: "0013_merged_steps", sql: include_str!("migrations/0013_merged_steps.sql") },
];

pub(crate) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

pub(crate) fn version(conn: &Connection) -> Result<u32> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Brings the schema up to what this binary knows.
pub(crate) fn migrate(conn: &mut Connection) -> Result<()> {
    refuse_newer(version(conn)?)?;
    for (at, migration) in (1..).zip(MIGRATIONS) {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read inside the transaction: another process may have just done it.
        if version(&tx)? < at {
            let mut statements = Batch::new(&tx, migration.sql);
            while let Some(mut statement) = statements.next()? {
                statement.execute([])?;
                failpoint::pass("mid_migration");
            }
            tx.pragma_update(None, "user_version", at)?;
            failpoint::pass("mid_migration");
            tx.commit()?;
            failpoint::pass("mid_migration");
            tracing::info!(migration = migration.name, "the store's schema is new");
        }
    }
    refuse_newer(version(conn)?)
}

/// For those who only visit: neither older nor newer than what this binary knows.
pub(crate) fn require_current(conn: &Connection) -> Result<()> {
    let found = version(conn)?;
    refuse_newer(found)?;
    if found < newest() {
        let known = newest();
        return Err(Error::Unexpected(format!(
            "the store has schema {found}, this binary needs {known}: start `redrive serve` once to bring it up"
        ))
        .into());
    }
    Ok(())
}

fn refuse_newer(found: u32) -> Result<()> {
    let known = newest();
    if found > known {
        return Err(Error::Unexpected(format!(
            "the store has schema {found}, newer than this binary's {known}: use the newer redrive"
        ))
        .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection::open_writer;

    #[test]
    fn a_store_newer_than_the_binary_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut conn = open_writer(&folder.path().join("a.db"), true).unwrap();
        migrate(&mut conn).unwrap();
        conn.pragma_update(None, "user_version", newest() + 1).unwrap();
        let message = migrate(&mut conn).unwrap_err().to_string();
        assert!(message.contains("newer than this binary"), "{message}");
        assert_eq!(version(&conn).unwrap(), newest() + 1);
    }

    #[test]
    fn two_that_start_together_migrate_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        drop(open_writer(&path, true).unwrap());
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| migrate(&mut open_writer(&path, true).unwrap()).unwrap());
            }
        });
        assert_eq!(version(&open_writer(&path, false).unwrap()).unwrap(), newest());
    }

    /// A store of so many migrations, with one run in it.
    fn older(folder: &tempfile::TempDir, migrations: u32) -> Connection {
        let conn = open_writer(&folder.path().join("a.db"), true).unwrap();
        MIGRATIONS.iter().take(migrations as usize).for_each(|older| conn.execute_batch(older.sql).unwrap());
        conn.pragma_update(None, "user_version", migrations).unwrap();
        conn.execute_batch(
            "INSERT INTO tenants (id, name, created_at) VALUES (1, 'acme', 0);
             INSERT INTO queues (id, name, settings, created_at) VALUES (1, 'default', '{}', 0);
             INSERT INTO runs (id, tenant, queue, key_hash, run_id, state, detail, attempt, revision, reason, category,
                 severity, received_at, updated_at, environment, replays, life)
             VALUES (1, 1, 1, 77, 'r1', 2, 0, 1, 1, '', -1, 1, 0, 0, 'production', 0, '{}');",
        )
        .unwrap();
        conn
    }

    #[test]
    fn the_ledger_of_an_older_store_comes_along() {
        let folder = tempfile::tempdir().unwrap();
        let mut conn = older(&folder, 5);
        conn.execute_batch(
            "INSERT INTO steps (tenant, run, attempt, epoch, key, named, name, effect, status, at, output)
             VALUES (1, 1, 1, 3, 'done', 1, 'n', 1, 1, 7, x'00'), (1, 1, 1, 3, 'failed', 1, 'n', 1, 2, 7, NULL);",
        )
        .unwrap();
        migrate(&mut conn).unwrap();
        let mut read =
            conn.prepare("SELECT key || run_id || holds || used_at || used_epoch FROM steps ORDER BY id").unwrap();
        let rows: Vec<String> = read.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows, ["doner1173", "failedr1073"]);
    }

    #[test]
    fn the_runs_of_an_older_store_are_found_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let mut conn = older(&folder, 11);
        migrate(&mut conn).unwrap();
        let name = conn.query_row("SELECT key_hash, run FROM run_names", [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(name, Ok((77, 1)));
        conn.execute("DELETE FROM runs", []).unwrap();
        assert!(!conn.prepare("SELECT 1 FROM run_names").unwrap().exists([]).unwrap());
    }

    #[test]
    fn a_visitor_asks_for_a_migrated_store() {
        let folder = tempfile::tempdir().unwrap();
        let conn = open_writer(&folder.path().join("a.db"), true).unwrap();
        assert!(require_current(&conn).unwrap_err().to_string().contains("redrive serve"));
    }
}
