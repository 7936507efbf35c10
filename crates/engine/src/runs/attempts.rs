//! Attempts: kept when they end, read again to answer the same report with the same words.

use redrive_core::breaker::StateName as BreakerState;
use redrive_core::lifecycle::Outcome;
use redrive_core::pattern::Fingerprint;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::StoredVerdict;
use redrive_core::wire::FailureAnswer;

use crate::codec::{decode, encode};
use crate::error::{Error, Result};
use crate::model::{AttemptOrigin, Digest};
use crate::ports::rows::NewAttempt;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// An attempt to be kept.
pub struct Ending<'a> {
    pub attempt: u32,
    /// A record may stand in its place, and gives way.
    pub late: bool,
    pub outcome: Outcome,
    /// Of the lease it ended; none for an attempt reported in one call.
    pub epoch: Option<u64>,
    pub digest: Option<&'a Digest>,
    pub fingerprint: Option<&'a Fingerprint>,
    pub pattern: Option<i64>,
    pub pattern_new: bool,
    pub verdict: Option<&'a StoredVerdict>,
    /// As the answer tells it.
    pub breaker: BreakerState,
    pub body: &'a [u8],
}

/// An attempt as it was kept.
#[derive(Debug, Clone)]
pub struct StoredAttempt {
    pub attempt: u32,
    pub outcome: Outcome,
    pub digest: Option<Vec<u8>>,
    pub state: StateName,
    pub recorded_at: Timestamp,
    pub pattern: Option<i64>,
    pub pattern_new: bool,
    /// Encoded.
    pub verdict: Option<Vec<u8>>,
    pub origin: String,
}

impl StoredAttempt {
    pub fn is(&self, digest: &Digest) -> bool {
        self.digest.as_deref() == Some(digest.as_slice())
    }

    pub fn verdict(&self) -> Result<Option<StoredVerdict>> {
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

/// Keeps the end of an attempt of `row`, which already stands where the move left it; `before` is how it stood
/// while the attempt was under way.
pub fn keep_attempt(tx: &mut Tx<'_>, before: &RunRow, row: &RunRow, ending: &Ending<'_>) -> Result<()> {
    let origin = json(&origin(before, row, ending))?;
    let verdict = ending.verdict.map(|told| encode(told.json().as_bytes()));
    Ok(tx.rows.put_attempt(
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
        tx.now,
    )?)
}

/// The answer that a failed attempt got.
pub fn stored_answer(tx: &mut Tx<'_>, row: &RunRow, kept: &StoredAttempt) -> Result<FailureAnswer> {
    let (tenant, _) = run_row::names_of(tx, row)?;
    let missing = || Error::Unexpected(format!("attempt {} of {} has no verdict", kept.attempt, row.run_id));
    let pattern = kept.pattern.ok_or_else(missing)?;
    Ok(FailureAnswer {
        run_id: row.run_id.clone(),
        tenant,
        state: kept.state,
        attempt: kept.attempt,
        verdict: kept.verdict()?.ok_or_else(missing)?,
        pattern: tx.rows.pattern_shown(pattern, kept.pattern_new)?,
        breaker: kept.breaker()?.to_string(),
    })
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

pub fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Unexpected(e.to_string()))
}
