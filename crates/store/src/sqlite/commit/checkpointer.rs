//! The write-ahead log's way into the database's file. Nearly all of it is moved beside the committer, by a thread with a
//! connection of its own. The log can begin anew only when all of it has been moved and nobody appends: so the committer,
//! which alone appends, moves the last of it itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use redrive_engine::error::{Error, PortResult as Result};

/// So many pages that were not moved yet are worth a pass.
const PASS_PAGES: i64 = 10_000;
/// A log of so many pages is begun anew. The longer it is, the more often a page has changed before it is moved once.
const FULL_PAGES: i64 = 40_000;
/// Fewer changed rows than these since the last look can't have filled much of the log.
const LOOK_CHANGES: u64 = 1_000;
/// What the log's file keeps of its length when it begins anew: writing over costs less than growing.
pub(crate) const LOG_KEPT_BYTES: i64 = (FULL_PAGES + PASS_PAGES) * 4_096;

/// Kept by the committer's thread.
pub(crate) struct Checkpointer {
    passes: Option<SyncSender<()>>,
    busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// What the committer had changed by the last look.
    looked_at: u64,
}

impl Checkpointer {
    /// `conn` is the thread's own.
    pub(crate) fn start(conn: Connection) -> Result<Self> {
        let (passes, asked) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let at_it = busy.clone();
        let thread = std::thread::Builder::new()
            .name("checkpointer".into())
            .spawn(move || make_passes(&conn, &asked, &at_it))
            .map_err(|e| Error::Unexpected(format!("no thread for the checkpointer: {e}")))?;
        Ok(Self { passes: Some(passes), busy, thread: Some(thread), looked_at: 0 })
    }

    /// After each commit: has the log grown so that something of it should be moved?
    pub(crate) fn look(&mut self, committer: &Connection) {
        let changed = committer.total_changes();
        if changed - self.looked_at < LOOK_CHANGES || self.busy.load(Ordering::Acquire) {
            return;
        }
        self.looked_at = changed;
        let Some(log) = Log::of(committer, "NOOP") else { return };
        if log.pages >= FULL_PAGES {
            Log::of(committer, "PASSIVE");
        } else if log.pages - log.moved >= PASS_PAGES
            && let Some(passes) = &self.passes
        {
            self.busy.store(true, Ordering::Release);
            if passes.try_send(()).is_err() {
                self.busy.store(false, Ordering::Release);
            }
        }
    }

    /// Ends the thread, and then the log: what is closed needs no recovery.
    pub(crate) fn end(&mut self, committer: &Connection) {
        self.passes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        Log::of(committer, "TRUNCATE");
    }
}

fn make_passes(conn: &Connection, asked: &Receiver<()>, busy: &AtomicBool) {
    while asked.recv().is_ok() {
        let _done = Done(busy);
        if catch_unwind(AssertUnwindSafe(|| Log::of(conn, "PASSIVE"))).is_err() {
            tracing::error!("the checkpointer panicked; the log keeps everything until its next pass");
        }
    }
}

/// However a pass ends: a committer that waited for it for good would let the log grow for good.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// How long the log is, and how much of it has been moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Log {
    pages: i64,
    moved: i64,
}

impl Log {
    /// What is not moved stays in the log and is as safe there; the next look tries again.
    fn of(conn: &Connection, mode: &str) -> Option<Self> {
        let moved = conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})")).and_then(|mut checkpoint| {
            checkpoint.query_row([], |row| Ok(Self { pages: row.get(1)?, moved: row.get(2)? }))
        });
        moved.inspect_err(|error| tracing::warn!(%error, mode, "a checkpoint failed; the log keeps everything")).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection::{leave_the_log, open_writer};

    /// Commits until the log has so many pages.
    fn fill(conn: &Connection, pages: i64) {
        while Log::of(conn, "NOOP").unwrap().pages < pages {
            conn.execute("INSERT INTO filling SELECT zeroblob(4000) FROM generate", []).unwrap();
        }
    }

    fn filling(folder: &tempfile::TempDir) -> (Connection, Connection) {
        let path = folder.path().join("a.db");
        let conn = open_writer(&path, true).unwrap();
        leave_the_log(&conn).unwrap();
        conn.execute_batch(
            "CREATE TABLE filling (bytes BLOB);
             CREATE VIEW generate AS
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i FROM n;",
        )
        .unwrap();
        (conn, open_writer(&path, false).unwrap())
    }

    #[test]
    fn what_is_worth_a_pass_is_moved_beside_the_committer() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, own) = filling(&folder);
        let mut checkpointer = Checkpointer::start(own).unwrap();
        fill(&conn, PASS_PAGES - 2_500);
        checkpointer.look(&conn);
        assert!(!checkpointer.busy.load(Ordering::Acquire), "not worth it yet");
        fill(&conn, PASS_PAGES);
        checkpointer.look(&conn);
        // The thread makes the passes that it was asked for before it ends.
        checkpointer.passes = None;
        checkpointer.thread.take().unwrap().join().unwrap();
        let log = Log::of(&conn, "NOOP").unwrap();
        assert_eq!(log.moved, log.pages);
        assert!(!checkpointer.busy.load(Ordering::Acquire));
    }

    #[test]
    fn a_log_that_nobody_moves_beside_the_committer_begins_anew_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, _) = filling(&folder);
        let (passes, _) = sync_channel(1);
        let mut checkpointer = Checkpointer { passes: Some(passes), busy: Arc::default(), thread: None, looked_at: 0 };
        for pages in [PASS_PAGES, FULL_PAGES] {
            fill(&conn, pages);
            checkpointer.look(&conn);
        }
        conn.execute("INSERT INTO filling VALUES (1)", []).unwrap();
        assert!(Log::of(&conn, "NOOP").unwrap().pages < PASS_PAGES);
    }

    #[test]
    fn a_full_log_begins_anew_and_a_closed_one_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, own) = filling(&folder);
        let mut checkpointer = Checkpointer::start(own).unwrap();
        fill(&conn, FULL_PAGES);
        checkpointer.look(&conn);
        conn.execute("INSERT INTO filling VALUES (1)", []).unwrap();
        assert!(Log::of(&conn, "NOOP").unwrap().pages < PASS_PAGES);
        checkpointer.end(&conn);
        assert_eq!(std::fs::metadata(folder.path().join("a.db-wal")).unwrap().len(), 0);
    }
}
