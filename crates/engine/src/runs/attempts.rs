//! Attempts: recorded when they end, read again to answer a repeated report.

use redrive_core::breaker::BreakerStateName;
use redrive_core::lifecycle::Outcome;
use redrive_core::pattern::Fingerprint;
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::verdict::StoredVerdict;
use redrive_core::wire::{ErrorReport, FailureAnswer};

use crate::codec::decode;
use crate::error::{Error, Result};
use crate::model::{AttemptOrigin, Digest};
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// An attempt that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptEnd {
    pub number: u32,
    /// Of the lease that it ends; none for an attempt reported in one call.
    pub epoch: Option<u64>,
}

impl AttemptEnd {
    /// An attempt that was reported in one call.
    pub fn unleased(number: u32) -> Self {
        Self { number, epoch: None }
    }
}

/// A row of attempts as the store writes it.
#[derive(Debug)]
pub struct AttemptRecord<'a> {
    pub run: i64,
    pub attempt: u32,
    /// Replaces the record of the silence before it.
    pub late: bool,
    pub outcome: Outcome,
    pub digest: Option<&'a Digest>,
    /// Of the run, after the attempt.
    pub state: StateName,
    pub fingerprint: Option<&'a Fingerprint>,
    pub pattern: Option<i64>,
    pub pattern_new: bool,
    /// [`AttemptOrigin`] as JSON.
    pub origin: String,
    /// The verdict as JSON, encoded.
    pub verdict: Option<Vec<u8>>,
    pub body: &'a [u8],
}

impl<'a> AttemptRecord<'a> {
    /// A record without a failure. `before` is the run while the attempt was under way, `row` the run after it.
    pub fn new(
        before: &RunRow,
        row: &RunRow,
        ended: AttemptEnd,
        outcome: Outcome,
        breaker: BreakerStateName,
        body: &'a [u8],
    ) -> Result<Self> {
        Ok(Self {
            run: row.id,
            attempt: ended.number,
            late: false,
            outcome,
            digest: None,
            state: row.run.state.name(),
            fingerprint: None,
            pattern: None,
            pattern_new: false,
            origin: json(&origin(before, row, ended, breaker))?,
            verdict: None,
            body,
        })
    }
}

fn origin(before: &RunRow, row: &RunRow, ended: AttemptEnd, breaker: BreakerStateName) -> AttemptOrigin {
    let leased = ended.epoch.map(|_| before);
    let lease = leased.and_then(|before| before.run.lease());
    AttemptOrigin {
        began_at: lease.map(|lease| lease.began_at),
        worker: leased.and_then(|before| before.worker.clone()),
        revision: row.run.revision,
        replay: lease.is_some_and(|lease| lease.replay),
        versions: leased.map(|before| before.versions.clone()).unwrap_or_default(),
        breaker: Some(breaker).filter(|breaker| *breaker != BreakerStateName::Closed),
    }
}

/// A row of attempts as it was read.
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
    /// Whether it was recorded from a report with this digest.
    pub fn is(&self, digest: &Digest) -> bool {
        self.digest.as_deref() == Some(digest.as_slice())
    }

    pub fn verdict(&self) -> Result<Option<StoredVerdict>> {
        let Some(stored) = &self.verdict else { return Ok(None) };
        let verdict =
            serde_json::from_slice(&decode(stored)?).map_err(|e| Error::Unexpected(format!("a verdict: {e}")))?;
        Ok(Some(verdict))
    }

    fn breaker(&self) -> Result<BreakerStateName> {
        let origin: AttemptOrigin =
            serde_json::from_str(&self.origin).map_err(|e| Error::Unexpected(format!("an origin: {e}")))?;
        Ok(origin.breaker.unwrap_or(BreakerStateName::Closed))
    }

    /// The answer that the report of this failed attempt got.
    pub fn failure_answer(&self, tx: &mut Tx<'_>, row: &RunRow) -> Result<FailureAnswer> {
        let (tenant, _) = run_row::names_of(tx, row)?;
        let missing = || Error::Unexpected(format!("attempt {} of {} has no verdict", self.attempt, row.run_id));
        let pattern = self.pattern.ok_or_else(missing)?;
        Ok(FailureAnswer {
            run_id: row.run_id.clone(),
            tenant,
            state: self.state,
            attempt: self.attempt,
            verdict: self.verdict()?.ok_or_else(missing)?,
            pattern: tx.rows.pattern_shown(pattern, self.pattern_new)?,
            breaker: self.breaker()?.to_string(),
        })
    }
}

/// The error of a failure that the engine found itself.
pub fn found_error(error_type: Option<&str>, message: &str) -> ErrorReport {
    ErrorReport {
        error_type: error_type.map(Text::from),
        message: Text::from(message),
        detail: None,
        http_status: None,
        headers: Default::default(),
        reason: None,
        category: None,
        terminal: false,
    }
}

pub fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Unexpected(e.to_string()))
}
