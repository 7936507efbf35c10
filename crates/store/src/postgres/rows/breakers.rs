//! Breakers: any batch reads them, one batch at a time over all replicas changes them.

use crate::numbers::{counted, limit};
use crate::shared::records::{BREAKER_COLUMNS, BREAKER_ENTRY, read_entry, read_into};
use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use redrive_core::breaker::{Breaker, Key, Scope};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::BreakerEntry;
use tokio_postgres::Row;

use crate::postgres::reads::columns::number;
use crate::postgres::rows::PgRows;
use redrive_engine::breakers::{CorruptBreaker, ReadBreakers};
use redrive_engine::codec::encode;
use redrive_engine::error::{BoxError, PortResult as Result};
use redrive_engine::model::Swept;
use redrive_engine::ports::rows::{BreakerRows, PutBreaker};

/// Held until the commit by the batch that changes breakers.
const LOCK: i64 = 0x7265_6472_6976_6511;

/// The last generation, and whether any breaker that spans tenants has a row.
pub(crate) const GENERATION: &str = "SELECT coalesce((SELECT last FROM breaker_generation), 0),
     EXISTS (SELECT 1 FROM breakers WHERE tenant IS NULL)::int::bigint";
static FROM: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {BREAKER_COLUMNS} FROM breakers b LEFT JOIN tenants t ON t.id = b.tenant"));
/// The breakers of a batch: all that are not closed, those of its tenants, and those named.
pub(crate) static CONCERNED: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE b.open = 1 OR b.tenant = ANY($1) OR b.name = ANY($2)", *FROM));
static NAMED: LazyLock<String> = LazyLock::new(|| format!("{} WHERE b.name = ANY($1)", *FROM));
static OF_TENANT: LazyLock<String> = LazyLock::new(|| format!("{} WHERE b.tenant = $1", *FROM));
static IDLE: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE b.open = 0 AND b.moved_at < $1 ORDER BY b.moved_at LIMIT $2", *FROM));
static EVENTS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {BREAKER_ENTRY} FROM breaker_events WHERE name = $1 ORDER BY id DESC LIMIT $2"));

/// Breakers that this replica's cache may hold; beyond this the cache is cleared.
const KNOWN_MAX: usize = 20_000;

/// Breakers that have seen nothing but successes. They have no row, so that a success beside successes locks nothing; a
/// replica remembers them until a failure makes a row.
#[derive(Default)]
pub(crate) struct QuietBreakers {
    all: Mutex<HashMap<Key, Breaker>>,
    /// The last generation when this replica first read it.
    since: OnceLock<u64>,
}

impl QuietBreakers {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Breaker>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attempts of earlier generations say nothing about a breaker that this replica does not know.
    pub(crate) fn since(&self, last: u64) -> u64 {
        *self.since.get_or_init(|| last)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Breaker> {
        self.all().get(key).cloned()
    }

    /// Remembers what a committed batch has seen.
    pub(crate) fn keep(&self, seen: Vec<(Key, Option<Breaker>)>) {
        if seen.is_empty() {
            return;
        }
        let mut all = self.all();
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        for (key, breaker) in seen {
            match breaker {
                Some(breaker) => drop(all.insert(key, breaker)),
                None => drop(all.remove(&key)),
            }
        }
    }
}

/// What a batch has done to breakers.
#[derive(Default)]
pub(crate) struct BreakerWork {
    pub(crate) locked: bool,
    /// Prefetched at the beginning of the batch: generation and breakers.
    pub(crate) read: Option<(Vec<Row>, Vec<Row>)>,
    /// The tenants of the batch, in order: all of their rows were read.
    pub(crate) tenants: Vec<i64>,
    /// How many rows each of them has.
    counts: HashMap<i64, usize>,
    /// Whether any breaker that spans tenants has a row.
    any_shared: bool,
    /// TenantIds that were asked for beside them.
    asked: HashSet<Label>,
    /// For the replica's cache after the commit; None where there is a row now.
    pub(crate) quiet: Vec<(Key, Option<Breaker>)>,
}

impl BreakerWork {
    fn is_read(&self, tenant: i64) -> bool {
        self.tenants.binary_search(&tenant).is_ok()
    }
}

impl PgRows<'_> {
    /// The breakers that span tenants and watch the runs of the batch.
    fn shared_names(&self) -> HashSet<Label> {
        let runs = self.unit.runs.values().map(|run| &run.row);
        let watched: HashSet<_> = runs
            .filter(|row| row.provider.is_some() || row.model.is_some())
            .map(|row| (&row.environment, &row.provider, &row.model))
            .collect();
        let named = |name: &Option<Label>| name.clone().unwrap_or_else(|| Label::from(""));
        let key = |(environment, provider, model): (&Label, &Option<Label>, &Option<Label>)| {
            let scope = Scope::Everywhere { provider: named(provider), model: named(model) };
            Key { environment: environment.clone(), scope }.name()
        };
        watched.into_iter().map(key).collect()
    }
}

fn readable(rows: &[Row]) -> Result<ReadBreakers> {
    let mut read = ReadBreakers::default();
    rows.iter().try_for_each(|row| read_into(&mut read, row))?;
    Ok(read)
}

