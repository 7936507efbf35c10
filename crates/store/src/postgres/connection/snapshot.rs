//! A connection's prepared statements, and the snapshot that reads are written over.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use redrive_engine::error::PortResult as Result;

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
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(client: &'a Client, statements: &'a Statements) -> Self {
        Self { client, statements }
    }

    pub(crate) async fn rows(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let statement = self.statements.prepared(self.client, sql).await?;
        Ok(self.client.query(&statement, values).await?)
    }
}
