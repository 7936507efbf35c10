//! Attempts' rows: written when an attempt ends, read again to answer the same report with the same words.

use redrive_core::breaker::StateName as BreakerState;
use redrive_core::lifecycle::Outcome;
use redrive_core::pattern::Fingerprint;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_core::wire::FailureAnswer;
use rusqlite::{OptionalExtension, Row, params};

use crate::codec::{decode, encode};
use crate::error::{Error, Result};
use crate::model::{AttemptOrigin, Digest};
use crate::sqlite::batch::Batch;
use crate::sqlite::life::{position, word};
use crate::sqlite::lookup::{numbered, span_of};
use crate::sqlite::rows::RunRow;

/// An attempt to be kept.
pub(super) struct Ending<'a> {
    pub(super) attempt: u32,
    pub(super) outcome: Outcome,
    /// Of the lease it ended; none for an attempt reported in one call.
    pub(super) epoch: Option<u64>,
    pub(super) digest: Option<&'a Digest>,
    pub(super) fingerprint: Option<&'a Fingerprint>,
    pub(super) pattern: Option<i64>,
    pub(super) pattern_new: bool,
    pub(super) verdict: Option<&'a Verdict>,
    /// As the answer tells it.
    pub(super) breaker: BreakerState,
    pub(super) body: &'a [u8],
}

/// An attempt as it was kept.
pub(super) struct Kept {
    pub(super) attempt: u32,
    pub(super) outcome: Outcome,
    pub(super) digest: Option<Vec<u8>>,
    pub(super) state: StateName,
    pub(super) recorded_at: Timestamp,
    pattern: Option<i64>,
    pattern_new: bool,
    verdict: Option<Vec<u8>>,
    origin: String,
}

impl Kept {
    fn read(row: &Row<'_>) -> Result<Self> {
        let id: i64 = row.get(0)?;
        Ok(Self {
            attempt: u32::try_from(id & (numbered(1, 0) - 1)).unwrap_or(u32::MAX),
            outcome: word(Outcome::ALL, row.get(1)?, "outcome")?,
            digest: row.get(2)?,
            state: word(StateName::ALL, row.get(3)?, "state")?,
            recorded_at: Timestamp::from_millis(row.get(4)?),
            pattern: row.get(5)?,
            pattern_new: row.get(6)?,
            verdict: row.get(7)?,
            origin: row.get(8)?,
        })
    }

    pub(super) fn is(&self, digest: &Digest) -> bool {
        self.digest.as_deref() == Some(digest.as_slice())
    }

    pub(super) fn verdict(&self) -> Result<Option<Verdict>> {
        let Some(stored) = &self.verdict else { return Ok(None) };
        let verdict =
            serde_json::from_slice(&decode(stored)?).map_err(|e| Error::Unexpected(format!("a verdict: {e}")))?;
        Ok(Some(verdict))
    }

    fn breaker(&self) -> Result<BreakerState> {
        let origin: AttemptOrigin =
            serde_json::from_str(&self.origin).map_err(|e| Error::Unexpected(format!("an origin: {e}")))?;
        Ok(origin.breaker.unwrap_or(BreakerState::Closed))
    }
}

/// In the order in which [`Kept::read`] takes them.
const KEPT: &str = "id, outcome, digest, state, recorded_at, pattern, pattern_new, verdict, origin";