impl BreakerRows for PgRows<'_> {
    fn breakers(&mut self) -> Result<(ReadBreakers, u64)> {
        let (last, concerned) = match self.breakers.read.take() {
            Some(read) => read,
            None => {
                let shared = self.shared_names();
                self.breakers.asked.extend(shared);
                let names: Vec<&[u8]> = self.breakers.asked.iter().map(|name| name.as_str().as_bytes()).collect();
                let last = self.connection.query(GENERATION, &[])?;
                (last, self.connection.query(&CONCERNED, &[&self.breakers.tenants, &names])?)
            }
        };
        let (last, shared) =
            last.first().map_or(Ok((0, 1)), |row| Ok::<_, BoxError>((number(row, 0)?, number(row, 1)?)))?;
        let concerned = readable(&concerned)?;
        self.breakers.any_shared = shared != 0;
        self.breakers.counts.clear();
        for tenant in concerned.all.iter().filter_map(|(key, _)| self.names.number(key.tenant()?)) {
            *self.breakers.counts.entry(tenant).or_default() += 1;
        }
        Ok((concerned, last.cast_unsigned()))
    }

    fn breakers_named(&mut self, keys: &[Key]) -> Result<ReadBreakers> {
        let mut names = HashSet::new();
        for key in keys {
            let is_read = match key.tenant() {
                Some(tenant) => self.names.number(tenant).is_some_and(|number| self.breakers.is_read(number)),
                None => !self.breakers.any_shared,
            };
            let name = if is_read { continue } else { key.name() };
            if self.breakers.asked.contains(&name) {
                continue;
            }
            if key.tenant().is_none() {
                // The other runs of the batch need theirs too.
                names.extend(self.shared_names());
            }
            names.insert(name);
        }
        names.retain(|name| !self.breakers.asked.contains(name));
        if names.is_empty() {
            return Ok(ReadBreakers::default());
        }
        let bytes: Vec<&[u8]> = names.iter().map(|name| name.as_str().as_bytes()).collect();
        let found = self.ask(&NAMED, &[&bytes])?;
        self.breakers.asked.extend(names);
        readable(&found)
    }

    fn breakers_in(&mut self, tenant: Option<i64>) -> Result<ReadBreakers> {
        let found = match tenant {
            Some(tenant) => self.ask(&OF_TENANT, &[&tenant])?,
            None => self.ask(&FROM, &[])?,
        };
        readable(&found)
    }

    fn breaker_count(&mut self, tenant: i64) -> Result<usize> {
        if self.breakers.is_read(tenant) {
            return Ok(self.breakers.counts.get(&tenant).copied().unwrap_or(0));
        }
        let found = self.ask_one("SELECT count(*) FROM breakers WHERE tenant = $1", &[&tenant])?;
        let count = found.map_or(Ok(0), |row| number(&row, 0))?;
        Ok(counted(count))
    }

    fn idle_breakers(&mut self, since: Timestamp, most: usize) -> Result<ReadBreakers> {
        let most = limit(most);
        readable(&self.ask(&IDLE, &[&since.as_millis(), &most])?)
    }

    fn set_breaker_aside(&mut self, corrupt: &CorruptBreaker, now: Timestamp) -> Result<bool> {
        if self.only_reads() {
            return Ok(false);
        }
        // Another batch may have replaced it.
        let sql = "WITH taken AS (DELETE FROM breakers WHERE name = $3 AND life = $4 RETURNING *)
             INSERT INTO set_aside (at, source, why, body)
             SELECT $1, 'breakers', $2, to_json(taken)::text FROM taken";
        Ok(self.run(sql, &[&now.as_millis(), &corrupt.why.as_str(), &corrupt.name, &corrupt.life])? > 0)
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

    fn put_breaker(&mut self, key: &Key, tenant: Option<i64>, put: &PutBreaker<'_>) -> Result<()> {
        let (provider, model) = match &key.scope {
            Scope::Tenant { .. } => (None, None),
            Scope::Model { provider, model, .. } | Scope::Everywhere { provider, model } => {
                (Some(provider.as_str().as_bytes()), Some(model.as_str().as_bytes()))
            }
        };
        let sql = "INSERT INTO breakers (name, environment, tenant, provider, model, life, open, moved_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (name) DO UPDATE
                 SET life = excluded.life, open = excluded.open, moved_at = excluded.moved_at";
        let name = key.name();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 8] = [
            &name.as_str().as_bytes(),
            &key.environment.as_str().as_bytes(),
            &tenant,
            &provider,
            &model,
            &encode(put.life.as_bytes()),
            &i64::from(put.open),
            &put.now.as_millis(),
        ];
        self.run(sql, &values)?;
        self.breakers.quiet.push((key.clone(), None));
        Ok(())
    }

    fn delete_breaker(&mut self, key: &Key, quiet: &Breaker) -> Result<()> {
        // Without the lock there was no row to read.
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
        let kept = limit(kept);
        self.run(sql, &[&name.as_str().as_bytes(), &kept])?;
        Ok(())
    }

    fn trim_breaker_events(&mut self, before: Timestamp, most: usize) -> Result<Swept> {
        let sql = "DELETE FROM breaker_events WHERE id IN (
             SELECT id FROM (SELECT id, at FROM breaker_events ORDER BY id LIMIT $2) AS oldest WHERE at < $1)";
        let limit = limit(most);
        let gone = counted(self.run(sql, &[&before.as_millis(), &limit])?);
        Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
    }

    fn breaker_events(&mut self, name: &Label, most: usize) -> Result<Vec<BreakerEntry>> {
        let most = limit(most);
        self.ask(&EVENTS, &[&name.as_str().as_bytes(), &most])?.iter().map(read_entry).collect()
    }
}
