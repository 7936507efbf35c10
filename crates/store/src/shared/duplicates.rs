//! Runs that look like the same work: the same idempotency key, or the same payload that failed the same way.
//!
//! An index over keys and payloads would cost every report for a question that is rarely asked, so the search covers
//! the runs around this one and says when there may be more.

use redrive_core::wire::{Duplicate, DuplicatesAnswer, Likeness};

use super::columns::{Columns as _, bytes, number, owned_or_none};
use super::lookup::{last_run, run_number};
use super::reader::StoreReader;
use super::runs::summaries;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{PayloadKind, RunRef};
use redrive_engine::runs::document::position;

/// More than anybody reviews one by one.
pub(crate) const DUPLICATES_MAX: usize = 100;
/// Runs received before and after this one whose idempotency key is compared.
const NEAR_RUNS: i64 = 25_000;
/// Runs of the same pattern whose key and payload are compared, the newest first.
pub(crate) const SAME_PATTERN_RUNS: usize = 20_000;

/// What a run is compared by.
pub(crate) struct DuplicateKey {
    pub(crate) run: i64,
    tenant: i64,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) pattern: Option<i64>,
    /// The digest of the first payload, if there was one.
    pub(crate) payload: Option<Vec<u8>>,
}

/// Matching runs, and whether the search covered all runs.
pub(crate) struct DuplicateMatches {
    pub(crate) runs: Vec<(i64, Likeness)>,
    pub(crate) is_complete: bool,
}

impl DuplicateMatches {
    pub(crate) fn none() -> Self {
        Self { runs: Vec::new(), is_complete: true }
    }
}

pub(crate) async fn duplicates(reader: &impl StoreReader, at: &RunRef) -> Result<DuplicatesAnswer> {
    let own = key_of(reader, run_number(reader, at).await?).await?;
    let (near, same_pattern) = (near(reader, &own).await?, reader.same_pattern(&own).await?);
    let mut found = near.runs;
    for (run, same) in same_pattern.runs {
        if !found.iter().any(|(known, _)| *known == run) {
            found.push((run, same));
        }
    }
    found.sort_by_key(|(run, _)| std::cmp::Reverse(*run));
    let more = found.len() > DUPLICATES_MAX || !near.is_complete || !same_pattern.is_complete;
    found.truncate(DUPLICATES_MAX);
    let numbers: Vec<i64> = found.iter().map(|(run, _)| *run).collect();
    let runs = summaries(reader, &numbers).await?;
    let duplicates = found.into_iter().zip(runs).map(|((_, same), run)| Duplicate { same, run }).collect();
    Ok(DuplicatesAnswer { duplicates, more })
}

async fn key_of(reader: &impl StoreReader, run: i64) -> Result<DuplicateKey> {
    let none = position(PayloadKind::ALL, &PayloadKind::None);
    let sql = "SELECT digest FROM payloads WHERE run = $1 AND revision = 1 AND kind <> $2";
    let payload = reader.row(sql, &[run.into(), none.into()]).await?.read(|row| bytes(row, 0).map(<[u8]>::to_vec))?;
    let sql = "SELECT tenant, idempotency_key, pattern FROM runs WHERE id = $1";
    let read = reader.row(sql, &[run.into()]).await?.read(|row| {
        let (tenant, idempotency_key) = (number(row, 0)?, owned_or_none(row, 1)?);
        Ok(DuplicateKey { run, tenant, idempotency_key, pattern: row.number_or_none(2)?, payload: payload.clone() })
    });
    read?.ok_or(Error::NotFound("run").into())
}

/// Producers mostly send a duplicate soon after the original.
async fn near(reader: &impl StoreReader, own: &DuplicateKey) -> Result<DuplicateMatches> {
    let Some(key) = &own.idempotency_key else { return Ok(DuplicateMatches::none()) };
    let (first, last) = (own.run - NEAR_RUNS, own.run + NEAR_RUNS);
    let sql = format!(
        "SELECT id FROM runs WHERE id BETWEEN $1 AND $2 AND tenant = $3 AND idempotency_key = $4 AND id <> $5
         ORDER BY id DESC LIMIT {}",
        DUPLICATES_MAX + 1
    );
    let values = [first.into(), last.into(), own.tenant.into(), key.as_str().into(), own.run.into()];
    let runs = reader.rows(&sql, &values).await?.read(|row| Ok((number(row, 0)?, Likeness::IdempotencyKey)))?;
    Ok(DuplicateMatches { runs, is_complete: first <= 1 && last_run(reader).await? <= last })
}
