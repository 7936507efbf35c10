//! Runs that look like the same work: the same idempotency key, or the same payload that failed the same way. What is
//! compared never leaves the store. An index over keys and payloads would cost every report that has one, for a question
//! that a person asks now and then: the search looks around the run instead, and says when there may be more.

use redrive_core::wire::{Duplicate, DuplicatesAnswer, Likeness};
use rusqlite::{Connection, OptionalExtension, params};

use crate::shared::duplicates::{ALIKE_RUNS, DUPLICATES_MAX, Found, NEAR_RUNS, together};
use crate::sqlite::reads::lookup::run_number;
use crate::sqlite::reads::received::last_id;
use crate::sqlite::reads::summary::summary;
use redrive_engine::error::PortResult as Result;
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
pub(crate) fn duplicates(conn: &Connection, at: &RunRef) -> Result<DuplicatesAnswer> {
    let own = own(conn, run_number(conn, at)?)?;
    let (found, more) = together(near(conn, &own)?, alike(conn, &own)?);
    let duplicates = found.into_iter().map(|(run, same)| Ok(Duplicate { same, run: summary(conn, run)? }));
    Ok(DuplicatesAnswer { duplicates: duplicates.collect::<Result<_>>()?, more })
}

fn own(conn: &Connection, id: i64) -> Result<Own> {
    let mut find = conn.prepare_cached("SELECT tenant, idempotency_key, pattern FROM runs WHERE id = ?1")?;
    let (tenant, key, pattern) = find.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut find = conn.prepare_cached("SELECT digest FROM payloads WHERE run = ?1 AND revision = 1 AND kind <> ?2")?;
    let none = position(PayloadKind::ALL, &PayloadKind::None);
    let payload = find.query_row([id, none], |row| row.get(0)).optional()?;
    Ok(Own { id, tenant, key, pattern, payload })
}

/// Received about when it was: whoever sends twice mostly does so soon.
fn near(conn: &Connection, own: &Own) -> Result<Found> {
    let Some(key) = &own.key else { return Ok(Found { runs: Vec::new(), all_seen: true }) };
    let (first, last) = (own.id - NEAR_RUNS, own.id + NEAR_RUNS);
    let mut find = conn.prepare_cached(
        "SELECT id FROM runs WHERE id BETWEEN ?1 AND ?2 AND tenant = ?3 AND idempotency_key = ?4 AND id <> ?5
         ORDER BY id DESC LIMIT ?6",
    )?;
    let found = find.query_map(params![first, last, own.tenant, key, own.id, DUPLICATES_MAX + 1], |row| {
        Ok((row.get(0)?, Likeness::IdempotencyKey))
    })?;
    let runs = found.collect::<Result<Vec<_>, _>>()?;
    Ok(Found { runs, all_seen: first <= 1 && last_id(conn)? <= last })
}

/// Failed the same way.
fn alike(conn: &Connection, own: &Own) -> Result<Found> {
    let mut of_pattern = conn
        .prepare_cached("SELECT id FROM runs INDEXED BY runs_pattern WHERE pattern = ?1 ORDER BY id DESC LIMIT ?2")?;
    let mut same_key = conn.prepare_cached("SELECT 1 FROM runs WHERE id = ?1 AND idempotency_key = ?2")?;
    let mut same_payload =
        conn.prepare_cached("SELECT 1 FROM payloads WHERE run = ?1 AND revision = 1 AND digest = ?2")?;
    let mut found = Found { runs: Vec::new(), all_seen: true };
    let mut rows = of_pattern.query(params![own.pattern, ALIKE_RUNS + 1])?;
    let mut looked_at = 0;
    while let Some(row) = rows.next()? {
        let other: i64 = row.get(0)?;
        looked_at += 1;
        if looked_at > ALIKE_RUNS || found.runs.len() > DUPLICATES_MAX {
            found.all_seen = false;
            break;
        }
        if other == own.id {
            continue;
        }
        if own.key.is_some() && same_key.exists(params![other, own.key])? {
            found.runs.push((other, Likeness::IdempotencyKey));
        } else if own.payload.is_some() && same_payload.exists(params![other, own.payload])? {
            found.runs.push((other, Likeness::Payload));
        }
    }
    Ok(found)
}
