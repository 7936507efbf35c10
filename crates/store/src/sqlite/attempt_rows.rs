//! Rows of attempts, payloads and history.

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use rusqlite::{OptionalExtension, Params, params};

use super::rows::SqliteRows;
use crate::codec::encode;
use crate::commands::attempts::{KEPT, Kept};
use crate::commands::life::position;
use crate::commands::numbers::{numbered, span_of};
use crate::commands::rows::{AttemptRows, NewAttempt, NewMove, NewRevision};
use crate::error::Result;
use crate::model::{Digest, NewSent, PayloadKind};

impl SqliteRows<'_> {
    fn kept(&self, condition: &str, values: impl Params) -> Result<Option<Kept>> {
        let mut find = self.conn.prepare_cached(&format!("SELECT {KEPT} FROM attempts WHERE {condition}"))?;
        let mut rows = find.query(values)?;
        rows.next()?.map(Kept::read).transpose()
    }
}

impl AttemptRows for SqliteRows<'_> {
    fn attempt(&mut self, run: i64, attempt: u32) -> Result<Option<Kept>> {
        self.kept("id = ?1", [numbered(run, attempt)])
    }

    fn last_attempt(&mut self, run: i64, attempt: u32) -> Result<Option<Kept>> {
        let span = [numbered(run, 0), numbered(run, attempt)];
        self.kept("id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1", span)
    }

    fn last_failure(&mut self, run: i64) -> Result<Option<Kept>> {
        let (first, last) = span_of(run);
        let values = [first, last, position(Outcome::ALL, &Outcome::Failed)];
        self.kept("id BETWEEN ?1 AND ?2 AND outcome = ?3 ORDER BY id DESC LIMIT 1", values)
    }

    fn last_origin(&mut self, run: i64) -> Result<Option<String>> {
        let (first, last) = span_of(run);
        let mut find = self
            .conn
            .prepare_cached("SELECT origin FROM attempts WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1")?;
        Ok(find.query_row([first, last], |row| row.get(0)).optional()?)
    }

    fn put_attempt(&mut self, ended: &NewAttempt<'_>, now: Timestamp) -> Result<()> {
        if ended.late {
            let mut make_way = self.conn.prepare_cached("DELETE FROM attempts WHERE id = ?1")?;
            make_way.execute([numbered(ended.run, ended.attempt)])?;
        }
        let insert = "INSERT INTO attempts (id, outcome, epoch, digest, state, fp_version, fp_hash, pattern,
                 pattern_new, recorded_at, origin, verdict, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        self.held.insert_attempt.of(self.conn, insert)?.execute(params![
            numbered(ended.run, ended.attempt),
            position(Outcome::ALL, &ended.outcome),
            ended.epoch.map(u64::cast_signed),
            ended.digest.map(Digest::as_slice),
            position(StateName::ALL, &ended.state),
            ended.fingerprint.map(|f| f.version),
            ended.fingerprint.map(|f| f.hash.cast_signed()),
            ended.pattern,
            ended.pattern_new,
            now.as_millis(),
            ended.origin,
            ended.verdict,
            ended.body,
        ])?;
        Ok(())
    }

    fn insert_late_failure(&mut self, run: i64, attempt: u32, epoch: u64, body: &[u8], now: Timestamp) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO late_failures (attempt, epoch, at, body) SELECT ?1, ?2, ?3, ?4
             WHERE NOT EXISTS (SELECT 1 FROM late_failures WHERE attempt = ?1 AND epoch = ?2 AND body = ?4)",
        )?;
        insert.execute(params![numbered(run, attempt), epoch.cast_signed(), now.as_millis(), body])?;
        Ok(())
    }

    fn payload_digest(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
        let mut find = self.conn.prepare_cached("SELECT digest FROM payloads WHERE id = ?1")?;
        Ok(find.query_row([numbered(run, revision)], |row| row.get(0)).optional()?)
    }

    fn about_of(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
        let mut find = self.conn.prepare_cached("SELECT about FROM payloads WHERE id = ?1")?;
        Ok(find.query_row([numbered(run, revision)], |row| row.get(0)).optional()?)
    }

    fn insert_revision(&mut self, made: &NewRevision<'_>, now: Timestamp) -> Result<()> {
        let id = numbered(made.run, made.revision);
        let mut insert = self
            .conn
            .prepare_cached("INSERT INTO payloads (id, kind, digest, about, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        insert.execute(params![
            id,
            position(PayloadKind::ALL, &made.payload.kind),
            made.payload.digest.as_slice(),
            made.about,
            made.payload.encoded,
        ])?;
        let mut insert =
            self.conn.prepare_cached("INSERT INTO revisions (id, at, actor, patch) VALUES (?1, ?2, ?3, ?4)")?;
        insert.execute(params![id, now.as_millis(), made.actor, made.patch])?;
        Ok(())
    }

    fn put_sent(&mut self, run: i64, attempt: u32, epoch: u64, sent: &NewSent) -> Result<()> {
        // A released attempt's number is given out again: the newer lease's payload is what it got.
        let mut put = self.conn.prepare_cached(
            "INSERT INTO sent (id, epoch, changes, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, changes = excluded.changes, body = excluded.body
                 WHERE excluded.epoch > sent.epoch",
        )?;
        put.execute(params![numbered(run, attempt), epoch.cast_signed(), sent.changes, sent.body])?;
        Ok(())
    }

    fn insert_move(&mut self, moved: &NewMove<'_>, now: Timestamp) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO history (run, at, actor, event, from_state, to_state, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        insert.execute(params![
            moved.run,
            now.as_millis(),
            moved.actor,
            moved.event,
            position(StateName::ALL, &moved.from),
            position(StateName::ALL, &moved.to),
            moved.note.map(|note| encode(note.token().as_bytes())),
        ])?;
        Ok(())
    }
}
