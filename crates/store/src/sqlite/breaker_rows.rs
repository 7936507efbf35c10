//! Breakers' rows. There is one writer, so nobody has to be kept from moving one.

use redrive_core::breaker::{Breaker, Key, Scope};
use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::BreakerEntry;
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row, params};

use super::columns::{label, label_or_none, packed_text, parsed_or_none, time, unexpected};
use super::rows::SqliteRows;
use crate::codec::{decode, encode};
use crate::commands::rows::BreakerRows;
use crate::error::{Error, Result};

fn read_breaker(row: &Row<'_>) -> Result<(Key, Breaker)> {
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

fn read_entry(row: &Row<'_>) -> Result<BreakerEntry> {
    let note = match row.get_ref(4)? {
        ValueRef::Null => None,
        _ => Some(Text::from_token(packed_text(row, 4, "note")?).ok_or_else(|| unexpected("note"))?),
    };
    Ok(BreakerEntry { at: time(row, 0)?, breaker: label(row, 1)?, actor: row.get(2)?, event: row.get(3)?, note })
}

impl BreakerRows for SqliteRows<'_> {
    fn breakers(&mut self) -> Result<(Vec<(Key, Breaker)>, u64)> {
        let mut last = self.conn.prepare_cached("SELECT last FROM breaker_generation")?;
        let last: Option<i64> = last.query_row([], |row| row.get(0)).optional()?;
        let mut find = self.conn.prepare_cached(
            "SELECT b.environment, t.name, b.provider, b.model, b.life
             FROM breakers b LEFT JOIN tenants t ON t.id = b.tenant",
        )?;
        let all = find.query_and_then([], read_breaker)?.collect::<Result<_>>()?;
        Ok((all, last.unwrap_or(0).cast_unsigned()))
    }

    fn lock_breakers(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn put_generation(&mut self, last: u64) -> Result<()> {
        let mut put = self.conn.prepare_cached(
            "INSERT INTO breaker_generation (id, last) VALUES (1, ?1) ON CONFLICT DO UPDATE SET last = excluded.last",
        )?;
        put.execute([last.cast_signed()])?;
        Ok(())
    }

    fn put_breaker(&mut self, key: &Key, tenant: Option<i64>, life: Option<&str>) -> Result<()> {
        let Some(life) = life else {
            let mut forget = self.conn.prepare_cached("DELETE FROM breakers WHERE name = ?1")?;
            forget.execute([key.name().as_str()])?;
            return Ok(());
        };
        let (provider, model) = match &key.scope {
            Scope::Tenant { .. } => (None, None),
            Scope::Model { provider, model, .. } | Scope::Everywhere { provider, model } => {
                (Some(provider), Some(model))
            }
        };
        let mut put = self.conn.prepare_cached(
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

    fn insert_breaker_event(
        &mut self,
        name: &Label,
        actor: &str,
        event: &str,
        note: Option<&Text>,
        now: Timestamp,
    ) -> Result<()> {
        let mut insert = self
            .conn
            .prepare_cached("INSERT INTO breaker_events (name, at, actor, event, note) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        let note = note.map(|note| encode(note.token().as_bytes()));
        insert.execute(params![name.as_str(), now.as_millis(), actor, event, note])?;
        Ok(())
    }

    fn breaker_events(&mut self, name: &Label, most: usize) -> Result<Vec<BreakerEntry>> {
        let mut find = self.conn.prepare_cached(
            "SELECT at, name, actor, event, note FROM breaker_events WHERE name = ?1 ORDER BY id DESC LIMIT ?2",
        )?;
        find.query_and_then(params![name.as_str(), most], read_entry)?.collect()
    }
}
