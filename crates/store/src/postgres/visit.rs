//! Access to a store without or beside its servers, for `keys`, `secrets`, `doctor` and `store check`. Never creates or migrates
//! a store.

use std::sync::Arc;

use redrive_core::audit::{ChainPoint, ChainedEntry, Tampered, Verified};
use redrive_core::ids::Tenant;
use redrive_core::policy::Policies;
use redrive_core::time::Timestamp;
use redrive_core::wire::HealthAnswer;

use crate::postgres::commit::due_watermarks::DueWatermarks;
use crate::postgres::commit::prefetch::TenantIds;
use crate::postgres::commit::writer_connection::WriterConnection;
use crate::postgres::connection::address::Address;
use crate::postgres::connection::clock;
use crate::postgres::reads::columns::{Columns as _, number, owned};
use crate::postgres::rows::{PgRows, as_values};
use crate::postgres::schema;
use crate::shared::audit as shared_audit;
use crate::shared::check::{Miscounted, closed_states};
use crate::shared::reader::SqlParam;
use crate::shared::secrets::{self, SecretsStatus};
use crate::shared::vault::{SqlWriter, master_of};
use crate::shared::{figures, keys, queues};
use redrive_engine::audit;
use redrive_engine::clock::SystemDice;
use redrive_engine::counters::CounterDeltas;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::freeze::{EPOCHS_RAISED_BY, restored_document};
use redrive_engine::model::{KeyRecord, TenantScope};
use redrive_engine::ports::backend::Unpaced;
use redrive_engine::ports::rows::EngineRows as _;
use redrive_engine::tx::{Tx, TxCache};
use redrive_engine::vault::MasterKey;
use tokio_postgres::Row;

/// A server stamps every second.
const RUNNING_MS: u64 = 10_000;
const RESTORED_BATCH_RUNS: i64 = 1_000;

pub struct Visit {
    connection: WriterConnection,
    name: String,
}

impl SqlWriter for Visit {
    type Row = Row;

    fn query(&mut self, sql: &str, values: &[SqlParam]) -> Result<Vec<Row>> {
        self.connection.query(sql, &as_values(values))
    }

    fn execute(&mut self, sql: &str, values: &[SqlParam]) -> Result<u64> {
        self.connection.execute(sql, &as_values(values))
    }
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

