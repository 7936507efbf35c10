//! The two ends of a copy, whatever they are.

use std::collections::HashMap;
use std::path::PathBuf;

use redrive_core::time::Timestamp;
use rusqlite::Connection;

use super::progress::Reached;
use super::tables::{TABLES, Table};
use super::value::{Cells, Column};
use super::{postgres, sqlite};
use crate::postgres::PgPlace;
use crate::sqlite::FolderPlace;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::failpoint;

/// Where a store is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    Folder(PathBuf),
    /// `postgres://…`
    Database(String),
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            // There may be a password in it.
            Self::Database(_) => f.write_str("postgres://…"),
        }
    }
}

/// A store opened for a copy: nobody serves it meanwhile.
pub(super) enum End {
    Sqlite(FolderPlace),
    Postgres(PgPlace),
}

impl End {
    pub(super) async fn open(place: &Place, create: bool) -> Result<Self> {
        Ok(match place {
            Place::Folder(folder) => Self::Sqlite(FolderPlace::open(folder, create)?),
            Place::Database(url) => Self::Postgres(PgPlace::open(url, create).await?),
        })
    }

    /// What a copy from here is known by; without any password.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Sqlite(place) => place.name(),
            Self::Postgres(place) => place.name(),
        }
    }

    pub(super) async fn columns(&self, table: &Table) -> Result<Vec<Column>> {
        match self {
            Self::Sqlite(place) => sqlite::columns(&place.conn, table.name),
            Self::Postgres(place) => postgres::columns(&place.client, table.name).await,
        }
    }

    pub(super) async fn count(&self, table: &Table) -> Result<u64> {
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

    pub(super) async fn read(
        &self,
        table: &Table,
        columns: &[Column],
        after: Option<&Cells>,
        most: usize,
    ) -> Result<Vec<Cells>> {
        match self {
            Self::Sqlite(place) => sqlite::read(&place.conn, table, columns, after, most),
            Self::Postgres(place) => postgres::read(&place.client, table, columns, after, most).await,
        }
    }

    /// A piece and how far that is, in one commit.
    pub(super) async fn write(
        &mut self,
        source: &str,
        table: &Table,
        columns: &[Column],
        rows: &[Cells],
        reached: &Reached,
    ) -> Result<()> {
        match self {
            Self::Sqlite(place) => {
                let tx = place.conn.transaction()?;
                sqlite::write(&tx, table, columns, rows)?;
                sqlite::note(&tx, source, table.name, reached)?;
                failpoint::pass("mid_copy");
                tx.commit()?;
            }
            Self::Postgres(place) => {
                let tx = place.client.transaction().await?;
                postgres::write(&tx, table, columns, rows).await?;
                postgres::note(&tx, source, table.name, reached).await?;
                failpoint::pass("mid_copy");
                tx.commit().await?;
            }
        }
        failpoint::pass("mid_copy");
        Ok(())
    }

    /// How far a copy into here has come. One that was never begun wants an empty store.
    pub(super) async fn reached(&self, source: &str) -> Result<HashMap<String, Reached>> {
        if !self.is_half_copied().await? && !self.is_empty().await? {
            return Err(Error::Unexpected("the target is not empty: a copy goes into a new store".into()).into());
        }
        match self {
            Self::Sqlite(place) => sqlite::reached(&place.conn, source),
            Self::Postgres(place) => postgres::reached(&place.client, source).await,
        }
    }

    async fn is_half_copied(&self) -> Result<bool> {
        match self {
            Self::Sqlite(place) => is_half_copied(&place.conn),
            Self::Postgres(place) => crate::postgres::is_half_copied(&place.client).await,
        }
    }

    /// Before anything is read: what is not where it belongs yet is put there.
    pub(super) async fn settle(&mut self, now: Timestamp) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(place) => postgres::fold_all(&mut place.client, now).await,
        }
    }

    /// The last numbers that were given out, and the last change.
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

/// A copy into this store was begun and not finished.
pub(crate) fn is_half_copied(conn: &Connection) -> Result<bool> {
    sqlite::is_half_copied(conn)
}
