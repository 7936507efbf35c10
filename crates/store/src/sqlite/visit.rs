//! Access to a store without or beside its server, for `keys`, `secrets` and `doctor`. Never creates or migrates a store.

use std::path::Path;
use std::sync::Arc;

use redrive_core::audit::{ChainPoint, ChainedEntry, Tampered, Verified};
use redrive_core::ids::Tenant;
use redrive_core::policy::Policies;
use redrive_core::time::Timestamp;
use redrive_core::wire::HealthAnswer;
use rusqlite::{Transaction, TransactionBehavior};

use crate::shared::audit as shared_audit;
use crate::shared::check::{Miscounted, closed_states};
use crate::shared::reader::{SqlParam, SqlReader as _, ready};
use crate::shared::secrets::{self, SecretsStatus};
use crate::shared::vault::{SqlWriter, master_of};
use crate::shared::{figures, keys, queues};
use crate::sqlite::connection;
use crate::sqlite::connection::db::Db;
use crate::sqlite::connection::folder;
use crate::sqlite::reads::columns::OwnedRow;
use crate::sqlite::reads::execute;
use crate::sqlite::rows::{SqliteRows, WriterCache};
use crate::sqlite::schema;
use redrive_engine::audit;
use redrive_engine::clock::{Clock, SystemDice};
use redrive_engine::counters::CounterDeltas;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{KeyRecord, TenantScope};
use redrive_engine::ports::backend::Unpaced;
use redrive_engine::ports::rows::EngineRows as _;
use redrive_engine::tx::{Tx, TxCache};
use redrive_engine::vault::MasterKey;

/// Complaints that a check lists at most.
const COMPLAINTS_MAX: u32 = 20;

pub struct Visit {
    conn: Db,
    clock: Arc<dyn Clock>,
}

impl SqlWriter for Visit {
    type Row = OwnedRow;

    fn query(&mut self, sql: &str, values: &[SqlParam]) -> Result<Vec<OwnedRow>> {
        Ok(ready(self.conn.rows(sql, values))?.0)
    }

    fn execute(&mut self, sql: &str, values: &[SqlParam]) -> Result<u64> {
        execute(&self.conn, sql, values)
    }
}

/// The settings of a store, as SQLite reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    pub sqlite_version: &'static str,
    pub schema: u32,
    pub journal_mode: String,
    /// 2 is FULL: a commit is on disk when it is answered.
    pub synchronous: u32,
    pub bytes: u64,
    /// Free pages among them.
    pub free_bytes: u64,
}

impl Visit {
    pub fn open(folder: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        let conn = Db::without_vault(connection::open_writer(&folder::visit(folder)?, false)?);
        schema::require_current(&conn)?;
        Ok(Self { conn, clock })
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn keys(&self) -> Result<Vec<KeyRecord>> {
        ready(keys::list_keys(&self.conn))
    }

    /// Commits a use case beside the server's writer, with its acts.
    pub fn commit<T>(&mut self, act: impl FnOnce(&mut Tx<'_>) -> redrive_engine::Result<T>) -> Result<T> {
        let now = self.clock.now();
        let transaction = Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)?;
        let (mut memory, mut known, policies) = (WriterCache::default(), TxCache::default(), Policies::default());
        let mut rows = SqliteRows::new(&self.conn, &mut memory, now)?;
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
        drop(rows);
        transaction.commit()?;
        Ok(done)
    }

    /// Checks the audit log against itself and positions that were kept outside the database; `each` sees every entry.
    pub fn verify_audit(
        &mut self,
        outside: Vec<ChainPoint>,
        each: impl FnMut(&ChainedEntry) -> Result<()>,
    ) -> Result<std::result::Result<Verified, Tampered>> {
        let _snapshot = self.conn.unchecked_transaction()?;
        ready(shared_audit::verify(&self.conn, outside, each))
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
        let now = self.now();
        self.transaction(|visit| secrets::rotate_tenants(visit, master, tenant, now))
    }

    fn transaction<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.conn.execute_batch("BEGIN IMMEDIATE")?;
        let done = act(self);
        self.conn.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        done
    }

