//! Breakers' rows: read once, written with the commit that moved them.

use std::collections::HashMap;

use redrive_core::breaker::{Breaker, Key, Scope};
use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::time::DAY_MS;
use rusqlite::{OptionalExtension, Row, params};

use crate::codec::{decode, encode};
use crate::error::{Error, Result};
use crate::model::Swept;
use crate::sqlite::attempts::json;
use crate::sqlite::batch::Batch;
use crate::sqlite::columns::{label, label_or_none, parsed_or_none};

/// Of one breaker; one that flaps for weeks pushes out nobody else's.
const EVENTS_KEPT_MAX: usize = 1_000;
/// Of all of them, also of those that are long gone.
const EVENTS_KEPT_MS: u64 = 90 * DAY_MS;

pub(super) fn load(batch: &Batch<'_>) -> Result<(HashMap<Key, Breaker>, u64)> {
    let mut last = batch.conn.prepare_cached("SELECT last FROM breaker_generation")?;
    let last: Option<i64> = last.query_row([], |row| row.get(0)).optional()?;
    let mut find = batch.conn.prepare_cached(
        "SELECT b.environment, t.name, b.provider, b.model, b.life
         FROM breakers b LEFT JOIN tenants t ON t.id = b.tenant",
    )?;
    let all = find.query_and_then([], read)?.collect::<Result<_>>()?;
    Ok((all, last.unwrap_or(0).cast_unsigned()))
}

fn read(row: &Row<'_>) -> Result<(Key, Breaker)> {
    let unreadable = || Error::Unexpected("a breaker that watches nothing".into());
    let tenant: Option<Tenant> = parsed_or_none(row, 1, "tenant")?;
    let scope = match (tenant, label_or_none(row, 2)?, label_or_none(row, 3)?) {
        (Some(tenant), Some(provider), Some(model)) => Scope::Model { tenant, provider, model },
        (None, Some(provider), Some(model)) => Scope::Everywhere { provider, model },
        (Some(tenant), None, None) => Scope::Tenant { tenant },
        (_, None, Some(_)) | (_, Some(_), None) | (None, None, None) => return Err(unreadable()),
    };
    let life: Vec<u8> = row.get(4)?;
    let breaker = serde_json::from_slice(&decode(&life)?).map_err(|e| Error::Unexpected(format!("a breaker: {e}")))?;
    Ok((Key { environment: label(row, 0)?, scope }, breaker))
}

/// Writes what moved; the batch's last act but for its counters.
pub(in crate::sqlite) fn fold(batch: &mut Batch<'_>) -> Result<()> {
    if batch.known.breakers.last_changed {
        let mut put = batch.conn.prepare_cached(
            "INSERT INTO breaker_generation (id, last) VALUES (1, ?1) ON CONFLICT DO UPDATE SET last = excluded.last",
        )?;
        put.execute([batch.known.breakers.last.cast_signed()])?;
        batch.known.breakers.last_changed = false;
    }
    for key in std::mem::take(&mut batch.known.breakers.dirty) {
        match batch.known.breakers.all.get(&key).filter(|breaker| !breaker.is_blank()).map(json).transpose()? {
            Some(life) => put(batch, &key, &life)?,
            None => {
                let mut forget = batch.conn.prepare_cached("DELETE FROM breakers WHERE name = ?1")?;
                forget.execute([key.name().as_str()])?;
            }
        }
    }
    Ok(())
}

fn put(batch: &mut Batch<'_>, key: &Key, life: &str) -> Result<()> {
    let tenant = key.tenant().map(|tenant| batch.tenant(tenant)).transpose()?;
    let (provider, model) = match &key.scope {
        Scope::Tenant { .. } => (None, None),
        Scope::Model { provider, model, .. } | Scope::Everywhere { provider, model } => (Some(provider), Some(model)),
    };
    let mut put = batch.conn.prepare_cached(
        "INSERT INTO breakers (name, environment, tenant, provider, model, life) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET life = excluded.life",
    )?;
    put.execute(params![
        key.name().as_str(),
        key.environment.as_str(),
        tenant,
        provider.map(Label::as_str),
        model.map(Label::as_str),
        encode(life.as_bytes()),
    ])?;
    Ok(())
}

/// Writes down what happened to a breaker, and who did it.
pub(super) fn note(batch: &Batch<'_>, name: &Label, actor: &str, event: &str, note: Option<&Text>) -> Result<()> {
    let mut insert = batch
        .conn
        .prepare_cached("INSERT INTO breaker_events (name, at, actor, event, note) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let note = note.map(|note| encode(note.token().as_bytes()));
    insert.execute(params![name.as_str(), batch.now.as_millis(), actor, event, note])?;
    let mut forget = batch.conn.prepare_cached(
        "DELETE FROM breaker_events WHERE name = ?1 AND id <= (
             SELECT id FROM breaker_events WHERE name = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
    )?;
    forget.execute(params![name.as_str(), EVENTS_KEPT_MAX])?;
    Ok(())
}

/// Forgets what happened to breakers long ago, the oldest first.
pub(in crate::sqlite) fn trim_events(batch: &mut Batch<'_>, most: usize) -> Result<Swept> {
    let oldest = batch.now.minus_ms(EVENTS_KEPT_MS).as_millis();
    let mut forget = batch.conn.prepare_cached(
        "DELETE FROM breaker_events WHERE id IN (
             SELECT id FROM (SELECT id, at FROM breaker_events ORDER BY id LIMIT ?2) WHERE at < ?1)",
    )?;
    let gone = forget.execute(params![oldest, most])?;
    Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
}
