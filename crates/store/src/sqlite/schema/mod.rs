//! Migrations of a SQLite store. Each runs in one transaction with its version number, so a crash leaves the old schema or
//! the new one. Processes that start together take turns, and only the first migrates.

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, TransactionBehavior};

use crate::shared::migrations::{self, Migration, with_test_upgrade};
use redrive_engine::error::PortResult as Result;
use redrive_engine::failpoint;

/// In order, with the same names as PostgreSQL's. Append only: a migration that has landed never changes.
const MIGRATIONS: &[Migration] =
    &[Migration { name: "0001_initial", sql: include_str!("migrations/0001_initial.sql") }];

pub(crate) fn version(conn: &Connection) -> Result<u32> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Migrates the store to this binary's schema.
pub(crate) fn migrate(conn: &mut Connection) -> Result<()> {
    apply(conn, &with_test_upgrade(MIGRATIONS))
}

fn apply(conn: &mut Connection, all: &[Migration]) -> Result<()> {
    let newest = migrations::newest(all);
    migrations::refuse_newer(version(conn)?, newest)?;
    for (at, migration) in (1..).zip(all) {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read inside the transaction: another process may have migrated meanwhile.
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
            tracing::info!(migration = migration.name, version = at, "schema migrated");
        }
    }
    migrations::refuse_newer(version(conn)?, newest)
}

/// For commands that never migrate.
pub(crate) fn require_current(conn: &Connection) -> Result<()> {
    migrations::refuse_other(version(conn)?, migrations::newest(&with_test_upgrade(MIGRATIONS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::migrations::UPGRADE;
    use crate::sqlite::connection::open_writer;

    fn store(folder: &tempfile::TempDir) -> Connection {
        open_writer(&folder.path().join("a.db"), true).unwrap()
    }

    fn upgraded() -> Vec<Migration> {
        [MIGRATIONS, &[UPGRADE]].concat()
    }

    /// Tables, indexes and triggers.
    fn objects(conn: &Connection) -> Vec<String> {
        let mut names = conn.prepare("SELECT name FROM sqlite_schema ORDER BY name").unwrap();
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn insert_run(conn: &Connection) {
        conn.execute_batch(
            "INSERT INTO tenants (id, name) VALUES (1, 'acme');
             INSERT INTO queues (id, name, settings, created_at) VALUES (1, 'default', '{}', 0);
             INSERT INTO runs (id, tenant, queue, key_hash, run_id, state, detail, attempt, revision, reason, category,
                 severity, received_at, updated_at, environment, replays, life)
             VALUES (7, 1, 1, 77, 'r1', 2, 0, 1, 1, '', -1, 1, 0, 0, 'production', 0, '{}');",
        )
        .unwrap();
    }

    #[test]
    fn newer_store_is_refused_and_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let mut conn = store(&folder);
        apply(&mut conn, &upgraded()).unwrap();
        let before = objects(&conn);
        let message = apply(&mut conn, MIGRATIONS).unwrap_err().to_string();
        assert!(message.contains("newer than this binary"), "{message}");
        assert_eq!((version(&conn).unwrap(), objects(&conn)), (migrations::newest(MIGRATIONS) + 1, before));
    }

    #[test]
    fn concurrent_starts_migrate_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut conn = store(&folder);
        apply(&mut conn, MIGRATIONS).unwrap();
        insert_run(&conn);
        let path = folder.path().join("a.db");
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| apply(&mut open_writer(&path, true).unwrap(), &upgraded()).unwrap());
            }
        });
        assert_eq!(version(&conn).unwrap(), migrations::newest(MIGRATIONS) + 1);
        let copied: i64 = conn.query_row("SELECT run FROM test_upgrade", [], |row| row.get(0)).unwrap();
        assert_eq!(copied, 7);
    }

    #[test]
    fn failed_migration_leaves_the_old_schema() {
        let folder = tempfile::tempdir().unwrap();
        let mut conn = store(&folder);
        apply(&mut conn, MIGRATIONS).unwrap();
        let before = objects(&conn);
        let broken =
            Migration { name: "broken", sql: "CREATE TABLE half (id INTEGER); CREATE TABLE runs (id INTEGER);" };
        apply(&mut conn, &[MIGRATIONS, &[broken]].concat()).unwrap_err();
        assert_eq!((version(&conn).unwrap(), objects(&conn)), (migrations::newest(MIGRATIONS), before));
    }

    #[test]
    fn run_names_follow_inserted_and_deleted_runs() {
        let folder = tempfile::tempdir().unwrap();
        let mut conn = store(&folder);
        apply(&mut conn, MIGRATIONS).unwrap();
        insert_run(&conn);
        let name = conn.query_row("SELECT key_hash, run FROM run_names_new", [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(name, Ok((77, 7)));
        conn.execute("INSERT INTO run_names SELECT * FROM run_names_new", []).unwrap();
        conn.execute("DELETE FROM runs", []).unwrap();
        let left = "SELECT count(*) FROM (SELECT run FROM run_names UNION ALL SELECT run FROM run_names_new)";
        assert_eq!(conn.query_row(left, [], |row| row.get::<_, i64>(0)), Ok(0));
    }

    #[test]
    fn commands_beside_the_server_require_a_migrated_store() {
        let folder = tempfile::tempdir().unwrap();
        assert!(require_current(&store(&folder)).unwrap_err().to_string().contains("redrive serve"));
    }
}
