//! Attempts, payloads and history.

use std::sync::LazyLock;

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;

use super::columns::{bytes, owned};
use super::rows::PgRows;
use super::sheet::{SheetAttempt, SheetMove, SheetPayload, SheetSent};
use crate::codec::encode;
use crate::commands::attempts::{KEPT, Kept};
use crate::commands::life::position;
use crate::commands::numbers::{numbered, span_of};
use crate::commands::rows::{AttemptRows, NewAttempt, NewMove, NewRevision};
use crate::error::Result;
use crate::model::{NewSent, PayloadKind};

static ONE: LazyLock<String> = LazyLock::new(|| format!("SELECT {KEPT} FROM attempts WHERE id = $1"));
static LAST: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {KEPT} FROM attempts WHERE id BETWEEN $1 AND $2 ORDER BY id DESC LIMIT 1"));
static LAST_OF: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {KEPT} FROM attempts WHERE id BETWEEN $1 AND $2 AND outcome = $3 ORDER BY id DESC LIMIT 1")
});

impl PgRows<'_> {
    /// The last one up to `last` that this batch has kept, and that is `wanted`.
    fn kept_now(&self, first: i64, last: i64, wanted: impl Fn(&Kept) -> bool) -> Option<(i64, &SheetAttempt)> {
        let newest_first = self.sheet.out.attempts.range(first..=last).rev();
        newest_first.map(|(id, kept)| (*id, kept)).find(|(_, kept)| wanted(&kept.kept))
    }

    /// Of two that may be the last, the later one.
    fn later(&self, (first, last): (i64, i64), stored: Option<Kept>, wanted: impl Fn(&Kept) -> bool) -> Option<Kept> {
        let now = self.kept_now(first, last, wanted).map(|(_, kept)| &kept.kept);
        match (now, stored) {
            (Some(now), Some(stored)) if stored.attempt > now.attempt => Some(stored),
            (Some(now), _) => Some(now.clone()),
            // The batch may have put another end in its place.
            (None, stored) => {
                stored.filter(|kept| !self.sheet.out.attempts.contains_key(&(first + i64::from(kept.attempt))))
            }
        }
    }

    fn is_new(&self, run: i64) -> bool {
        self.sheet.runs.get(&run).is_some_and(|kept| kept.new.is_some())
    }
}

