//! Breakers. There is one writer, so they need no lock.

use crate::shared::records::{BREAKER_COLUMNS, BREAKER_ENTRY, read_entry, read_into};
use redrive_core::breaker::{Breaker, Key, Scope};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::BreakerEntry;
use rusqlite::{OptionalExtension, params};

use crate::sqlite::rows::SqliteRows;
use redrive_engine::breakers::{CorruptBreaker, ReadBreakers};
use redrive_engine::codec::encode;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::Swept;
use redrive_engine::ports::rows::{BreakerRows, PutBreaker};

impl SqliteRows<'_> {
    fn breakers_where(&mut self, condition: &str, values: impl rusqlite::Params) -> Result<ReadBreakers> {
        let sql = format!(
            "SELECT {BREAKER_COLUMNS} FROM breakers b LEFT JOIN tenants t ON t.id = b.tenant WHERE {condition}"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let (mut rows, mut read) = (statement.query(values)?, ReadBreakers::default());
        while let Some(row) = rows.next()? {
            read_into(&mut read, row)?;
        }
        Ok(read)
    }
}

impl BreakerRows for SqliteRows<'_> {
    fn breakers(&mut self) -> Result<(ReadBreakers, u64)> {
        let mut last = self.conn.prepare_cached("SELECT last FROM breaker_generation")?;
        let last: Option<i64> = last.query_row([], |row| row.get(0)).optional()?;
        let last = last.unwrap_or(0).cast_unsigned();
        Ok((self.breakers_where("b.open = 1", [])?, last))
    }

    fn breakers_named(&mut self, keys: &[Key]) -> Result<ReadBreakers> {
        let mut found = ReadBreakers::default();
        for key in keys {
            let ReadBreakers { all, corrupt } = self.breakers_where("b.name = ?1", [key.name().as_str()])?;
            found.all.extend(all);
            found.corrupt.extend(corrupt);
        }
        Ok(found)
    }

    fn breakers_in(&mut self, tenant: Option<i64>) -> Result<ReadBreakers> {
        match tenant {
            Some(tenant) => self.breakers_where("b.tenant = ?1", [tenant]),
            None => self.breakers_where("1", []),
        }
    }

    fn breaker_count(&mut self, tenant: i64) -> Result<usize> {
        let mut count = self.conn.prepare_cached("SELECT count(*) FROM breakers WHERE tenant = ?1")?;
        Ok(count.query_row([tenant], |row| row.get(0))?)
    }

    fn idle_breakers(&mut self, since: Timestamp, most: usize) -> Result<ReadBreakers> {
        let condition = "b.open = 0 AND b.moved_at < ?1 ORDER BY b.moved_at LIMIT ?2";
        self.breakers_where(condition, params![since.as_millis(), most])
    }

    fn set_breaker_aside(&mut self, corrupt: &CorruptBreaker, now: Timestamp) -> Result<bool> {
        if self.conn.is_readonly("main")? {
            return Ok(false);
        }
        let mut keep = self.conn.prepare_cached(
            "INSERT INTO set_aside (at, source, why, body)
                 SELECT ?1, 'breakers', ?2, json_object('name', name, 'environment', environment, 'tenant', tenant,
                     'provider', provider, 'model', model, 'life', hex(life), 'open', open, 'moved_at', moved_at)
                 FROM breakers WHERE name = CAST(?3 AS TEXT)",
        )?;
        let kept = keep.execute(params![now.as_millis(), corrupt.why.as_str(), corrupt.name])?;
        let mut forget = self.conn.prepare_cached("DELETE FROM breakers WHERE name = CAST(?1 AS TEXT)")?;
        forget.execute(params![corrupt.name])?;
        Ok(kept > 0)
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

    fn quiet_breaker(&mut self, _: &Key) -> Result<Option<Breaker>> {
        Ok(None)
    }

    fn blank_since(&mut self, last: u64) -> u64 {
        last
    }

    fn delete_breaker(&mut self, key: &Key, _: &Breaker) -> Result<()> {
        let mut forget = self.conn.prepare_cached("DELETE FROM breakers WHERE name = ?1")?;
        forget.execute([key.name().as_str()])?;
        Ok(())
    }

    fn put_breaker(&mut self, key: &Key, tenant: Option<i64>, put: &PutBreaker<'_>) -> Result<()> {
        let PutBreaker { life, open, now } = put;
        let (provider, model) = match &key.scope {
            Scope::Tenant { .. } => (None, None),
            Scope::Model { provider, model, .. } | Scope::Everywhere { provider, model } => {
                (Some(provider), Some(model))
            }
        };
        let mut put = self.conn.prepare_cached(
            "INSERT INTO breakers (name, environment, tenant, provider, model, life, open, moved_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT DO UPDATE SET life = excluded.life, open = excluded.open, moved_at = excluded.moved_at",
        )?;
        put.execute(params![
            key.name().as_str(),
            key.environment.as_str(),
            tenant,
            provider.map(Label::as_str),
            model.map(Label::as_str),
            encode(life.as_bytes()),
            open,
            now.as_millis(),
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

    fn forget_breaker_events(&mut self, name: &Label, kept: usize) -> Result<()> {
        let mut forget = self.conn.prepare_cached(
            "DELETE FROM breaker_events WHERE name = ?1 AND id <= (
                 SELECT id FROM breaker_events WHERE name = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?;
        forget.execute(params![name.as_str(), kept])?;
        Ok(())
    }

    fn trim_breaker_events(&mut self, before: Timestamp, most: usize) -> Result<Swept> {
        let mut forget = self.conn.prepare_cached(
            "DELETE FROM breaker_events WHERE id IN (
                 SELECT id FROM (SELECT id, at FROM breaker_events ORDER BY id LIMIT ?2) WHERE at < ?1)",
        )?;
        let gone = forget.execute(params![before.as_millis(), most])?;
        Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
    }

    fn breaker_events(&mut self, name: &Label, most: usize) -> Result<Vec<BreakerEntry>> {
        let mut find = self.conn.prepare_cached(&format!(
            "SELECT {BREAKER_ENTRY} FROM breaker_events WHERE name = ?1 ORDER BY id DESC LIMIT ?2"
        ))?;
        find.query_and_then(params![name.as_str(), most], |row| read_entry(row))?.collect()
    }
}
