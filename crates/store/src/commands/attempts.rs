//! Attempts: kept when they end, read again to answer the same report with the same words.

use redrive_core::breaker::StateName as BreakerState;
use redrive_core::lifecycle::Outcome;
use redrive_core::pattern::Fingerprint;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Told;
use redrive_core::wire::FailureAnswer;

use crate::codec::{decode, encode};
use crate::commands::batch::Batch;
use crate::commands::life::word;
use crate::commands::rows::NewAttempt;
use crate::commands::run_row::RunRow;
use crate::error::{Error, Result};
use crate::kept::columns::{Columns, flag, number, owned, time, whole};
use crate::model::{AttemptOrigin, Digest};

/// An attempt to be kept.
pub(crate) struct Ending<'a> {
    pub(crate) attempt: u32,
    /// A record may stand in its place, and gives way.
    pub(crate) late: bool,
    pub(crate) outcome: Outcome,
    /// Of the lease it ended; none for an attempt reported in one call.
    pub(crate) epoch: Option<u64>,
    pub(crate) digest: Option<&'a Digest>,
    pub(crate) fingerprint: Option<&'a Fingerprint>,
    pub(crate) pattern: Option<i64>,
    pub(crate) pattern_new: bool,
    pub(crate) verdict: Option<&'a Told>,
    /// As the answer tells it.
    pub(crate) breaker: BreakerState,
    pub(crate) body: &'a [u8],
}

/// An attempt as it was kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) attempt: u32,
    pub(crate) outcome: Outcome,
    pub(crate) digest: Option<Vec<u8>>,
    pub(crate) state: StateName,
    pub(crate) recorded_at: Timestamp,
    pub(crate) pattern: Option<i64>,
    pub(crate) pattern_new: bool,
    /// Encoded.
    pub(crate) verdict: Option<Vec<u8>>,
    pub(crate) origin: String,
}

/// The columns of [`Kept::read`].
pub(crate) const KEPT: &str = "attempt, outcome, digest, state, recorded_at, pattern, pattern_new, verdict, origin";
/// How many they are.
pub(crate) const KEPT_COUNT: usize = 9;

impl Kept {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            attempt: whole(row, 0, "attempt")?,
            outcome: word(Outcome::ALL, number(row, 1)?, "outcome")?,
            digest: row.bytes_or_none(2)?.map(<[u8]>::to_vec),
            state: word(StateName::ALL, number(row, 3)?, "state")?,
            recorded_at: time(row, 4)?,
            pattern: row.number_or_none(5)?,
            pattern_new: flag(row, 6)?,
            verdict: row.bytes_or_none(7)?.map(<[u8]>::to_vec),
            origin: owned(row, 8)?,
        })
    }

    pub(crate) fn is(&self, digest: &Digest) -> bool {
        self.digest.as_deref() == Some(digest.as_slice())
    }

    pub(crate) fn verdict(&self) -> Result<Option<Told>> {
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

impl Batch<'_> {
    /// Keeps the end of an attempt of `row`, which already stands where the move left it; `before` is how it stood
    /// while the attempt was under way.
    pub(crate) fn keep_attempt(&mut self, before: &RunRow, row: &RunRow, ending: &Ending<'_>) -> Result<()> {
        let origin = json(&origin(before, row, ending))?;
        let verdict = ending.verdict.map(|told| encode(told.json().as_bytes()));
        self.rows.put_attempt(
            &NewAttempt {
                run: row.id,
                attempt: ending.attempt,
                late: ending.late,
                outcome: ending.outcome,
                epoch: ending.epoch,
                digest: ending.digest,
                state: row.run.state.name(),
                fingerprint: ending.fingerprint,
                pattern: ending.pattern,
                pattern_new: ending.pattern_new,
                origin,
                verdict,
                body: ending.body,
            },
            self.now,
        )
    }

    /// The answer that a failed attempt got.
    pub(crate) fn stored_answer(&mut self, row: &RunRow, kept: &Kept) -> Result<FailureAnswer> {
        let (tenant, _) = self.names_of(row)?;
        let missing = || Error::Unexpected(format!("attempt {} of {} has no verdict", kept.attempt, row.run_id));
        let pattern = kept.pattern.ok_or_else(missing)?;
        Ok(FailureAnswer {
            run_id: row.run_id.clone(),
            tenant,
            state: kept.state,
            attempt: kept.attempt,
            verdict: kept.verdict()?.ok_or_else(missing)?,
            pattern: self.rows.pattern_shown(pattern, kept.pattern_new)?,
            breaker: kept.breaker()?.to_string(),
        })
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

pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Unexpected(e.to_string()))
}
