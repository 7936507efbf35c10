//! Runs that look like the same work: the same idempotency key, or the same payload that failed the same way. What is
//! compared never leaves the store, and the search is bounded.

use redrive_core::wire::{Duplicate, DuplicatesAnswer, Likeness};
use rusqlite::{Connection, params};

use crate::error::{Error, Result};
use crate::model::{PayloadKind, RunRef};
use crate::sqlite::life::position;
use crate::sqlite::lookup::{numbered, run_number};
use crate::sqlite::summary::summary;

/// More than anybody looks through by hand.
const DUPLICATES_MAX: usize = 100;
/// Runs of one pattern whose payload is compared, the newest first.
const LOOKS_MAX: usize = 20_000;

/// `GET …/duplicates`.
pub(super) fn duplicates(conn: &Connection, at: &RunRef) -> Result<DuplicatesAnswer> {
    let run = run_number(conn, at)?;
    let mut found: Vec<(i64, Likeness)> =
        by_key(conn, run)?.into_iter().map(|run| (run, Likeness::IdempotencyKey)).collect();
    let (by_payload, all_seen) = by_payload(conn, run)?;
    for like in by_payload {
        if !found.iter().any(|(known, _)| *known == like) {
            found.push((like, Likeness::Payload));
        }
    }
    found.sort_by_key(|(run, _)| std::cmp::Reverse(*run));
    let more = found.len() > DUPLICATES_MAX || !all_seen;
    found.truncate(DUPLICATES_MAX);
    let duplicates = found.into_iter().map(|(run, same)| Ok(Duplicate { same, run: summary(conn, run)? }));
    Ok(DuplicatesAnswer { duplicates: duplicates.collect::<Result<_>>()?, more })
}

fn by_key(conn: &Connection, run: i64) -> Result<Vec<i64>> {
    let mut find = conn.prepare_cached(
        "SELECT other.id FROM runs own JOIN runs other
             ON other.tenant = own.tenant AND other.idempotency_key = own.idempotency_key
         WHERE own.id = ?1 AND own.idempotency_key IS NOT NULL AND other.id <> own.id ORDER BY other.id DESC LIMIT ?2",
    )?;
    let found = find.query_map(params![run, DUPLICATES_MAX + 1], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// And whether every run of the pattern was looked at.
fn by_payload(conn: &Connection, run: i64) -> Result<(Vec<i64>, bool)> {
    let mut find = conn.prepare_cached(
        "SELECT runs.pattern, payloads.digest FROM runs JOIN payloads ON payloads.id = ?2
         WHERE runs.id = ?1 AND runs.pattern IS NOT NULL AND payloads.kind <> ?3",
    )?;
    let none = position(PayloadKind::ALL, &PayloadKind::None);
    let mut rows = find.query(params![run, numbered(run, 1), none])?;
    let Some(own) = rows.next()? else { return Ok((Vec::new(), true)) };
    let (pattern, digest): (i64, Vec<u8>) = (own.get(0)?, own.get(1)?);
    let mut near = conn
        .prepare_cached("SELECT id FROM runs INDEXED BY runs_pattern WHERE pattern = ?1 ORDER BY id DESC LIMIT ?2")?;
    let mut same = conn.prepare_cached("SELECT 1 FROM payloads WHERE id = ?1 AND digest = ?2")?;
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut rows = near.query(params![pattern, LOOKS_MAX + 1])?;
    while let Some(row) = rows.next()? {
        let other: i64 = row.get(0)?;
        looked_at += 1;
        if looked_at > LOOKS_MAX || found.len() > DUPLICATES_MAX {
            return Ok((found, false));
        }
        if other != run && same.exists(params![numbered(other, 1), digest]).map_err(Error::from)? {
            found.push(other);
        }
    }
    Ok((found, true))
}
