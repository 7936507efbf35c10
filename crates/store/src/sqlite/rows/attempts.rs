//! Attempts, payloads and history.

use crate::shared::records::{ATTEMPT_COLUMNS, FromRow as _};
use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use rusqlite::{OptionalExtension, Params, params};

use crate::sqlite::rows::SqliteRows;
use redrive_engine::codec::encode;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{Digest, NewSentPayload, PayloadKind};
use redrive_engine::ports::rows::{AttemptRecord, AttemptRows, NewMove, NewRevision};
use redrive_engine::runs::attempts::StoredAttempt;
use redrive_engine::runs::document::position;

impl SqliteRows<'_> {
    fn kept(&self, condition: &str, values: impl Params) -> Result<Option<StoredAttempt>> {
        let mut find =
            self.conn.prepare_cached(&format!("SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE {condition}"))?;
        let mut rows = find.query(values)?;
        rows.next()?.map(StoredAttempt::read).transpose()
    }
}

impl AttemptRows for SqliteRows<'_> {
    fn attempt(&mut self, run: i64, attempt: u32) -> Result<Option<StoredAttempt>> {
        self.kept("run = ?1 AND attempt = ?2", [run, attempt.into()])
    }

    fn last_attempt(&mut self, run: i64, attempt: u32) -> Result<Option<StoredAttempt>> {
        self.kept("run = ?1 AND attempt <= ?2 ORDER BY attempt DESC LIMIT 1", [run, attempt.into()])
    }

    fn last_failure(&mut self, run: i64) -> Result<Option<StoredAttempt>> {
        let values = [run, position(Outcome::ALL, &Outcome::Failed)];
        self.kept("run = ?1 AND outcome = ?2 ORDER BY attempt DESC LIMIT 1", values)
    }

    fn last_origin(&mut self, run: i64) -> Result<Option<String>> {
        let mut find =
            self.conn.prepare_cached("SELECT origin FROM attempts WHERE run = ?1 ORDER BY attempt DESC LIMIT 1")?;
        Ok(find.query_row([run], |row| row.get(0)).optional()?)
    }

    fn put_attempt(&mut self, ended: &AttemptRecord<'_>, now: Timestamp) -> Result<()> {
        if ended.late {
            let mut make_way = self.conn.prepare_cached("DELETE FROM attempts WHERE run = ?1 AND attempt = ?2")?;
            make_way.execute([ended.run, ended.attempt.into()])?;
        }
        let insert = "INSERT INTO attempts (run, attempt, outcome, digest, state, fp_version, fp_hash, pattern,
                 pattern_new, recorded_at, origin, verdict, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        self.held.insert_attempt.of(self.conn, insert)?.execute(params![
            ended.run,
            ended.attempt,
            position(Outcome::ALL, &ended.outcome),
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

    fn insert_late_failure(&mut self, run: i64, attempt: u32, epoch: u64, body: &[u8]) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO late_failures (run, attempt, epoch, body) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS
                 (SELECT 1 FROM late_failures WHERE run = ?1 AND attempt = ?2 AND epoch = ?3 AND body = ?4)",
        )?;
        insert.execute(params![run, attempt, epoch.cast_signed(), body])?;
        Ok(())
    }

    fn payload_digest(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
        let mut find = self.conn.prepare_cached("SELECT digest FROM payloads WHERE run = ?1 AND revision = ?2")?;
        Ok(find.query_row([run, revision.into()], |row| row.get(0)).optional()?)
    }

    fn about_of(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
        let mut find = self.conn.prepare_cached("SELECT about FROM payloads WHERE run = ?1 AND revision = ?2")?;
        Ok(find.query_row([run, revision.into()], |row| row.get(0)).optional()?)
    }

    fn insert_revision(&mut self, made: &NewRevision<'_>, now: Timestamp) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO payloads (run, revision, kind, digest, about, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        insert.execute(params![
            made.run,
            made.revision,
            position(PayloadKind::ALL, &made.payload.kind),
            made.payload.digest.as_slice(),
            made.about,
            made.payload.encoded,
        ])?;
        let mut insert = self
            .conn
            .prepare_cached("INSERT INTO revisions (run, revision, at, actor, patch) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        insert.execute(params![made.run, made.revision, now.as_millis(), made.actor, made.patch])?;
        Ok(())
    }

    fn put_sent(&mut self, run: i64, attempt: u32, epoch: u64, sent: &NewSentPayload) -> Result<()> {
        // A released attempt's number is used again: the newer lease's payload counts.
        let mut put = self.conn.prepare_cached(
            "INSERT INTO sent (run, attempt, epoch, changes, body) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (run, attempt) DO UPDATE SET epoch = excluded.epoch, changes = excluded.changes, body = excluded.body
                 WHERE excluded.epoch > sent.epoch",
        )?;
        put.execute(params![run, attempt, epoch.cast_signed(), sent.changes, sent.body])?;
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
