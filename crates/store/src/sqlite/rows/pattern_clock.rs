//! When patterns were seen, written as seldom as can be: the hour under way is counted on the pattern's own row, and the
//! place that lists sort by moves at most once a second. Both are known from the last time, so that nothing is read.

use redrive_core::time::Timestamp;
use rusqlite::{Connection, params};

pub(crate) use crate::shared::patterns::{GROUP_SEEN_LAG_MS, PATTERN_HOURS_KEPT_MS};

use redrive_engine::Map;
use redrive_engine::error::PortResult as Result;

/// Beyond this the memory starts anew.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Debug, Default)]
struct PatternClock {
    /// The hour that the row counts.
    hour: Option<Timestamp>,
    group_seen: Option<Timestamp>,
}

/// What the committer knows to be written on patterns' rows.
#[derive(Debug, Default)]
pub(crate) struct PatternClocks(Map<i64, PatternClock>);

/// Failed attempts of one pattern in one batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) now: Timestamp,
    pub(crate) count: i64,
    pub(crate) open: i64,
}

impl PatternClocks {
    fn of(&mut self, pattern: i64) -> &mut PatternClock {
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(&pattern) {
            self.0.clear();
        }
        self.0.entry(pattern).or_default()
    }

    /// Counts failed attempts; no index has any of these columns.
    pub(crate) fn failed(&mut self, conn: &Connection, pattern: i64, seen: Seen) -> Result<()> {
        let hour = seen.now.hour();
        let clock = self.of(pattern);
        if clock.hour != Some(hour) {
            begin_hour(conn, pattern, hour)?;
            clock.hour = Some(hour);
        }
        let mut fold = conn.prepare_cached(
            "UPDATE patterns SET count = count + ?2, open = open + ?3, hour_count = hour_count + ?2,
                 last_seen = max(last_seen, ?4) WHERE id = ?1",
        )?;
        fold.execute(params![pattern, seen.count, seen.open, seen.now.as_millis()])?;
        Ok(())
    }

    /// Moves the group's head up in the lists.
    pub(crate) fn group_seen(&mut self, conn: &Connection, head: i64, now: Timestamp) -> Result<()> {
        let clock = self.of(head);
        if clock.group_seen.is_some_and(|at| now < at.plus_ms(GROUP_SEEN_LAG_MS)) {
            return Ok(());
        }
        let mut moved = conn.prepare_cached("UPDATE patterns SET group_seen = max(group_seen, ?2) WHERE id = ?1")?;
        moved.execute([head, now.as_millis()])?;
        clock.group_seen = Some(now);
        Ok(())
    }
}

/// Puts the hour that is over beside the earlier ones, and clears away what is older than anybody asks for.
fn begin_hour(conn: &Connection, pattern: i64, hour: Timestamp) -> Result<()> {
    let mut keep = conn.prepare_cached(
        "INSERT INTO pattern_hourly (pattern, hour, n)
         SELECT id, hour, hour_count FROM patterns WHERE id = ?1 AND hour <> ?2 AND hour_count > 0
         ON CONFLICT DO UPDATE SET n = n + excluded.n",
    )?;
    keep.execute([pattern, hour.as_millis()])?;
    let mut begin =
        conn.prepare_cached("UPDATE patterns SET hour = ?2, hour_count = 0 WHERE id = ?1 AND hour <> ?2")?;
    begin.execute([pattern, hour.as_millis()])?;
    let mut forget = conn.prepare_cached("DELETE FROM pattern_hourly WHERE pattern = ?1 AND hour < ?2")?;
    forget.execute([pattern, hour.minus_ms(PATTERN_HOURS_KEPT_MS).as_millis()])?;
    Ok(())
}
