//! Connections with the settings that durability needs. Every setting is read back; a connection without it is not used.

pub(crate) mod folder;
pub(crate) mod place;
pub(crate) mod readers;

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::sqlite::commit::checkpointer::LOG_KEPT_BYTES;
use redrive_engine::error::{Error, PortResult as Result};

/// The first version without the WAL-reset bug that could damage a database under concurrent checkpoints.
const SQLITE_MIN_VERSION: i32 = 3_051_003;
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const CACHED_STATEMENTS: usize = 128;
/// For commands that write without a server. A server's log has the checkpointer.
const CHECKPOINT_PAGES: u32 = 10_000;
/// New runs land anywhere in the index of names, so it should fit into the cache with a million runs.
const WRITER_CACHE_KIB: i32 = 64 * 1024;

/// Opens the one connection that writes.
pub(crate) fn open_writer(path: &Path, create: bool) -> Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    plan_once(&conn)?;
    use_wal(&conn)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "journal_size_limit", LOG_KEPT_BYTES)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    check(&conn)?;
    Ok(conn)
}

/// One plan per statement. Otherwise SQLite plans again whenever a bound value might favour another index, which made a
/// lookup of a run's steps ten times slower.
pub(crate) fn plan_once(conn: &Connection) -> Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Leaves checkpoints to the checkpointer.
pub(crate) fn disable_checkpoints(conn: &Connection) -> Result<()> {
    Ok(conn.pragma_update(None, "wal_autocheckpoint", 0)?)
}

/// Gives up durability, for a folder that is thrown away.
pub(crate) fn do_not_sync(conn: &Connection) -> Result<()> {
    Ok(conn.pragma_update(None, "synchronous", "OFF")?)
}

/// The file remembers WAL mode; switching needs the file alone.
fn use_wal(conn: &Connection) -> Result<()> {
    let journal: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if journal != "wal" {
        conn.pragma_update(None, "journal_mode", "WAL")?;
    }
    Ok(())
}

/// Reads the settings back: SQLite ignores what it does not know.
pub(crate) fn check(conn: &Connection) -> Result<()> {
    if rusqlite::version_number() < SQLITE_MIN_VERSION {
        return Err(Error::Unexpected(format!("SQLite {} is too old", rusqlite::version())).into());
    }
    let journal: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    let synchronous: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    let foreign_keys: bool = conn.pragma_query_value(None, "foreign_keys", |row| row.get(0))?;
    let full = 2;
    if journal == "wal" && synchronous == full && foreign_keys {
        return Ok(());
    }
    Err(Error::Unexpected(format!(
        "SQLite settings did not hold: journal_mode={journal}, synchronous={synchronous}, foreign_keys={foreign_keys}"
    ))
    .into())
}

/// Tells a database that can't be used now from a statement that failed.
pub(crate) fn classify(error: impl Into<Error>) -> Error {
    match error.into() {
        Error::Storage(source) if source.downcast_ref().is_some_and(is_unavailable) => Error::Unavailable(source),
        other => other,
    }
}

/// Whether an error means that nothing can be written now, rather than that the command was wrong.
pub(crate) fn is_unavailable(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode;
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_has_all_required_settings() {
        let folder = tempfile::tempdir().unwrap();
        let conn = open_writer(&folder.path().join("a.db"), true).unwrap();
        assert!(check(&conn).is_ok());
    }

    #[test]
    fn a_connection_without_full_synchronous_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let conn = open_writer(&folder.path().join("a.db"), true).unwrap();
        conn.pragma_update(None, "synchronous", "NORMAL").unwrap();
        assert!(check(&conn).is_err());
    }
}
