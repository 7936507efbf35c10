//! Access to a store without or beside its servers, for `keys`, `doctor` and `store check`. Never creates or migrates
//! a store.

use redrive_core::time::Timestamp;
use redrive_core::wire::{HealthAnswer, Role};

use crate::postgres::commit::writer_connection::WriterConnection;
use crate::postgres::connection::address::Address;
use crate::postgres::connection::clock;
use crate::postgres::reads::columns::{Columns as _, number, owned};
use crate::postgres::schema;
use crate::shared::check::{Miscounted, closed_states};
use crate::shared::{figures, keys, queues};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{KeyRecord, TenantScope};
use redrive_engine::runs::document::position;

pub struct Visit {
    connection: WriterConnection,
    name: String,
}

/// The settings of a database, as it reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    pub server_version: String,
    pub schema: u32,
    pub fsync: bool,
    pub synchronous_commit: String,
    pub full_page_writes: bool,
    pub autovacuum: bool,
    /// A read-only replica of another database.
    pub follows: bool,
    pub bytes: u64,
    pub connections: u64,
    pub connections_max: u64,
    /// The age of the oldest open transaction, which holds up vacuum.
    pub oldest_transaction_ms: u64,
    /// Deltas that are not folded yet.
    pub unfolded: u64,
    /// Indexes that PostgreSQL marks invalid.
    pub invalid_indexes: Vec<String>,
}

