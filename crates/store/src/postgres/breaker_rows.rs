//! Breakers: read by every batch that asks them, moved by one batch at a time over all replicas.

use std::sync::LazyLock;

use redrive_core::breaker::{Breaker, Key, Scope};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::BreakerEntry;
use tokio_postgres::Row;

use super::columns::number;
use super::rows::PgRows;
use crate::codec::encode;
use crate::commands::breakers::{COLUMNS, ENTRY, read_breaker, read_entry};
use crate::commands::rows::BreakerRows;
use crate::error::Result;
use crate::model::Swept;

/// Who moves breakers holds this until its commit.
const LOCK: i64 = 0x7265_6472_6976_6511;

pub(super) const GENERATION: &str = "SELECT last FROM breaker_generation";
pub(super) static ALL: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {COLUMNS} FROM breakers b LEFT JOIN tenants t ON t.id = b.tenant"));
static EVENTS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {ENTRY} FROM breaker_events WHERE name = $1 ORDER BY id DESC LIMIT $2"));

/// What a batch has done to breakers.
#[derive(Default)]
pub(super) struct BreakerSheet {
    pub(super) locked: bool,
    /// As they stood when the batch began.
    pub(super) read: Option<(Vec<Row>, Vec<Row>)>,
    /// For the replica's memory, once it is committed; none where there is a row now.
    pub(super) quiet: Vec<(Key, Option<Breaker>)>,
}

impl BreakerRows for PgRows<'_> {
    fn breakers(&mut self) -> Result<(Vec<(Key, Breaker)>, u64)> {
        let (last, all) = match self.breakers.read.take() {
            Some(read) => read,
            None => (self.ask(GENERATION, &[])?, self.ask(&ALL, &[])?),
        };
        let last = last.first().map_or(Ok(0), |row| number(row, 0))?;
        let all = all.iter().map(read_breaker).collect::<Result<_>>()?;
        Ok((all, last.cast_unsigned()))
    }

    fn lock_breakers(&mut self) -> Result<bool> {
        if self.breakers.locked {
            return Ok(false);
        }
        self.run("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
        (self.breakers.locked, self.breakers.read) = (true, None);
        Ok(true)
    }

    fn put_generation(&mut self, last: u64) -> Result<()> {
        let sql = "INSERT INTO breaker_generation (id, last) VALUES (1, $1)
             ON CONFLICT (id) DO UPDATE SET last = excluded.last";
        self.run(sql, &[&last.cast_signed()])?;
        Ok(())
    }

    fn quiet_breaker(&mut self, key: &Key) -> Result<Option<Breaker>> {
        Ok(self.quiet.get(key))
    }

    fn blank_since(&mut self, last: u64) -> u64 {
        self.quiet.since(last)
    }

    fn put_breaker(&mut self, key: &Key, tenant: Option<i64>, life: &str) -> Result<()> {
        let (provider, model) = match &key.scope {
            Scope::Tenant { .. } => (None, None),
            Scope::Model { provider, model, .. } | Scope::Everywhere { provider, model } => {
                (Some(provider.as_str().as_bytes()), Some(model.as_str().as_bytes()))
            }
        };
        let sql =
            "INSERT INTO breakers (name, environment, tenant, provider, model, life) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (name) DO UPDATE SET life = excluded.life";
        let name = key.name();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] = [
            &name.as_str().as_bytes(),
            &key.environment.as_str().as_bytes(),
            &tenant,
            &provider,
            &model,
            &encode(life.as_bytes()),
        ];
        self.run(sql, &values)?;
        self.breakers.quiet.push((key.clone(), None));
        Ok(())
    }

    fn delete_breaker(&mut self, key: &Key, quiet: &Breaker) -> Result<()> {
        // Without the lock nobody has looked at a row, because there was none.
        if self.breakers.locked {
            self.run("DELETE FROM breakers WHERE name = $1", &[&key.name().as_str().as_bytes()])?;
        }
        self.breakers.quiet.push((key.clone(), Some(quiet.clone())));
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
        let sql = "INSERT INTO breaker_events (name, at, actor, event, note) VALUES ($1, $2, $3, $4, $5)";
        let note = note.map(|note| encode(note.token().as_bytes()));
        self.run(sql, &[&name.as_str().as_bytes(), &now.as_millis(), &actor, &event, &note])?;
        Ok(())
    }

    fn forget_breaker_events(&mut self, name: &Label, kept: usize) -> Result<()> {
        let sql = "DELETE FROM breaker_events WHERE name = $1 AND id <= (
             SELECT id FROM breaker_events WHERE name = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)";
        let kept = i64::try_from(kept).unwrap_or(i64::MAX);
        self.run(sql, &[&name.as_str().as_bytes(), &kept])?;
        Ok(())
    }

    fn trim_breaker_events(&mut self, before: Timestamp, most: usize) -> Result<Swept> {
        let sql = "DELETE FROM breaker_events WHERE id IN (
             SELECT id FROM (SELECT id, at FROM breaker_events ORDER BY id LIMIT $2) AS oldest WHERE at < $1)";
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let gone = usize::try_from(self.run(sql, &[&before.as_millis(), &limit])?).unwrap_or(usize::MAX);
        Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
    }

    fn breaker_events(&mut self, name: &Label, most: usize) -> Result<Vec<BreakerEntry>> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.ask(&EVENTS, &[&name.as_str().as_bytes(), &most])?.iter().map(read_entry).collect()
    }
}
