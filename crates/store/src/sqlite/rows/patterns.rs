//! Patterns, their events, and when each was last seen.

use crate::shared::records::{FromRow as _, PATTERN_FOUND, PATTERN_KNOWN};
use redrive_core::pattern::Fingerprint;
use redrive_core::reason::Category;
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternEvent, PatternRef, PatternState};
use rusqlite::{Connection, Params, params};

pub(crate) use crate::shared::patterns::{GROUP_SEEN_LAG_MS, PATTERN_HOURS_KEPT_MS};

use crate::sqlite::rows::SqliteRows;
use redrive_engine::Map;
use redrive_engine::codec::encode;
use redrive_engine::error::PortResult as Result;
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::patterns::sightings::CachedPattern;
use redrive_engine::patterns::verbs::PatternRow;
use redrive_engine::ports::rows::{PatternChange, PatternRows};
use redrive_engine::runs::document::position;

impl SqliteRows<'_> {
    fn patterns_where(&self, condition: &str, values: impl Params) -> Result<Vec<PatternRow>> {
        let mut find = self.conn.prepare_cached(&format!("SELECT {PATTERN_FOUND} {condition}"))?;
        find.query_and_then(values, |row| PatternRow::read(row))?.collect()
    }
}

impl PatternRows for SqliteRows<'_> {
    fn pattern_of(&mut self, tenant: i64, fingerprint: &Fingerprint) -> Result<Option<CachedPattern>> {
        let mut find = self.conn.prepare_cached(&format!(
            "SELECT {PATTERN_KNOWN} FROM pattern_alias a JOIN patterns own ON own.id = a.pattern
                 JOIN patterns head ON head.id = coalesce(own.merged_into, own.id)
             WHERE a.tenant = ?1 AND a.fp_hash = ?2 AND a.fp_version = ?3"
        ))?;
        let mut rows = find.query(params![tenant, fingerprint.hash.cast_signed(), fingerprint.version])?;
        rows.next()?.map(CachedPattern::read).transpose()
    }

    fn insert_pattern(
        &mut self,
        public_id: &str,
        tenant: i64,
        fingerprint: &Fingerprint,
        failure: &Failure,
        now: Timestamp,
    ) -> Result<i64> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO patterns (public_id, tenant, fp_version, fp_hash, template, reason, category, count, open,
                 first_seen, last_seen, group_seen, state, regression)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, ?8, ?8, ?8, ?9, 0)",
        )?;
        insert.execute(params![
            public_id,
            tenant,
            fingerprint.version,
            fingerprint.hash.cast_signed(),
            fingerprint.template,
            failure.reason.as_str(),
            position(&Category::ALL, &failure.category),
            now.as_millis(),
            position(PatternState::ALL, &PatternState::New),
        ])?;
        let id = self.conn.last_insert_rowid();
        self.conn
            .prepare_cached("INSERT INTO pattern_alias (tenant, fp_hash, fp_version, pattern) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![tenant, fingerprint.hash.cast_signed(), fingerprint.version, id])?;
        Ok(id)
    }

    fn pattern_shown(&mut self, pattern: i64, new: bool) -> Result<PatternRef> {
        let mut find = self.conn.prepare_cached(
            "SELECT head.public_id, head.template FROM patterns own
                 JOIN patterns head ON head.id = coalesce(own.merged_into, own.id) WHERE own.id = ?1",
        )?;
        Ok(find.query_row([pattern], |row| Ok(PatternRef { id: row.get(0)?, template: row.get(1)?, new }))?)
    }

    fn forget_pattern_events(&mut self, pattern: i64, kept: usize) -> Result<()> {
        let mut forget = self.conn.prepare_cached(
            "DELETE FROM pattern_events WHERE pattern = ?1 AND id <= (
                 SELECT id FROM pattern_events WHERE pattern = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?;
        forget.execute(params![pattern, kept])?;
        Ok(())
    }

    fn insert_pattern_event(
        &mut self,
        pattern: i64,
        actor: &str,
        event: PatternEvent,
        about: Option<&str>,
        note: Option<&Text>,
        now: Timestamp,
    ) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO pattern_events (pattern, at, actor, event, about, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        insert.execute(params![
            pattern,
            now.as_millis(),
            actor,
            position(PatternEvent::ALL, &event),
            about,
            note.map(|note| encode(note.token().as_bytes())),
        ])?;
        Ok(())
    }

    fn pattern_by_id(&mut self, id: &str) -> Result<Option<PatternRow>> {
        Ok(self.patterns_where("WHERE p.public_id = ?1", [id])?.pop())
    }

    fn patterns_by_key(&mut self, key: FingerprintKey) -> Result<Vec<PatternRow>> {
        self.patterns_where("WHERE p.fp_hash = ?1 AND p.fp_version = ?2 ORDER BY p.id", params![key.hash, key.version])
    }

    fn pattern_by_alias(&mut self, tenant: i64, key: FingerprintKey) -> Result<Option<PatternRow>> {
        let condition = "JOIN pattern_alias a ON a.pattern = p.id \
             WHERE a.tenant = ?1 AND a.fp_hash = ?2 AND a.fp_version = ?3";
        Ok(self.patterns_where(condition, params![tenant, key.hash, key.version])?.pop())
    }

    fn parts_of_pattern(&mut self, pattern: i64) -> Result<Vec<PatternRow>> {
        self.patterns_where("WHERE p.merged_into = ?1 ORDER BY p.id", [pattern])
    }

    fn change_pattern(&mut self, pattern: i64, change: &PatternChange<'_>) -> Result<()> {
        let number = |state| position(PatternState::ALL, &state);
        match change {
            PatternChange::State(state) => self
                .conn
                .prepare_cached(
                    "UPDATE patterns SET state = ?2, muted_until = NULL, resolved_at = NULL, resolved_in = NULL
                     WHERE id = ?1",
                )?
                .execute([pattern, number(*state)])?,
            PatternChange::CameBack => self
                .conn
                .prepare_cached(
                    "UPDATE patterns SET state = ?2, regression = 1, muted_until = NULL, resolved_at = NULL,
                         resolved_in = NULL WHERE id = ?1",
                )?
                .execute([pattern, number(PatternState::New)])?,
            PatternChange::Resolved { at, in_versions } => self
                .conn
                .prepare_cached(
                    "UPDATE patterns SET state = ?2, regression = 0, muted_until = NULL, resolved_at = ?3,
                         resolved_in = ?4 WHERE id = ?1",
                )?
                .execute(params![pattern, number(PatternState::Resolved), at.as_millis(), in_versions])?,
            PatternChange::Muted { until, before } => self
                .conn
                .prepare_cached("UPDATE patterns SET state = ?2, muted_until = ?3, before_mute = ?4 WHERE id = ?1")?
                .execute(params![pattern, number(PatternState::Muted), until.map(Timestamp::as_millis), before])?,
            PatternChange::Owner(owner) => self
                .conn
                .prepare_cached("UPDATE patterns SET owner = ?2 WHERE id = ?1")?
                .execute(params![pattern, owner.map(Label::as_str)])?,
        };
        Ok(())
    }

    fn merge_pattern(&mut self, pattern: i64, head: i64) -> Result<()> {
        self.memory.pattern_clocks = PatternClocks::default();
        let mut seen = self.conn.prepare_cached(
            "UPDATE patterns SET group_seen = max(group_seen, (SELECT group_seen FROM patterns WHERE id = ?1))
             WHERE id = ?2",
        )?;
        seen.execute([pattern, head])?;
        let mut merge =
            self.conn.prepare_cached("UPDATE patterns SET merged_into = ?2 WHERE id = ?1 OR merged_into = ?1")?;
        merge.execute([pattern, head])?;
        Ok(())
    }

    fn unmerge_pattern(&mut self, part: i64, head: i64) -> Result<()> {
        self.memory.pattern_clocks = PatternClocks::default();
        let mut out =
            self.conn.prepare_cached("UPDATE patterns SET merged_into = NULL, group_seen = last_seen WHERE id = ?1")?;
        out.execute([part])?;
        let mut seen = self.conn.prepare_cached(
            "UPDATE patterns SET group_seen = max(last_seen, coalesce(
                 (SELECT max(m.last_seen) FROM patterns m WHERE m.merged_into = ?1), 0)) WHERE id = ?1",
        )?;
        seen.execute([head])?;
        Ok(())
    }
}

/// Beyond this the cache is cleared.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Debug, Default)]
struct PatternClock {
    /// The hour that the row counts.
    hour: Option<Timestamp>,
    group_seen: Option<Timestamp>,
}

/// What the writer knows of patterns' rows, so that it reads nothing to write them rarely: the current hour is counted on the
/// pattern's own row, and the time that lists sort by moves at most once a second.
#[derive(Debug, Default)]
pub(crate) struct PatternClocks(Map<i64, PatternClock>);

/// Failed attempts of one pattern in one batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PatternFailures {
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

    /// Counts failed attempts. None of these columns is indexed.
    pub(crate) fn failed(&mut self, conn: &Connection, pattern: i64, seen: PatternFailures) -> Result<()> {
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

/// Moves the finished hour to the earlier ones, and deletes hours that no read asks for any more.
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