impl Batch<'_> {
    pub(super) fn attempt(&mut self, run: i64, attempt: u32) -> Result<Option<Kept>> {
        let mut find = self.conn.prepare_cached(&format!("SELECT {KEPT} FROM attempts WHERE id = ?1"))?;
        let mut rows = find.query([numbered(run, attempt)])?;
        rows.next()?.map(Kept::read).transpose()
    }

    /// The last attempt on record, up to and including `attempt`.
    pub(super) fn last_attempt(&mut self, run: i64, attempt: u32) -> Result<Option<Kept>> {
        let mut find = self.conn.prepare_cached(&format!(
            "SELECT {KEPT} FROM attempts WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1"
        ))?;
        let mut rows = find.query([numbered(run, 0), numbered(run, attempt)])?;
        rows.next()?.map(Kept::read).transpose()
    }

    /// The last failure on record: what a report without a number may be the same as, also when the run went on since.
    pub(super) fn last_failure(&mut self, run: i64) -> Result<Option<Kept>> {
        let mut find = self.conn.prepare_cached(&format!(
            "SELECT {KEPT} FROM attempts WHERE id BETWEEN ?1 AND ?2 AND outcome = ?3 ORDER BY id DESC LIMIT 1"
        ))?;
        let (first, last) = span_of(run);
        let mut rows = find.query([first, last, position(Outcome::ALL, &Outcome::Failed)])?;
        rows.next()?.map(Kept::read).transpose()
    }

    /// Keeps the end of an attempt of `row`, which already stands where the move left it; `before` is how it stood
    /// while the attempt was under way.
    pub(super) fn keep_attempt(&mut self, before: &RunRow, row: &RunRow, ending: &Ending<'_>) -> Result<()> {
        let origin = json(&origin(before, row, ending))?;
        let verdict = ending.verdict.map(json).transpose()?.map(|verdict| encode(verdict.as_bytes()));
        // A late success replaces the silence that was put in its place.
        let mut insert = self.conn.prepare_cached(
            "INSERT OR REPLACE INTO attempts (id, outcome, epoch, digest, state, fp_version, fp_hash, pattern,
                 pattern_new, recorded_at, origin, verdict, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?;
        insert.execute(params![
            numbered(row.id, ending.attempt),
            position(Outcome::ALL, &ending.outcome),
            ending.epoch.map(u64::cast_signed),
            ending.digest.map(Digest::as_slice),
            position(StateName::ALL, &row.run.state.name()),
            ending.fingerprint.map(|f| f.version),
            ending.fingerprint.map(|f| f.hash.cast_signed()),
            ending.pattern,
            ending.pattern_new,
            self.now.as_millis(),
            origin,
            verdict,
            ending.body,
        ])?;
        Ok(())
    }

    /// The answer that a failed attempt got.
    pub(super) fn stored_answer(&mut self, row: &RunRow, kept: &Kept) -> Result<FailureAnswer> {
        let (tenant, _) = self.names_of(row)?;
        let missing = || Error::Unexpected(format!("attempt {} of {} has no verdict", kept.attempt, row.run_id));
        let pattern = kept.pattern.ok_or_else(missing)?;
        Ok(FailureAnswer {
            run_id: row.run_id.clone(),
            tenant,
            state: kept.state,
            attempt: kept.attempt,
            verdict: kept.verdict()?.ok_or_else(missing)?,
            pattern: self.pattern_shown(pattern, kept.pattern_new)?,
            breaker: kept.breaker()?.to_string(),
        })
    }

    pub(super) fn payload_digest(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
        let mut find = self.conn.prepare_cached("SELECT digest FROM payloads WHERE id = ?1")?;
        Ok(find.query_row([numbered(run, revision)], |row| row.get(0)).optional()?)
    }
}

fn origin(before: &RunRow, row: &RunRow, ending: &Ending<'_>) -> AttemptOrigin {
    let leased = ending.epoch.map(|_| before);
    let lease = leased.and_then(|before| before.run.lease());
    AttemptOrigin {
        began_at: lease.map(|lease| lease.began_at),
        worker: leased.and_then(|before| before.worker.clone()),
        revision: row.run.revision,
        replay: lease.is_some_and(|lease| lease.replay),
        versions: leased.map(|before| before.versions.clone()).unwrap_or_default(),
        breaker: Some(ending.breaker).filter(|breaker| *breaker != BreakerState::Closed),
    }
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Unexpected(e.to_string()))
}
