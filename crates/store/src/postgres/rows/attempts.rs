//! Attempts, payloads and history.

use crate::shared::records::{ATTEMPT_COLUMNS, FromRow as _};
use std::sync::LazyLock;

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;

use crate::postgres::commit::unit_of_work::{PendingAttempt, PendingMove, PendingPayload, PendingSent};
use crate::postgres::reads::columns::{bytes, owned};
use crate::postgres::rows::PgRows;
use redrive_engine::codec::encode;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{NewSentPayload, PayloadKind};
use redrive_engine::ports::rows::{AttemptRecord, AttemptRows, NewMove, NewRevision};
use redrive_engine::runs::attempts::StoredAttempt;
use redrive_engine::runs::document::position;

static ONE: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE run = $1 AND attempt = $2"));
static LAST: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE run = $1 AND attempt <= $2 ORDER BY attempt DESC LIMIT 1")
});
static LAST_OF: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE run = $1 AND outcome = $2 ORDER BY attempt DESC LIMIT 1")
});

impl PgRows<'_> {
    /// The last pending attempt up to `last` that is `wanted`.
    fn pending(&self, run: i64, last: u32, wanted: impl Fn(&StoredAttempt) -> bool) -> Option<&StoredAttempt> {
        let mut newest_first = self.unit.out.attempts.range((run, 0)..=(run, last)).rev();
        newest_first.find(|(_, attempt)| wanted(&attempt.kept)).map(|(_, attempt)| &attempt.kept)
    }

    /// The later of a pending and a stored attempt.
    fn later(
        &self,
        run: i64,
        last: u32,
        stored: Option<StoredAttempt>,
        wanted: impl Fn(&StoredAttempt) -> bool,
    ) -> Option<StoredAttempt> {
        match (self.pending(run, last, wanted), stored) {
            (Some(now), Some(stored)) if stored.attempt > now.attempt => Some(stored),
            (Some(now), _) => Some(now.clone()),
            // The batch may have replaced it.
            (None, stored) => stored.filter(|kept| !self.unit.out.attempts.contains_key(&(run, kept.attempt))),
        }
    }

    fn is_new(&self, run: i64) -> bool {
        self.unit.runs.get(&run).is_some_and(|kept| kept.new.is_some())
    }
}

impl AttemptRows for PgRows<'_> {
    fn attempt(&mut self, run: i64, attempt: u32) -> Result<Option<StoredAttempt>> {
        let id = (run, attempt);
        if let Some(kept) = self.unit.out.attempts.get(&id) {
            return Ok(Some(kept.kept.clone()));
        }
        if self.is_new(run) {
            return Ok(None);
        }
        if let Some(known) = self.unit.attempts.get(&id) {
            return Ok(known.clone());
        }
        let found =
            self.ask_one(&ONE, &[&run, &i64::from(attempt)])?.map(|row| StoredAttempt::read(&row)).transpose()?;
        self.unit.attempts.insert(id, found.clone());
        Ok(found)
    }

    fn last_attempt(&mut self, run: i64, attempt: u32) -> Result<Option<StoredAttempt>> {
        let stored =
            self.ask_one(&LAST, &[&run, &i64::from(attempt)])?.map(|row| StoredAttempt::read(&row)).transpose()?;
        Ok(self.later(run, attempt, stored, |_| true))
    }

    fn last_failure(&mut self, run: i64) -> Result<Option<StoredAttempt>> {
        let failed = position(Outcome::ALL, &Outcome::Failed);
        let stored = match self.unit.last_failures.get(&run) {
            Some(known) => known.clone(),
            None if self.is_new(run) => None,
            None => self.ask_one(&LAST_OF, &[&run, &failed])?.map(|row| StoredAttempt::read(&row)).transpose()?,
        };
        Ok(self.later(run, u32::MAX, stored, |kept| kept.outcome == Outcome::Failed))
    }

    fn last_origin(&mut self, run: i64) -> Result<Option<String>> {
        if let Some(kept) = self.pending(run, u32::MAX, |_| true) {
            return Ok(Some(kept.origin.clone()));
        }
        let sql = "SELECT origin FROM attempts WHERE run = $1 ORDER BY attempt DESC LIMIT 1";
        self.ask_one(sql, &[&run])?.map(|row| owned(&row, 0)).transpose()
    }

    fn put_attempt(&mut self, ended: &AttemptRecord<'_>, now: Timestamp) -> Result<()> {
        let kept = PendingAttempt {
            kept: StoredAttempt {
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
            fingerprint: ended.fingerprint.map(|f| (i64::from(f.version), f.hash.cast_signed())),
            body: ended.body.to_vec(),
            late: ended.late,
        };
        self.unit.out.attempts.insert((ended.run, ended.attempt), kept);
        Ok(())
    }

    fn insert_late_failure(&mut self, run: i64, attempt: u32, epoch: u64, body: &[u8]) -> Result<()> {
        let sql = "INSERT INTO late_failures (run, attempt, epoch, body) SELECT $1, $2, $3, $4 WHERE NOT EXISTS
             (SELECT 1 FROM late_failures WHERE run = $1 AND attempt = $2 AND epoch = $3 AND body = $4)";
        self.run(sql, &[&run, &i64::from(attempt), &epoch.cast_signed(), &body])?;
        Ok(())
    }

    fn payload_digest(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
        if let Some(payload) = self.unit.out.payloads.get(&(run, revision)) {
            return Ok(Some(payload.digest.clone()));
        }
        let sql = "SELECT digest FROM payloads WHERE run = $1 AND revision = $2";
        let found = self.ask_one(sql, &[&run, &i64::from(revision)])?;
        found.map(|row| bytes(&row, 0).map(<[u8]>::to_vec)).transpose()
    }

    fn about_of(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
        if let Some(payload) = self.unit.out.payloads.get(&(run, revision)) {
            return Ok(Some(payload.about.clone()));
        }
        let sql = "SELECT about FROM payloads WHERE run = $1 AND revision = $2";
        let found = self.ask_one(sql, &[&run, &i64::from(revision)])?;
        found.map(|row| bytes(&row, 0).map(<[u8]>::to_vec)).transpose()
    }

    fn insert_revision(&mut self, made: &NewRevision<'_>, now: Timestamp) -> Result<()> {
        let payload = PendingPayload {
            kind: position(PayloadKind::ALL, &made.payload.kind),
            digest: made.payload.digest.to_vec(),
            about: made.about.clone(),
            body: made.payload.encoded.clone(),
        };
        self.unit.out.payloads.insert((made.run, made.revision), payload);
        let sql = "INSERT INTO revisions (run, revision, at, actor, patch) VALUES ($1, $2, $3, $4, $5)";
        self.run(sql, &[&made.run, &i64::from(made.revision), &now.as_millis(), &made.actor, &made.patch])?;
        Ok(())
    }

    fn put_sent(&mut self, run: i64, attempt: u32, epoch: u64, sent: &NewSentPayload) -> Result<()> {
        let new = PendingSent { epoch: epoch.cast_signed(), changes: sent.changes.clone(), body: sent.body.clone() };
        let kept = self.unit.out.sent.entry((run, attempt));
        // A released attempt's number is used again: the newer lease's payload counts.
        kept.and_modify(|kept| {
            if new.epoch > kept.epoch {
                *kept = PendingSent { epoch: new.epoch, changes: new.changes.clone(), body: new.body.clone() };
            }
        })
        .or_insert(new);
        Ok(())
    }

    fn insert_move(&mut self, moved: &NewMove<'_>, now: Timestamp) -> Result<()> {
        self.unit.out.moves.push(PendingMove {
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
