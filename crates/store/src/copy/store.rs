//! A store as the source or target of a copy, of either kind.

use std::collections::HashMap;
use std::path::PathBuf;

use redrive_core::time::Timestamp;
use rusqlite::Connection;

use super::cell::{Cells, TableColumn};
use super::progress::TableProgress;
use super::tables::{CopiedTable, TABLES};
use super::{postgres, sqlite};
use crate::postgres::PgPlace;
use crate::sqlite::FolderPlace;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::failpoint;

/// Where a store is.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreAddress {
    Folder(PathBuf),
    /// `postgres://…`
    Database(String),
}

impl std::fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            // The URL may contain a password.
            Self::Database(_) => f.write_str("postgres://…"),
        }
    }
}

/// A store opened for a copy, while no server uses it.
pub(super) enum CopyStore {
    Sqlite(FolderPlace),
    Postgres(PgPlace),
}

impl CopyStore {
    pub(super) async fn open(address: &StoreAddress, create: bool) -> Result<Self> {
        Ok(match address {
            StoreAddress::Folder(folder) => Self::Sqlite(FolderPlace::open(folder, create)?),
            StoreAddress::Database(url) => Self::Postgres(PgPlace::open(url, create).await?),
        })
    }

    /// Identifies the source of a copy; contains no password.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Sqlite(place) => place.name(),
            Self::Postgres(place) => place.name(),
        }
    }

    pub(super) async fn columns(&self, table: &CopiedTable) -> Result<Vec<TableColumn>> {
        match self {
            Self::Sqlite(place) => sqlite::columns(&place.conn, table.name),
            Self::Postgres(place) => postgres::columns(&place.client, table.name).await,
        }
    }

    pub(super) async fn count(&self, table: &CopiedTable) -> Result<u64> {
        match self {
            Self::Sqlite(place) => sqlite::count(&place.conn, table.name),
            Self::Postgres(place) => postgres::count(&place.client, table.name).await,
        }
    }

    pub(super) async fn is_empty(&self) -> Result<bool> {
        for table in TABLES {
            if self.count(table).await? > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next rows after a key, in key order.
    pub(super) async fn read(
        &self,
        table: &CopiedTable,
        columns: &[TableColumn],
        after: Option<&Cells>,
        most: usize,
    ) -> Result<Vec<Cells>> {
        match self {
            Self::Sqlite(place) => sqlite::read(&place.conn, table, columns, after, most),
            Self::Postgres(place) => postgres::read(&place.client, table, columns, after, most).await,
        }
    }

    /// Writes a batch and its progress in one commit.
    pub(super) async fn write(
        &mut self,
        source: &str,
        table: &CopiedTable,
        columns: &[TableColumn],
        rows: &[Cells],
        progress: &TableProgress,
    ) -> Result<()> {
        match self {
            Self::Sqlite(place) => {
                let tx = place.conn.transaction()?;
                sqlite::write(&tx, table, columns, rows)?;
                sqlite::save_progress(&tx, source, table.name, progress)?;
                failpoint::pass("mid_copy");
                tx.commit()?;
            }
            Self::Postgres(place) => {
                let tx = place.client.transaction().await?;
                postgres::write(&tx, table, columns, rows).await?;
                postgres::save_progress(&tx, source, table.name, progress).await?;
                failpoint::pass("mid_copy");
                tx.commit().await?;
            }
        }
        failpoint::pass("mid_copy");
        Ok(())
    }

    /// The progress of an interrupted copy into this store. A new copy needs an empty store.
    pub(super) async fn progress(&self, source: &str) -> Result<HashMap<String, TableProgress>> {
        if !self.is_half_copied().await? && !self.is_empty().await? {
            return Err(Error::Unexpected("the target is not empty: a copy goes into a new store".into()).into());
        }
        match self {
            Self::Sqlite(place) => sqlite::progress(&place.conn, source),
            Self::Postgres(place) => postgres::progress(&place.client, source).await,
        }
    }

    async fn is_half_copied(&self) -> Result<bool> {
        match self {
            Self::Sqlite(place) => is_half_copied(&place.conn),
            Self::Postgres(place) => crate::postgres::is_half_copied(&place.client).await,
        }
    }

    /// Folds PostgreSQL's deltas, so that the copied tables are complete.
    pub(super) async fn settle(&mut self, now: Timestamp) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(place) => postgres::fold_all(&mut place.client, now).await,
        }
    }

    /// The last id of each numbered table, and the last number of the change log.
    pub(super) async fn last_numbers(&self) -> Result<(Vec<(&'static str, i64)>, i64)> {
        match self {
            Self::Sqlite(place) => Ok((sqlite::last_numbers(&place.conn)?, sqlite::last_change(&place.conn)?)),
            Self::Postgres(place) => {
                Ok((postgres::last_numbers(&place.client).await?, postgres::last_change(&place.client).await?))
            }
        }
    }

    pub(super) async fn finish(&mut self, numbers: &[(&'static str, i64)], last_change: i64) -> Result<()> {
        match self {
            Self::Sqlite(place) => sqlite::finish(&mut place.conn, numbers, last_change),
            Self::Postgres(place) => postgres::finish(&mut place.client, numbers, last_change).await,
        }
    }
}

/// A copy into this store is unfinished.
pub(crate) fn is_half_copied(conn: &Connection) -> Result<bool> {
    sqlite::is_half_copied(conn)
}
