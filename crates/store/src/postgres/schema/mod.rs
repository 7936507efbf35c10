//! Migrations of a PostgreSQL store. Each runs in one transaction with its version number and under one lock, so a crash
//! leaves the old schema or the new one. Replicas that start together take turns, and only the first migrates.

use crate::postgres::connection::PgSession;
use crate::shared::migrations::{self, Migration, with_test_upgrade};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::failpoint;

/// In order, with the same names as SQLite's. Append only: a migration that has landed never changes.
const MIGRATIONS: &[Migration] =
    &[Migration { name: "0001_initial", sql: include_str!("migrations/0001_initial.sql") }];

/// Held by the replica that migrates.
const LOCK: i64 = 0x7265_6472_6976_6510;

/// 0 for a database without a store.
pub(crate) async fn version(session: &PgSession) -> Result<u32> {
    // Asks the catalogue: the session's cache of names may be older than the lock it waited for.
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
         WHERE relname = 'schema_version' AND nspname = ANY(current_schemas(false)))";
    let exists = session.client.query_one(sql, &[]).await?;
    if !exists.get::<_, bool>(0) {
        return Ok(0);
    }
    let found = session.client.query_opt("SELECT version FROM schema_version", &[]).await?;
    Ok(found.map_or(0, |row| u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX)))
}

/// Migrates the store to this binary's schema.
pub(crate) async fn migrate(session: &PgSession) -> Result<()> {
    let all = with_test_upgrade(MIGRATIONS);
    let newest = migrations::newest(&all);
    migrations::refuse_newer(version(session).await?, newest)?;
    for (at, migration) in (1..).zip(&all) {
        let done = step(session, at, migration).await;
        if done.is_err() {
            session.client.batch_execute("ROLLBACK").await?;
        }
        done?;
    }
    migrations::refuse_newer(version(session).await?, newest)
}

async fn step(session: &PgSession, at: u32, migration: &Migration) -> Result<()> {
    // An index on a large table takes long, and so does the wait for another replica's.
    session.client.batch_execute("BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0").await?;
    session.client.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    // Read under the lock: another replica may have migrated meanwhile.
    if version(session).await? < at {
        for statement in statements(migration.sql) {
            session.client.batch_execute(statement).await?;
            failpoint::pass("mid_migration");
        }
        let note = format!(
            "CREATE TABLE IF NOT EXISTS schema_version (id BIGINT PRIMARY KEY CHECK (id = 1), version BIGINT NOT NULL); \
             INSERT INTO schema_version (id, version) VALUES (1, {at}) \
             ON CONFLICT (id) DO UPDATE SET version = excluded.version"
        );
        session.client.batch_execute(&note).await?;
        failpoint::pass("mid_migration");
        tracing::info!(migration = migration.name, version = at, "schema migrated");
    }
    session.client.batch_execute("COMMIT").await?;
    failpoint::pass("mid_migration");
    Ok(())
}

/// One by one, so that tests can kill the process between any two. No line inside a statement ends with a semicolon.
fn statements(sql: &str) -> impl Iterator<Item = &str> {
    let is_sql = |line: &str| !line.trim().is_empty() && !line.starts_with("--");
    sql.split(";\n").filter(move |statement| statement.lines().any(is_sql))
}

/// For commands that never migrate.
pub(crate) async fn require_current(session: &PgSession) -> Result<()> {
    let found = version(session).await?;
    if found == 0 {
        return Err(Error::Unexpected("no store in this database: start `redrive serve` with it first".into()).into());
    }
    migrations::refuse_other(found, migrations::newest(&with_test_upgrade(MIGRATIONS)))
}