    pub fn setup(&self) -> Result<Setup> {
        let number = |pragma: &str| self.conn.pragma_query_value(None, pragma, |row| row.get::<_, u64>(0));
        let page_bytes = number("page_size")?;
        Ok(Setup {
            sqlite_version: rusqlite::version(),
            schema: schema::version(&self.conn)?,
            journal_mode: self.conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
            synchronous: self.conn.pragma_query_value(None, "synchronous", |row| row.get(0))?,
            bytes: number("page_count")? * page_bytes,
            free_bytes: number("freelist_count")? * page_bytes,
        })
    }

    /// What SQLite finds wrong with the file. `deep` also compares every index with its table.
    pub fn complaints(&self, deep: bool) -> Result<Vec<String>> {
        let pragma = if deep { "integrity_check" } else { "quick_check" };
        let mut check = self.conn.prepare(&format!("PRAGMA {pragma}({COMPLAINTS_MAX})"))?;
        let mut found = Vec::new();
        let mut rows = check.query([])?;
        loop {
            match rows.next() {
                Ok(Some(row)) => found.push(row.get::<_, String>(0)?),
                Ok(None) => break,
                // Damage can end the check itself.
                Err(error) => {
                    found.push(error.to_string());
                    break;
                }
            }
        }
        found.retain(|said| said != "ok");
        if deep && found.is_empty() {
            found.extend(self.nameless()?);
        }
        Ok(found)
    }

    /// The names of runs are tables, which the check does not compare.
    fn nameless(&self) -> Result<Option<String>> {
        let sql = "SELECT count(*) FROM runs WHERE NOT EXISTS
                       (SELECT 1 FROM run_names_new n WHERE n.key_hash = runs.key_hash AND n.run = runs.id)
                   AND NOT EXISTS (SELECT 1 FROM run_names n WHERE n.key_hash = runs.key_hash AND n.run = runs.id)";
        let nameless: i64 = self.conn.query_row(sql, [], |row| row.get(0))?;
        Ok((nameless > 0).then(|| format!("runs that can't be found by their names: {nameless}")))
    }

    pub fn queues(&self) -> Result<u64> {
        ready(queues::count_queues(&self.conn))
    }

    pub fn health(&self) -> Result<HealthAnswer> {
        ready(figures::health(&self.conn, &TenantScope::All, false, self.now()))
    }

    /// A server's last stamp.
    pub fn last_stamp(&self) -> Result<Option<Timestamp>> {
        let at: Option<i64> = self.conn.query_row("SELECT max(at) FROM stamps", [], |row| row.get(0))?;
        Ok(at.map(Timestamp::from_millis))
    }

    /// Counters that differ from a recount.
    pub fn miscounted(&self) -> Result<Miscounted> {
        let counted = "SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5";
        let totals = "SELECT state, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4";
        let off = |table: &str, columns: &str, counted: &str| {
            let kept = format!("SELECT {columns}, n FROM {table} WHERE n <> 0");
            format!(
                "(SELECT count(*) FROM (SELECT * FROM ({kept} EXCEPT {counted}) UNION ALL
                     SELECT * FROM ({counted} EXCEPT {kept})))"
            )
        };
        let sql = format!(
            "SELECT {}, {}, (SELECT count(*) FROM patterns p WHERE p.open <>
                 (SELECT count(*) FROM runs WHERE runs.pattern = p.id AND runs.state NOT IN ({})))",
            off("counts", "state, tenant, queue, reason, detail", counted),
            off("totals", "state, queue, reason, detail", totals),
            closed_states()
        );
        self.conn.query_row(&sql, [], |row| Ok(Miscounted::read(row)))?
    }

    /// Rebuilds all counters in one commit.
    pub fn recount(&self) -> Result<()> {
        let closed = closed_states();
        let done = self.conn.execute_batch(&format!(
            "BEGIN IMMEDIATE; DELETE FROM counts; DELETE FROM totals;
             INSERT INTO counts (state, tenant, queue, reason, detail, n)
                 SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5;
             INSERT INTO totals (state, queue, reason, detail, n)
                 SELECT state, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4;
             UPDATE patterns SET open =
                 (SELECT count(*) FROM runs WHERE runs.pattern = patterns.id AND runs.state NOT IN ({closed}));
             COMMIT"
        ));
        if done.is_err() {
            self.conn.execute_batch("ROLLBACK")?;
        }
        Ok(done?)
    }
}
