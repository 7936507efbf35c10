//! A connection's prepared statements, and the snapshot that reads are written over.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::postgres::reads::columns::Columns as _;
use crate::shared::vault::{key_by_id, read_key};
use redrive_engine::error::PortResult as Result;
use redrive_engine::vault::{SealedColumn, Vault};

/// Lists build their statement from the filter; beyond this the cache is cleared.
const STATEMENTS_MAX: usize = 256;

/// Statements that a connection has prepared.
#[derive(Default)]
pub(crate) struct Statements(Mutex<Prepared>);

#[derive(Default)]
struct Prepared {
    by_text: HashMap<Arc<str>, Statement>,
    /// Named lists of statements that are all prepared.
    lists: HashSet<&'static str>,
}

impl Statements {
    fn known(&self) -> MutexGuard<'_, Prepared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn prepared(&self, client: &Client, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(known) = self.known().by_text.get(sql) {
            return Ok(known.clone());
        }
        let statement = client.prepare(sql).await?;
        let mut known = self.known();
        if known.by_text.len() >= STATEMENTS_MAX {
            *known = Prepared::default();
        }
        known.by_text.insert(sql.into(), statement.clone());
        Ok(statement)
    }

    pub(crate) fn knows(&self, sql: &str) -> bool {
        self.known().by_text.contains_key(sql)
    }

    /// Prepares statements that are sent without waiting in between: one that had to be prepared first would be overtaken.
    pub(crate) async fn prepare_all(
        &self,
        client: &Client,
        list: &'static str,
        all: impl IntoIterator<Item = &str, IntoIter: Clone>,
    ) -> Result<(), tokio_postgres::Error> {
        if self.known().lists.contains(list) {
            return Ok(());
        }
        let all = all.into_iter();
        // Twice, since the cache may be cleared on the way.
        for sql in all.clone().chain(all) {
            self.prepared(client, sql).await?;
        }
        self.known().lists.insert(list);
        Ok(())
    }
}

/// An open read transaction.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot<'a> {
    client: &'a Client,
    statements: &'a Statements,
    vault: &'a Vault,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(client: &'a Client, statements: &'a Statements, vault: &'a Vault) -> Self {
        Self { client, statements, vault }
    }

    pub(crate) fn vault(&self) -> &'a Vault {
        self.vault
    }

    pub(crate) async fn rows(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let statement = self.statements.prepared(self.client, sql).await?;
        let rows = self.client.query(&statement, values).await?;
        self.learn_keys(&rows).await?;
        Ok(rows)
    }

    /// Reads the data keys that these rows need.
    pub(crate) async fn learn_keys(&self, rows: &[Row]) -> Result<()> {
        if !self.vault.is_on() {
            return Ok(());
        }
        for id in missing_keys(self.vault, rows)? {
            let statement = self.statements.prepared(self.client, &key_by_id()).await?;
            if let Some(row) = self.client.query_opt(&statement, &[&id]).await? {
                self.vault.learn(&read_key(&row)?)?;
            }
        }
        Ok(())
    }
}

/// The keys of sealed columns that the vault does not know.
fn missing_keys(vault: &Vault, rows: &[Row]) -> Result<HashSet<i64>> {
    let Some(first) = rows.first() else { return Ok(HashSet::new()) };
    let is_sealed = |name: &str| SealedColumn::ALL.iter().any(|column| column.place().1 == name);
    let sealed: Vec<usize> =
        (0..first.len()).filter(|at| first.columns().get(*at).is_some_and(|column| is_sealed(column.name()))).collect();
    let mut missing = HashSet::new();
    for row in rows {
        for at in &sealed {
            missing.extend(row.bytes_or_none(*at)?.and_then(|stored| vault.missing_key(stored)));
        }
    }
    Ok(missing)
}
