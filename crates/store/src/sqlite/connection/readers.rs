//! Connections that only read. WAL lets them run beside the writer, so a read never waits for a commit.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::sqlite::connection::{check, classify, plan_once};
use redrive_engine::error::{Error, PortResult, Result};
use redrive_engine::fair_semaphore::{FairSemaphore, lower_thread_priority};
use redrive_engine::ports::backend::Owner;

pub(crate) const READERS: usize = 4;
/// For keys alone.
pub(crate) const KEY_READERS: usize = 1;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pages each connection keeps, in KiB. The rest is the system's cache: mapping the file instead would count every
/// page once per connection as our memory.
const CACHE_KIB: i64 = 4 * 1024;
/// Lists build their statement from the filter; those in use stay prepared.
const STATEMENTS: usize = 96;

/// A read-only connection, its settings checked.
pub(crate) fn open_reader(path: &Path) -> PortResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    plan_once(&conn)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    check(&conn)?;
    expect(&conn, "query_only", 1)?;
    expect(&conn, "cache_size", -CACHE_KIB)?;
    Ok(conn)
}

fn expect(conn: &Connection, pragma: &str, wanted: i64) -> PortResult<()> {
    let found: i64 = conn.pragma_query_value(None, pragma, |row| row.get(0))?;
    if found == wanted {
        return Ok(());
    }
    Err(Error::Unavailable(format!("a reader has {pragma} = {found}, and needs {wanted}").into()).into())
}

/// A small pool of readers. One owner has at most half of them at a time.
pub(crate) struct Readers {
    pool: Arc<ReaderPool>,
    turns: FairSemaphore<Owner>,
}

struct ReaderPool {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl ReaderPool {
    /// An idle connection, or a new one in place of one that a panic took.
    fn take(self: &Arc<Self>) -> Result<PooledReader> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => open_reader(&self.path)?,
        };
        Ok(PooledReader { conn: Some(conn), pool: Arc::clone(self) })
    }
}

/// A connection on loan: it comes back when it is dropped, unless its reader panicked in the middle of something.
struct PooledReader {
    conn: Option<Connection>,
    pool: Arc<ReaderPool>,
}

impl Drop for PooledReader {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take().filter(|_| !std::thread::panicking()) {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
    }
}

impl Readers {
    /// `count` connections to a store that the writer has already opened.
    pub(crate) fn open(path: &Path, count: usize) -> Result<Self> {
        let idle = (0..count).map(|_| open_reader(path)).collect::<PortResult<Vec<_>>>()?;
        let pool = Arc::new(ReaderPool { path: path.to_owned(), idle: Mutex::new(idle) });
        Ok(Self { pool, turns: FairSemaphore::new(count, count.div_ceil(2)) })
    }

    /// Runs `read` beside the other tasks, in one transaction: all it sees is of one moment.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        owner: &Owner,
        read: impl FnOnce(&Connection) -> PortResult<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turns.acquire(owner).await.ok_or(Error::Closing)?;
        let pool = Arc::clone(&self.pool);
        let reading = tokio::task::spawn_blocking(move || {
            // FolderLock here and not by the caller, who may stop waiting before the read ends.
            let _turn = turn;
            lower_thread_priority();
            let reader = pool.take()?;
            let conn = reader.conn.as_ref().ok_or(Error::Closing)?;
            read(&*conn.unchecked_transaction()?)
        });
        match reading.await {
            Ok(answer) => answer.map_err(classify),
            Err(lost) => Err(Error::Unexpected(format!("a read did not end: {lost}"))),
        }
    }

    /// Refuses new reads; those under way end by themselves.
    pub(crate) fn close(&self) {
        self.turns.close();
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Readers) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer.execute_batch("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (7)").unwrap();
        let readers = Readers::open(&path, 2).unwrap();
        (folder, readers)
    }

    fn seven(conn: &Connection) -> PortResult<i64> {
        Ok(conn.query_row("SELECT n FROM t", [], |row| row.get(0))?)
    }

    #[tokio::test]
    async fn a_reader_reads_and_can_not_write() {
        let (_folder, readers) = store();
        assert_eq!(readers.run(&Owner::System, seven).await.unwrap(), 7);
        let write = |conn: &Connection| Ok(conn.execute("DELETE FROM t", [])?);
        assert!(readers.run(&Owner::System, write).await.is_err());
        assert_eq!(readers.run(&Owner::System, seven).await.unwrap(), 7);
    }

    #[test]
    fn readers_refuse_a_store_without_wal_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = DELETE; CREATE TABLE t (n INTEGER)").unwrap();
        let refused = open_reader(&path).unwrap_err().to_string();
        assert!(refused.contains("journal_mode=delete"), "{refused}");
    }

    #[test]
    fn a_reader_has_every_setting_that_a_writer_has() {
        let (folder, _readers) = store();
        assert!(check(&open_reader(&folder.path().join("store.db")).unwrap()).is_ok());
    }

    #[tokio::test]
    async fn reads_that_panic_cost_the_pool_no_connection() {
        let (_folder, readers) = store();
        for _ in 0..5 {
            let lost = readers.run(&Owner::System, |_| -> PortResult<()> { panic!("in the middle of a read") }).await;
            assert!(matches!(lost, Err(Error::Unexpected(_))));
        }
        assert_eq!(readers.run(&Owner::System, seven).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_closed_pool_says_so() {
        let (_folder, readers) = store();
        readers.close();
        assert!(matches!(readers.run(&Owner::System, seven).await, Err(Error::Closing)));
    }
}
