//! Payloads: by revision, and as attempts were sent them.

use std::sync::LazyLock;

use redrive_core::lifecycle::Outcome;
use redrive_core::verdict::Verdict;
use redrive_core::wire::{HandedChange, RawJson, RevisionView};

use super::columns::{json, owned, packed, packed_json, packed_json_or_none, text, time, whole};
use super::history::REPORTER;
use super::lookup::run_number;
use super::pages::NEWEST_ATTEMPTS;
use super::reader::{SqlReader, StoreReader};
use super::records::read_payload;
use super::runs::summary;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{AttemptBody, AttemptOrigin, DETAIL_PAGE_MAX, RunRef, SentPayload};
use redrive_engine::runs::document::{RunDocument, position};
use redrive_engine::runs::payload::{StoredPayload, raw_json};

/// The payload of a revision. A run that came without one may have no row.
pub(crate) async fn payload_of(reader: &impl SqlReader, run: i64, revision: u32) -> Result<StoredPayload> {
    let sql = "SELECT kind, about, body FROM payloads WHERE run = $1 AND revision = $2";
    let found = reader.row(sql, &[run.into(), revision.into()]).await?.read(read_payload)?;
    Ok(found.unwrap_or_else(StoredPayload::none))
}

/// `GET …/revisions/{revision}`.
pub(crate) async fn revision(reader: &impl StoreReader, at: &RunRef, revision: Option<u32>) -> Result<RevisionView> {
    let run = run_number(reader, at).await?;
    let summary = summary(reader, run).await?;
    let revision = revision.unwrap_or(summary.revision);
    if !(1..=summary.revision).contains(&revision) {
        return Err(Error::NotFound("revision").into());
    }
    let sql = "SELECT at, actor, patch FROM revisions WHERE run = $1 AND revision = $2";
    let made = reader
        .row(sql, &[run.into(), revision.into()])
        .await?
        .read(|row| Ok((time(row, 0)?, owned(row, 1)?, packed_json_or_none(row, 2, "patch")?)))?;
    let (at, actor, json_patch) = made.unwrap_or((summary.received_at, REPORTER.to_owned(), None));
    let (payload, payload_base64) = payload_of(reader, run, revision).await?.into_wire()?;
    Ok(RevisionView {
        run_id: summary.run_id,
        tenant: summary.tenant,
        revision,
        at,
        actor,
        payload,
        payload_base64,
        json_patch,
    })
}

// Both look among the newest attempts only, so that a run with a million attempts costs no more than one with a thousand.
static LAST_BODY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT body FROM attempts WHERE run = $1 AND attempt = (SELECT max(attempt) FROM (SELECT attempt, outcome
             FROM attempts WHERE run = $1 ORDER BY attempt DESC LIMIT {NEWEST_ATTEMPTS}) AS newest WHERE outcome = $2)"
    )
});
static LAST_VERDICT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT verdict FROM attempts WHERE run = $1 AND attempt = (SELECT max(attempt) FROM (SELECT attempt, verdict
             FROM attempts WHERE run = $1 ORDER BY attempt DESC LIMIT {NEWEST_ATTEMPTS}) AS newest
             WHERE verdict IS NOT NULL)"
    )
});

pub(crate) async fn last_verdict(reader: &impl SqlReader, run: i64) -> Result<Option<Verdict>> {
    reader.row(&LAST_VERDICT, &[run.into()]).await?.read(|row| packed_json(row, 0, "verdict"))
}

/// The body of the last attempt with this outcome.
pub(crate) async fn last_body(reader: &impl SqlReader, run: i64, outcome: Outcome) -> Result<Option<AttemptBody>> {
    let outcome = position(Outcome::ALL, &outcome);
    reader.row(&LAST_BODY, &[run.into(), outcome.into()]).await?.read(|row| packed_json(row, 0, "attempt"))
}

/// The changed payload that an attempt was sent under this epoch (or any), with its changes.
pub(crate) async fn changed_payload(
    reader: &impl SqlReader,
    run: i64,
    attempt: u32,
    epoch: Option<u64>,
) -> Result<Option<(Vec<HandedChange>, RawJson)>> {
    let sql = "SELECT changes, body FROM sent WHERE run = $1 AND attempt = $2 AND epoch = coalesce($3, epoch)";
    let values = [run.into(), attempt.into(), epoch.map(u64::cast_signed).into()];
    reader
        .row(sql, &values)
        .await?
        .read(|row| Ok((packed_json(row, 0, "changes")?, raw_json(packed(row, 1)?, "sent")?)))
}

/// The attempts of a run, from `from` on, that were sent a changed payload.
pub(crate) async fn changed_attempts(reader: &impl SqlReader, run: i64, from: u32) -> Result<Vec<u32>> {
    let sql = "SELECT attempt FROM sent WHERE run = $1 AND attempt >= $2 ORDER BY attempt LIMIT $3";
    reader
        .rows(sql, &[run.into(), from.into(), (DETAIL_PAGE_MAX + 1).into()])
        .await?
        .read(|row| whole(row, 0, "attempt"))
}

/// What an attempt was sent, and the payload that it was made from.
pub(crate) async fn sent(reader: &impl StoreReader, at: &RunRef, attempt: u32) -> Result<SentPayload> {
    let run = run_number(reader, at).await?;
    let revision = revision_of(reader, run, attempt).await?.ok_or(Error::NotFound("attempt"))?;
    let changed = changed_payload(reader, run, attempt, None).await?;
    let (changes, sent) = changed.map_or((Vec::new(), None), |(changes, body)| (changes, Some(body)));
    let (original, original_base64) = payload_of(reader, run, revision).await?.into_wire()?;
    Ok(SentPayload { attempt, revision, changes, sent, original, original_base64 })
}

/// The revision of an attempt that has ended or runs now.
async fn revision_of(reader: &impl SqlReader, run: i64, attempt: u32) -> Result<Option<u32>> {
    let sql = "SELECT origin FROM attempts WHERE run = $1 AND attempt = $2";
    let read = reader
        .row(sql, &[run.into(), attempt.into()])
        .await?
        .read(|row| json::<AttemptOrigin>(text(row, 0)?, "origin"));
    if let Some(origin) = read? {
        return Ok(Some(origin.revision));
    }
    let sql = "SELECT revision, life FROM runs WHERE id = $1 AND attempt = $2";
    let read = reader.row(sql, &[run.into(), attempt.into()]).await?.read(|row| {
        let life: RunDocument = json(text(row, 1)?, "life")?;
        Ok((whole(row, 0, "revision")?, life.lease.is_some()))
    });
    Ok(read?.and_then(|(revision, is_leased)| is_leased.then_some(revision)))
}