const SETUP: &str = "SELECT current_setting('server_version'), (current_setting('fsync') = 'on')::int::bigint,
     current_setting('synchronous_commit'), (current_setting('full_page_writes') = 'on')::int::bigint,
     (current_setting('autovacuum') = 'on')::int::bigint, pg_is_in_recovery()::int::bigint,
     pg_database_size(current_database()), (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
     current_setting('max_connections')::bigint,
     coalesce((SELECT max(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint FROM pg_stat_activity
         WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'), 0),
     (SELECT count(*) FROM counter_deltas) + (SELECT count(*) FROM hour_deltas) + (SELECT count(*) FROM pattern_deltas)
         + (SELECT count(*) FROM change_deltas) + (SELECT count(*) FROM spend_deltas)";

impl Visit {
    pub fn open(url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let mut connection = WriterConnection::open(&address)?;
        connection.wait_however_long();
        connection.wait(schema::require_current(&connection.session))?;
        connection
            .wait(connection.session.client.batch_execute("SET statement_timeout = 0; SET lock_timeout = 20000"))?;
        Ok(Self { connection, name: address.name() })
    }

    /// The address, without the password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// By the database's clock.
    pub fn now(&mut self) -> Result<Timestamp> {
        let row = self
            .connection
            .row(clock::NOW, &[])?
            .ok_or_else(|| Error::Unexpected("a clock that says nothing".into()))?;
        number(&row, 0).map(Timestamp::from_millis)
    }

    pub fn keys(&mut self) -> Result<Vec<KeyRecord>> {
        self.connection.wait(keys::list_keys(&self.connection.session.snapshot()))
    }

    pub fn put_key(&mut self, key: &KeyRecord) -> Result<()> {
        let sql = "INSERT INTO keys (id, hash, role, tenant, note, created_at, expires_at, revoked_at, lineage)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        self.connection.execute(
            sql,
            &[
                &key.id,
                &key.hash.as_slice(),
                &position(Role::ALL, &key.role),
                &key.tenant.as_ref().map(|tenant| tenant.as_str()),
                &key.note.as_ref().map(|note| note.as_str().as_bytes()),
                &key.created_at.as_millis(),
                &key.expires_at.map(Timestamp::as_millis),
                &key.revoked_at.map(Timestamp::as_millis),
                &key.lineage,
            ],
        )?;
        Ok(())
    }

    /// False if there is no such key. Revoking again keeps the first time.
    pub fn revoke_key(&mut self, id: &str) -> Result<bool> {
        let now = self.now()?.as_millis();
        let sql = "UPDATE keys SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2";
        Ok(self.connection.execute(sql, &[&now, &id])? == 1)
    }

    pub fn setup(&mut self) -> Result<Setup> {
        let schema = self.connection.wait(schema::version(&self.connection.session))?;
        let row =
            self.connection.row(SETUP, &[])?.ok_or_else(|| Error::Unexpected("settings that say nothing".into()))?;
        let flag = |at| number(&row, at).map(|n| n != 0);
        let count = |at| number(&row, at).map(|n| u64::try_from(n).unwrap_or(0));
        let invalid = "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
             WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace ORDER BY 1";
        let invalid_indexes =
            self.connection.query(invalid, &[])?.iter().map(|row| owned(row, 0)).collect::<Result<_>>()?;
        Ok(Setup {
            server_version: owned(&row, 0)?,
            schema,
            fsync: flag(1)?,
            synchronous_commit: owned(&row, 2)?,
            full_page_writes: flag(3)?,
            autovacuum: flag(4)?,
            follows: flag(5)?,
            bytes: count(6)?,
            connections: count(7)?,
            connections_max: count(8)?,
            oldest_transaction_ms: count(9)?,
            unfolded: count(10)?,
            invalid_indexes,
        })
    }

    pub fn queues(&mut self) -> Result<u64> {
        self.connection.wait(queues::count_queues(&self.connection.session.snapshot()))
    }

    pub fn health(&mut self) -> Result<HealthAnswer> {
        let now = self.now()?;
        self.connection.wait(figures::health(&self.connection.session.snapshot(), &TenantScope::All, now))
    }

    /// A server's last stamp.
    pub fn last_stamp(&mut self) -> Result<Option<Timestamp>> {
        let row = self.connection.row("SELECT max(at) FROM stamps", &[])?;
        Ok(row.map(|row| row.number_or_none(0)).transpose()?.flatten().map(Timestamp::from_millis))
    }

    /// Counters that differ from a recount.
    pub fn miscounted(&mut self) -> Result<Miscounted> {
        let counted = "SELECT state, tenant, queue, reason, detail, count(*) AS n FROM runs GROUP BY 1, 2, 3, 4, 5";
        let kept = "SELECT state, tenant, queue, reason, detail, sum(n)::bigint AS n FROM (
                 SELECT state, tenant, queue, reason, detail, n FROM counts
                 UNION ALL SELECT state, tenant, queue, reason, detail, n FROM counter_deltas
             ) both_kinds GROUP BY 1, 2, 3, 4, 5 HAVING sum(n) <> 0";
        let totals = "SELECT state, queue, reason, detail, sum(n)::bigint AS n FROM (
                 SELECT state, queue, reason, detail, n FROM totals
                 UNION ALL SELECT state, queue, reason, detail, n FROM counter_deltas
             ) both_kinds GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0";
        let counted_totals = "SELECT state, queue, reason, detail, count(*) AS n FROM runs GROUP BY 1, 2, 3, 4";
        let off = |a: &str, b: &str| {
            format!("(SELECT count(*) FROM ((({a}) EXCEPT ({b})) UNION ALL (({b}) EXCEPT ({a}))) AS off)")
        };
        let closed = closed_states();
        let sql = format!(
            "SELECT {}, {}, (
                 SELECT count(*) FROM patterns LEFT JOIN (
                     SELECT pattern, sum(open)::bigint AS open FROM pattern_deltas GROUP BY pattern
                 ) new ON new.pattern = patterns.id LEFT JOIN (
                     SELECT pattern, count(*) AS open FROM runs WHERE pattern IS NOT NULL AND state NOT IN ({closed})
                     GROUP BY pattern
                 ) counted ON counted.pattern = patterns.id
                 WHERE patterns.open + coalesce(new.open, 0) <> coalesce(counted.open, 0)
             )",
            off(kept, counted),
            off(totals, counted_totals)
        );
        let row = self.connection.row(&sql, &[])?.ok_or_else(|| Error::Unexpected("a count of nothing".into()))?;
        Miscounted::read(&row)
    }

    /// Rebuilds all counters in one commit, which blocks reports meanwhile.
    pub fn recount(&mut self) -> Result<()> {
        let closed = closed_states();
        let sql = format!(
            "BEGIN; LOCK TABLE runs, counter_deltas, pattern_deltas IN SHARE ROW EXCLUSIVE MODE;
             DELETE FROM counter_deltas; DELETE FROM counts; DELETE FROM totals;
             INSERT INTO counts (state, tenant, queue, reason, detail, n)
                 SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5;
             INSERT INTO totals (state, queue, reason, detail, n)
                 SELECT state, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4;
             UPDATE pattern_deltas SET open = 0 WHERE open <> 0;
             UPDATE patterns SET open = counted.open FROM (
                 SELECT p.id, (SELECT count(*) FROM runs WHERE runs.pattern = p.id AND runs.state NOT IN ({closed})) AS open
                 FROM patterns p
             ) counted WHERE counted.id = patterns.id AND counted.open <> patterns.open;
             COMMIT"
        );
        let done = self.connection.wait(self.connection.session.client.batch_execute(&sql));
        if done.is_err() {
            self.connection.roll_back();
        }
        Ok(done?)
    }
}
