//! Checkpoints. A thread with its own connection moves nearly all of the write-ahead log into the database file. The log can
//! restart only when all of it has been moved and nothing is appended, so the writer moves the last part itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use redrive_engine::error::{Error, PortResult as Result};

/// Unmoved pages that are worth a pass.
const PASS_PAGES: i64 = 10_000;
/// A log of so many pages is restarted. In a longer log a page changes more often before it is moved once.
const FULL_PAGES: i64 = 40_000;
/// Fewer changed rows than this since the last check can't have filled much of the log.
const CHECK_CHANGES: u64 = 1_000;
/// Size that the log's file keeps when it restarts: overwriting costs less than growing.
pub(crate) const LOG_KEPT_BYTES: i64 = (FULL_PAGES + PASS_PAGES) * 4_096;

/// Owned by the writer's thread.
pub(crate) struct Checkpointer {
    passes: Option<SyncSender<()>>,
    busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Rows that the writer had changed at the last check.
    checked_at: u64,
}

impl Checkpointer {
    pub(crate) fn start(conn: Connection) -> Result<Self> {
        let (passes, asked) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let at_it = busy.clone();
        let thread = std::thread::Builder::new()
            .name("checkpointer".into())
            .spawn(move || make_passes(&conn, &asked, &at_it))
            .map_err(|e| Error::Unexpected(format!("no thread for the checkpointer: {e}")))?;
        Ok(Self { passes: Some(passes), busy, thread: Some(thread), checked_at: 0 })
    }

    /// Called after each commit: moves pages, or asks the thread to, when the log has grown enough.
    pub(crate) fn check(&mut self, writer: &Connection) {
        let changed = writer.total_changes();
        if changed - self.checked_at < CHECK_CHANGES || self.busy.load(Ordering::Acquire) {
            return;
        }
        self.checked_at = changed;
        let Some(log) = WalSize::of(writer, "NOOP") else { return };
        if log.pages >= FULL_PAGES {
            WalSize::of(writer, "PASSIVE");
        } else if log.pages - log.moved >= PASS_PAGES
            && let Some(passes) = &self.passes
        {
            self.busy.store(true, Ordering::Release);
            if passes.try_send(()).is_err() {
                self.busy.store(false, Ordering::Release);
            }
        }
    }

    /// Ends the thread and empties the log, so that the next open needs no recovery.
    pub(crate) fn end(&mut self, writer: &Connection) {
        self.passes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        WalSize::of(writer, "TRUNCATE");
    }
}

fn make_passes(conn: &Connection, asked: &Receiver<()>, busy: &AtomicBool) {
    while asked.recv().is_ok() {
        let _done = PassGuard(busy);
        if catch_unwind(AssertUnwindSafe(|| WalSize::of(conn, "PASSIVE"))).is_err() {
            tracing::error!("checkpointer panicked; the log keeps everything until its next pass");
        }
    }
}

/// Clears `busy` however a pass ends; otherwise the log would grow without limit.
struct PassGuard<'a>(&'a AtomicBool);

impl Drop for PassGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The pages of the log, and how many of them have been moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WalSize {
    pages: i64,
    moved: i64,
}

impl WalSize {
    /// Pages that are not moved are safe in the log; the next check tries again.
    fn of(conn: &Connection, mode: &str) -> Option<Self> {
        let moved = conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})")).and_then(|mut checkpoint| {
            checkpoint.query_row([], |row| Ok(Self { pages: row.get(1)?, moved: row.get(2)? }))
        });
        moved.inspect_err(|error| tracing::warn!(%error, mode, "checkpoint failed; the log keeps everything")).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection::{disable_checkpoints, open_writer};

    /// Commits until the log has so many pages.
    fn fill(conn: &Connection, pages: i64) {
        while WalSize::of(conn, "NOOP").unwrap().pages < pages {
            conn.execute("INSERT INTO filling SELECT zeroblob(4000) FROM generate", []).unwrap();
        }
    }

    fn filling(folder: &tempfile::TempDir) -> (Connection, Connection) {
        let path = folder.path().join("a.db");
        let conn = open_writer(&path, true).unwrap();
        disable_checkpoints(&conn).unwrap();
        conn.execute_batch(
            "CREATE TABLE filling (bytes BLOB);
             CREATE VIEW generate AS
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i FROM n;",
        )
        .unwrap();
        (conn, open_writer(&path, false).unwrap())
    }

    #[test]
    fn a_grown_log_is_moved_by_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, own) = filling(&folder);
        let mut checkpointer = Checkpointer::start(own).unwrap();
        fill(&conn, PASS_PAGES - 2_500);
        checkpointer.check(&conn);
        assert!(!checkpointer.busy.load(Ordering::Acquire), "not worth it yet");
        fill(&conn, PASS_PAGES);
        checkpointer.check(&conn);
        // The thread makes the passes that it was asked for before it ends.
        checkpointer.passes = None;
        checkpointer.thread.take().unwrap().join().unwrap();
        let log = WalSize::of(&conn, "NOOP").unwrap();
        assert_eq!(log.moved, log.pages);
        assert!(!checkpointer.busy.load(Ordering::Acquire));
    }

    #[test]
    fn a_full_log_restarts_without_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, _) = filling(&folder);
        let (passes, _) = sync_channel(1);
        let mut checkpointer = Checkpointer { passes: Some(passes), busy: Arc::default(), thread: None, checked_at: 0 };
        for pages in [PASS_PAGES, FULL_PAGES] {
            fill(&conn, pages);
            checkpointer.check(&conn);
        }
        conn.execute("INSERT INTO filling VALUES (1)", []).unwrap();
        assert!(WalSize::of(&conn, "NOOP").unwrap().pages < PASS_PAGES);
    }

    #[test]
    fn a_full_log_restarts_and_closing_empties_it() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, own) = filling(&folder);
        let mut checkpointer = Checkpointer::start(own).unwrap();
        fill(&conn, FULL_PAGES);
        checkpointer.check(&conn);
        conn.execute("INSERT INTO filling VALUES (1)", []).unwrap();
        assert!(WalSize::of(&conn, "NOOP").unwrap().pages < PASS_PAGES);
        checkpointer.end(&conn);
        assert_eq!(std::fs::metadata(folder.path().join("a.db-wal")).unwrap().len(), 0);
    }
}