impl AttemptRows for PgRows<'_> {
    fn attempt(&mut self, run: i64, attempt: u32) -> Result<Option<Kept>> {
        let id = numbered(run, attempt);
        if let Some(kept) = self.sheet.out.attempts.get(&id) {
            return Ok(Some(kept.kept.clone()));
        }
        if self.is_new(run) {
            return Ok(None);
        }
        if let Some(known) = self.sheet.attempts.get(&id) {
            return Ok(known.clone());
        }
        let found = self.ask_one(&ONE, &[&id])?.map(|row| Kept::read(&row)).transpose()?;
        self.sheet.attempts.insert(id, found.clone());
        Ok(found)
    }

    fn last_attempt(&mut self, run: i64, attempt: u32) -> Result<Option<Kept>> {
        let span = (numbered(run, 0), numbered(run, attempt));
        let stored = self.ask_one(&LAST, &[&span.0, &span.1])?.map(|row| Kept::read(&row)).transpose()?;
        Ok(self.later(span, stored, |_| true))
    }

    fn last_failure(&mut self, run: i64) -> Result<Option<Kept>> {
        let span = span_of(run);
        let failed = position(Outcome::ALL, &Outcome::Failed);
        let stored = match self.sheet.last_failures.get(&run) {
            Some(known) => known.clone(),
            None if self.is_new(run) => None,
            None => self.ask_one(&LAST_OF, &[&span.0, &span.1, &failed])?.map(|row| Kept::read(&row)).transpose()?,
        };
        Ok(self.later(span, stored, |kept| kept.outcome == Outcome::Failed))
    }

    fn last_origin(&mut self, run: i64) -> Result<Option<String>> {
        let (first, last) = span_of(run);
        if let Some((_, kept)) = self.kept_now(first, last, |_| true) {
            return Ok(Some(kept.kept.origin.clone()));
        }
        let sql = "SELECT origin FROM attempts WHERE id BETWEEN $1 AND $2 ORDER BY id DESC LIMIT 1";
        self.ask_one(sql, &[&first, &last])?.map(|row| owned(&row, 0)).transpose()
    }

    fn put_attempt(&mut self, ended: &NewAttempt<'_>, now: Timestamp) -> Result<()> {
        let kept = SheetAttempt {
            kept: Kept {
                attempt: ended.attempt,
                outcome: ended.outcome,
                digest: ended.digest.map(|digest| digest.to_vec()),
                state: ended.state,
                recorded_at: now,
                pattern: ended.pattern,
                pattern_new: ended.pattern_new,
                verdict: ended.verdict.clone(),
                origin: ended.origin.clone(),
            },
            epoch: ended.epoch.map(u64::cast_signed),
            fingerprint: ended.fingerprint.map(|f| (i64::from(f.version), f.hash.cast_signed())),
            body: ended.body.to_vec(),
            late: ended.late,
        };
        self.sheet.out.attempts.insert(numbered(ended.run, ended.attempt), kept);
        Ok(())
    }

    fn insert_late_failure(&mut self, run: i64, attempt: u32, epoch: u64, body: &[u8], now: Timestamp) -> Result<()> {
        let sql = "INSERT INTO late_failures (attempt, epoch, at, body) SELECT $1, $2, $3, $4
             WHERE NOT EXISTS (SELECT 1 FROM late_failures WHERE attempt = $1 AND epoch = $2 AND body = $4)";
        self.run(sql, &[&numbered(run, attempt), &epoch.cast_signed(), &now.as_millis(), &body])?;
        Ok(())
    }

    fn payload_digest(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
        let id = numbered(run, revision);
        if let Some(payload) = self.sheet.out.payloads.get(&id) {
            return Ok(Some(payload.digest.clone()));
        }
        if let Some(known) = self.sheet.digests.get(&id) {
            return Ok(known.clone());
        }
        let found = self.ask_one("SELECT digest FROM payloads WHERE id = $1", &[&id])?;
        found.map(|row| bytes(&row, 0).map(<[u8]>::to_vec)).transpose()
    }

    fn about_of(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
        let id = numbered(run, revision);
        if let Some(payload) = self.sheet.out.payloads.get(&id) {
            return Ok(Some(payload.about.clone()));
        }
        let found = self.ask_one("SELECT about FROM payloads WHERE id = $1", &[&id])?;
        found.map(|row| bytes(&row, 0).map(<[u8]>::to_vec)).transpose()
    }

    fn insert_revision(&mut self, made: &NewRevision<'_>, now: Timestamp) -> Result<()> {
        let id = numbered(made.run, made.revision);
        let payload = SheetPayload {
            kind: position(PayloadKind::ALL, &made.payload.kind),
            digest: made.payload.digest.to_vec(),
            about: made.about.clone(),
            body: made.payload.encoded.clone(),
        };
        self.sheet.out.payloads.insert(id, payload);
        let sql = "INSERT INTO revisions (id, at, actor, patch) VALUES ($1, $2, $3, $4)";
        self.run(sql, &[&id, &now.as_millis(), &made.actor, &made.patch])?;
        Ok(())
    }

    fn put_sent(&mut self, run: i64, attempt: u32, epoch: u64, sent: &NewSent) -> Result<()> {
        let new = SheetSent { epoch: epoch.cast_signed(), changes: sent.changes.clone(), body: sent.body.clone() };
        let kept = self.sheet.out.sent.entry(numbered(run, attempt));
        // A released attempt's number is given out again: the newer lease's payload is what it got.
        kept.and_modify(|kept| {
            if new.epoch > kept.epoch {
                *kept = SheetSent { epoch: new.epoch, changes: new.changes.clone(), body: new.body.clone() };
            }
        })
        .or_insert(new);
        Ok(())
    }

    fn insert_move(&mut self, moved: &NewMove<'_>, now: Timestamp) -> Result<()> {
        self.sheet.out.moves.push(SheetMove {
            run: moved.run,
            at: now.as_millis(),
            from: position(StateName::ALL, &moved.from),
            to: position(StateName::ALL, &moved.to),
            actor: moved.actor.to_owned(),
            event: moved.event.to_owned(),
            note: moved.note.map(|note| encode(note.token().as_bytes())),
        });
        Ok(())
    }
}
