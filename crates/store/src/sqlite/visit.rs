//! Access to a store without or beside its server, for `keys` and `doctor`. Never creates or migrates a store.

use std::path::Path;
use std::sync::Arc;

use redrive_core::time::Timestamp;
use redrive_core::wire::HealthAnswer;

use crate::shared::check::{Miscounted, closed_states};
use crate::shared::reader::ready;
use crate::shared::{figures, keys, queues};
use crate::sqlite::connection;
use crate::sqlite::connection::folder;
use crate::sqlite::rows::keys::{insert_key, revoke_key};
use crate::sqlite::schema;
use redrive_engine::clock::Clock;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{KeyRecord, TenantScope};

/// Complaints that a check lists at most.
const COMPLAINTS_MAX: u32 = 20;

pub struct Visit {
    conn: rusqlite::Connection,
    clock: Arc<dyn Clock>,
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
        let conn = connection::open_writer(&folder::visit(folder)?, false)?;
        schema::require_current(&conn)?;
        Ok(Self { conn, clock })
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn keys(&self) -> Result<Vec<KeyRecord>> {
        ready(keys::list_keys(&self.conn))
    }

    pub fn put_key(&self, key: &KeyRecord) -> Result<()> {
        insert_key(&self.conn, key)
    }

    pub fn revoke_key(&self, id: &str) -> Result<bool> {
        revoke_key(&self.conn, id, self.clock.now())
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
        ready(figures::health(&self.conn, &TenantScope::All, self.now()))
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
