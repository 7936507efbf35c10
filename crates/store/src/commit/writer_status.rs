//! Whether a writer's thread runs and its commits succeed. Readiness is answered from it without a commit, and callers that
//! backed off learn from it when the store is back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redrive_core::time::Timestamp;
use tokio::sync::watch;

use redrive_engine::clock::{Clock as _, SystemClock};
use redrive_engine::error::{Error, Result};

/// After a commit this young the next one is expected to succeed.
const FRESH: Duration = Duration::from_secs(1);

/// A moment by two clocks: the monotonic one may stop while a machine is suspended, the wall clock may be set. An age is the
/// larger of the two.
#[derive(Debug, Clone, Copy)]
struct Moment {
    monotonic: Instant,
    wall: Timestamp,
}

impl Moment {
    #[expect(clippy::disallowed_methods, reason = "measures how long ago a commit was; no run depends on it")]
    fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemClock.now() }
    }

    fn age_at(self, now: Self) -> Duration {
        let by_wall = self.wall.as_millis().abs_diff(now.wall.as_millis());
        now.monotonic.saturating_duration_since(self.monotonic).max(Duration::from_millis(by_wall))
    }
}

#[derive(Debug, Default)]
struct CommitHistory {
    running: bool,
    committed_at: Option<Moment>,
    failed_at: Option<Moment>,
    /// A commit has failed since the last one that succeeded.
    failing: bool,
}

/// One writer's status, shared with its thread.
#[derive(Debug)]
pub(crate) struct WriterStatus {
    state: Mutex<CommitHistory>,
    recovered: Arc<watch::Sender<u64>>,
}

/// Marks the writer as ended when its thread ends, also by a panic.
pub(crate) struct RunningWriter(Arc<WriterStatus>);

impl Drop for RunningWriter {
    fn drop(&mut self) {
        self.0.lock().running = false;
    }
}

impl WriterStatus {
    /// `recovered` changes whenever a commit succeeds after others failed.
    pub(crate) fn new(recovered: Arc<watch::Sender<u64>>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), recovered })
    }

    /// Call before the thread starts, and move the guard into it.
    pub(crate) fn running(self: &Arc<Self>) -> RunningWriter {
        self.lock().running = true;
        RunningWriter(self.clone())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().running
    }

    pub(crate) fn committed(&self) {
        let mut state = self.lock();
        state.committed_at = Some(Moment::now());
        if std::mem::take(&mut state.failing) {
            drop(state);
            self.recovered.send_modify(|n| *n = n.wrapping_add(1));
        }
    }

    /// The store could not be written.
    pub(crate) fn failed(&self) {
        let mut state = self.lock();
        (state.failing, state.failed_at) = (true, Some(Moment::now()));
    }

    /// Whether the last commit shows that the next one would succeed; false where only another commit can show it. A recent
    /// failure outweighs a success: a full disk often has room for the smallest write.
    pub(crate) fn is_fresh(&self) -> Result<bool> {
        self.is_fresh_at(Moment::now())
    }

    fn is_fresh_at(&self, now: Moment) -> Result<bool> {
        let state = self.lock();
        if !state.running {
            return Err(Error::Unavailable("the writer's thread has ended".into()));
        }
        let young = |at: Option<Moment>| at.is_some_and(|at| at.age_at(now) < FRESH);
        if young(state.failed_at) {
            return Err(Error::Unavailable("a write has just failed".into()));
        }
        Ok(young(state.committed_at) && !state.failing)
    }

    fn lock(&self) -> MutexGuard<'_, CommitHistory> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a command that its writer dropped: after a panic its outcome is unknown.
pub(crate) fn unanswered(is_closed: bool) -> Error {
    if is_closed { Error::Closing } else { Error::Unavailable("the outcome is unknown: send it again".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_counts_time_that_either_clock_missed() {
        let then = Moment::now();
        let later = |monotonic_s, wall_ms| Moment {
            monotonic: then.monotonic + Duration::from_secs(monotonic_s),
            wall: Timestamp::from_millis(then.wall.as_millis() + wall_ms),
        };
        assert_eq!(then.age_at(later(0, 6_000)), Duration::from_secs(6), "suspended");
        assert_eq!(then.age_at(later(6, 0)), Duration::from_secs(6), "the wall clock stopped");
        assert_eq!(then.age_at(later(0, -6_000)), Duration::from_secs(6), "the wall clock was set back");
    }

    #[test]
    fn a_commit_after_failures_signals_recovery() {
        let (recovered, mut heard) = watch::channel(0);
        let status = WriterStatus::new(Arc::new(recovered));
        let running = status.running();
        status.committed();
        assert!(status.is_fresh().unwrap() && !heard.has_changed().unwrap());
        status.failed();
        let failed = status.lock().failed_at.unwrap();
        let later = Moment { monotonic: failed.monotonic + FRESH, wall: failed.wall };
        assert!(!status.is_fresh_at(later).unwrap(), "only a commit can tell");
        status.committed();
        assert!(status.is_fresh_at(failed).is_err(), "a smaller write proves nothing");
        let committed = status.lock().committed_at.unwrap();
        status.lock().failed_at = None;
        assert!(status.is_fresh_at(committed).unwrap() && heard.has_changed().unwrap());
        heard.mark_unchanged();
        drop(running);
        assert!(matches!(status.is_fresh(), Err(Error::Unavailable(_))) && !status.is_running());
    }
}
