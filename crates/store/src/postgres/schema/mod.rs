//! The schema's versions. Each migration and its number go into one transaction under one lock, so a kill leaves the old
//! schema or the new one; replicas that start together take turns and all but the first find nothing to do.

use crate::postgres::connection::PgSession;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::failpoint;

struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// In order; the position plus one is the version. Never edited once released. Same numbers and names as SQLite's.
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

/// Who migrates holds this.
const LOCK: i64 = 0x7265_6472_6976_6510;

pub(crate) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// 0 where nothing of ours is there yet.
pub(crate) async fn version(session: &PgSession) -> Result<u32> {
    // Asked of the catalogue itself: what a session remembers of names may be older than the lock it waited for.
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
         WHERE relname = 'schema_version' AND nspname = ANY(current_schemas(false)))";
    let there = session.client.query_one(sql, &[]).await?;
    if !there.get::<_, bool>(0) {
        return Ok(0);
    }
    let found = session.client.query_opt("SELECT version FROM schema_version", &[]).await?;
    Ok(found.map_or(0, |row| u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX)))
}

/// Brings the schema up to what this binary knows.
pub(crate) async fn migrate(session: &PgSession) -> Result<()> {
    refuse_newer(version(session).await?)?;
    for (at, migration) in (1..).zip(MIGRATIONS) {
        let done = step(session, at, migration).await;
        if done.is_err() {
            session.client.batch_execute("ROLLBACK").await?;
        }
        done?;
    }
    refuse_newer(version(session).await?)
}

async fn step(session: &PgSession, at: u32, migration: &Migration) -> Result<()> {
    // An index on a large table takes its time, and so may whoever is ahead of us.
    session.client.batch_execute("BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0").await?;
    session.client.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    // Read under the lock: another replica may have just done it.
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
        tracing::info!(migration = migration.name, "the store's schema is new");
    }
    session.client.batch_execute("COMMIT").await?;
    failpoint::pass("mid_migration");
    Ok(())
}

/// One by one, so that a kill may come between any two. No migration has a semicolon inside of a statement.
fn statements(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(";\n").filter(|statement| {
        statement.lines().any(|connection| !connection.trim().is_empty() && !connection.starts_with("--"))
    })
}

/// For those who only visit: neither older nor newer than what this binary knows.
pub(crate) async fn require_current(session: &PgSession) -> Result<()> {
    let (found, known) = (version(session).await?, newest());
    refuse_newer(found)?;
    if found == 0 {
        return Err(Error::Unexpected("no store in this database: start `redrive serve` with it first".into()).into());
    }
    if found < known {
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