    /// Commits a use case beside the servers' writers, with its acts.
    pub fn commit<T>(&mut self, act: impl FnOnce(&mut Tx<'_>) -> redrive_engine::Result<T>) -> Result<T> {
        let done = self.try_commit(act);
        if done.is_err() {
            self.connection.roll_back();
        }
        done
    }

    fn try_commit<T>(&mut self, act: impl FnOnce(&mut Tx<'_>) -> redrive_engine::Result<T>) -> Result<T> {
        let (names, mut watermarks, mut known) = (TenantIds::default(), DueWatermarks::default(), TxCache::default());
        let policies = Policies::default();
        let mut rows = PgRows::new(&mut self.connection, &names, &mut watermarks, Arc::default());
        let now = Timestamp::from_millis(rows.begin(std::iter::empty())?);
        let mut tx = Tx {
            rows: &mut rows,
            now,
            dice: &SystemDice,
            policies: &policies,
            known: &mut known,
            counters: CounterDeltas::default(),
            audit: Vec::new(),
            pace: &Unpaced,
            wake: false,
        };
        let done = act(&mut tx)?;
        audit::chain(&mut tx)?;
        let Tx { counters, .. } = tx;
        rows.fold(counters, now)?;
        rows.commit()?;
        Ok(done)
    }

    /// Checks the audit log against itself and positions that were kept outside the database; `each` sees every entry.
    pub fn verify_audit(
        &mut self,
        outside: Vec<ChainPoint>,
        each: impl FnMut(&ChainedEntry) -> Result<()>,
    ) -> Result<std::result::Result<Verified, Tampered>> {
        let session = &self.connection.session;
        let verified = self.connection.wait(async {
            session.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            shared_audit::verify(&session.snapshot(), outside, each).await
        });
        self.connection.roll_back();
        verified
    }

    /// None for a store that is not encrypted.
    pub fn master_key_id(&mut self) -> Result<Option<String>> {
        Ok(master_of(self)?.map(|(id, _)| id))
    }

    /// How the store is encrypted; None if it is not.
    pub fn secrets(&mut self) -> Result<Option<SecretsStatus>> {
        secrets::status(self)
    }

    /// Wraps every data key with another master key.
    pub fn rotate_master(&mut self, old: &MasterKey, new: &MasterKey) -> Result<u64> {
        self.transaction(|visit| secrets::rotate_master(visit, old, new))
    }

    /// Gives one tenant, or all, a new data key.
    pub fn rotate_tenants(&mut self, master: &MasterKey, tenant: Option<&Tenant>) -> Result<u64> {
        let now = self.now()?;
        self.transaction(|visit| secrets::rotate_tenants(visit, master, tenant, now))
    }

    /// No replica makes a data key meanwhile.
    fn transaction<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let begin = "BEGIN; LOCK TABLE tenant_keys IN SHARE ROW EXCLUSIVE MODE";
        self.connection.wait(self.connection.session.client.batch_execute(begin))?;
        match act(self) {
            Ok(done) => {
                self.connection.wait(self.connection.session.client.batch_execute("COMMIT"))?;
                Ok(done)
            }
            Err(failed) => {
                self.connection.roll_back();
                Err(failed)
            }
        }
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
        self.connection.wait(figures::health(&self.connection.session.snapshot(), &TenantScope::All, false, now))
    }

    /// A server's last stamp.
    pub fn last_stamp(&mut self) -> Result<Option<Timestamp>> {
        let row = self.connection.row("SELECT max(at) FROM stamps", &[])?;
        Ok(row.map(|row| row.number_or_none(0)).transpose()?.flatten().map(Timestamp::from_millis))
    }

    /// Marks a database that was restored by PostgreSQL's own tools: every epoch is raised, so that no lease from before or after
    /// the backup counts, and the store is frozen. All of it in one transaction. Returns how many runs had been leased.
    pub fn mark_restored(&mut self) -> Result<u64> {
        let now = self.now()?;
        if let Some(last) = self.last_stamp()?.filter(|last| now.since(*last) < RUNNING_MS) {
            let what = format!("a server has used this database at {last}: stop all servers first");
            return Err(Error::Unexpected(what).into());
        }
        self.connection.wait(self.connection.session.client.batch_execute("BEGIN"))?;
        let done = self.raise_epochs(now);
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        self.connection.wait(self.connection.session.client.batch_execute(end))?;
        done
    }

    fn raise_epochs(&mut self, now: Timestamp) -> Result<u64> {
        let (mut raised, mut after) = (0, i64::MIN);
        loop {
            let sql = "SELECT id, life FROM runs WHERE id > $1 ORDER BY id LIMIT $2";
            let runs = self.connection.query(sql, &[&after, &RESTORED_BATCH_RUNS])?;
            let Some(last) = runs.last() else { break };
            after = number(last, 0)?;
            let (mut ids, mut documents) = (Vec::new(), Vec::new());
            for run in &runs {
                // A document that can't be read can't be leased either: the services set it aside.
                if let Ok(Some(document)) = restored_document(&String::from_utf8_lossy(run.get(1))) {
                    ids.push(number(run, 0)?);
                    documents.push(document.into_bytes());
                }
            }
            let update = "UPDATE runs SET life = new.life, lease_request = NULL
                 FROM unnest($1::bigint[], $2::bytea[]) AS new (id, life) WHERE runs.id = new.id";
            raised += self.connection.execute(update, &[&ids, &documents])?;
        }
        // Numbers that were given out after the backup are not given out again.
        let next = "SELECT setval(pg_get_serial_sequence('runs', 'id'), (SELECT coalesce(max(id), 0) FROM runs) + $1)";
        self.connection.row(next, &[&i64::try_from(EPOCHS_RAISED_BY)?])?;
        let freeze = "INSERT INTO store_freeze (id, restored_at, backup_at) VALUES (1, $1, $2)
             ON CONFLICT (id) DO UPDATE SET restored_at = excluded.restored_at, backup_at = excluded.backup_at";
        let last_stamp = self.last_stamp()?.map(Timestamp::as_millis);
        self.connection.execute(freeze, &[&now.as_millis(), &last_stamp])?;
        Ok(raised)
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
