//! Runs that look like the same work: the same idempotency key, or the same payload that failed the same way. What is
//! compared never leaves the store, and the search looks around the run, as in every store.

use redrive_core::wire::{Duplicate, DuplicatesAnswer, Likeness};
use tokio_postgres::Row;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{Columns as _, bytes, number, owned_or_none};
use crate::postgres::reads::lookup::run_number;
use crate::postgres::reads::received::last_id;
use crate::postgres::reads::summary::summaries;
use crate::shared::duplicates::{ALIKE_RUNS, DUPLICATES_MAX, Found, NEAR_RUNS, together};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{PayloadKind, RunRef};
use redrive_engine::runs::document::position;

/// What a run is compared by.
struct Own {
    id: i64,
    tenant: i64,
    key: Option<String>,
    pattern: Option<i64>,
    /// As first captured; none when there was no payload.
    payload: Option<Vec<u8>>,
}

/// `GET …/duplicates`.
pub(crate) async fn duplicates(snapshot: &Snapshot<'_>, at: &RunRef) -> Result<DuplicatesAnswer> {
    let own = own(snapshot, run_number(snapshot, at).await?).await?;
    let (found, more) = together(near(snapshot, &own).await?, alike(snapshot, &own).await?);
    let numbers: Vec<i64> = found.iter().map(|(run, _)| *run).collect();
    let runs = summaries(snapshot, &numbers).await?;
    let duplicates = found.into_iter().zip(runs).map(|((_, same), run)| Duplicate { same, run }).collect();
    Ok(DuplicatesAnswer { duplicates, more })
}

async fn own(snapshot: &Snapshot<'_>, id: i64) -> Result<Own> {
    let run = snapshot.row("SELECT tenant, idempotency_key, pattern FROM runs WHERE id = $1", &[&id]).await?;
    let run = run.ok_or(Error::NotFound("run"))?;
    let none = position(PayloadKind::ALL, &PayloadKind::None);
    let sql = "SELECT digest FROM payloads WHERE run = $1 AND revision = 1 AND kind <> $2";
    let payload = snapshot.row(sql, &[&id, &none]).await?;
    Ok(Own {
        id,
        tenant: number(&run, 0)?,
        key: owned_or_none(&run, 1)?,
        pattern: run.number_or_none(2)?,
        payload: payload.map(|row| bytes(&row, 0).map(<[u8]>::to_vec)).transpose()?,
    })
}

/// Received about when it was: whoever sends twice mostly does so soon.
async fn near(snapshot: &Snapshot<'_>, own: &Own) -> Result<Found> {
    let Some(key) = &own.key else { return Ok(Found { runs: Vec::new(), all_seen: true }) };
    let (first, last) = (own.id - NEAR_RUNS, own.id + NEAR_RUNS);
    let sql = format!(
        "SELECT id FROM runs WHERE id BETWEEN $1 AND $2 AND tenant = $3 AND idempotency_key = $4 AND id <> $5
         ORDER BY id DESC LIMIT {}",
        DUPLICATES_MAX + 1
    );
    let rows = snapshot.rows(&sql, &[&first, &last, &own.tenant, key, &own.id]).await?;
    let like = |row: &Row| Ok((number(row, 0)?, Likeness::IdempotencyKey));
    let runs = rows.iter().map(like).collect::<Result<Vec<_>>>()?;
    Ok(Found { runs, all_seen: first <= 1 && last_id(snapshot).await? <= last })
}

/// Failed the same way: the newest runs of its pattern, each held against the key and the payload.
async fn alike(snapshot: &Snapshot<'_>, own: &Own) -> Result<Found> {
    let Some(pattern) = own.pattern else { return Ok(Found { runs: Vec::new(), all_seen: true }) };
    let sql = format!(
        "WITH near AS (
             SELECT id, idempotency_key FROM runs WHERE pattern IS NOT NULL
                 AND (pattern, id) >= ($1, 0) AND (pattern, id) <= ($1, 9223372036854775807)
             ORDER BY pattern DESC, id DESC LIMIT {ALIKE_RUNS}
         ), same AS (
             SELECT near.id, coalesce(near.idempotency_key = $2, false) AS by_key,
                 EXISTS (SELECT 1 FROM payloads WHERE run = near.id AND revision = 1 AND digest = $3) AS by_payload
             FROM near WHERE near.id <> $4
         )
         SELECT id, by_key::int::bigint, (SELECT count(*) FROM near) FROM same WHERE by_key OR by_payload
         ORDER BY id DESC LIMIT {}",
        DUPLICATES_MAX + 1
    );
    let rows = snapshot.rows(&sql, &[&pattern, &own.key, &own.payload, &own.id]).await?;
    let seen = match rows.first() {
        Some(row) => number(row, 2)?,
        None => 0,
    };
    let like = |row: &Row| {
        let same = if number(row, 1)? == 1 { Likeness::IdempotencyKey } else { Likeness::Payload };
        Ok((number(row, 0)?, same))
    };
    let runs = rows.iter().map(like).collect::<Result<Vec<_>>>()?;
    let all_seen = runs.len() <= DUPLICATES_MAX && usize::try_from(seen).unwrap_or(usize::MAX) < ALIKE_RUNS;
    Ok(Found { runs, all_seen })
}
