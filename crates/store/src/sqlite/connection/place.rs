//! A store opened exclusively, for copies and checks.

use std::path::Path;

use rusqlite::Connection;

use crate::sqlite::connection;
use crate::sqlite::connection::folder::{self, FolderLock};
use crate::sqlite::schema;
use redrive_engine::error::PortResult as Result;

/// A locked folder and its connection.
pub(crate) struct FolderPlace {
    pub(crate) conn: Connection,
    name: String,
    /// Dropped last: the folder is locked while anything of it is open.
    _held: FolderLock,
}

impl FolderPlace {
    /// `create` makes a missing folder and migrates the schema.
    pub(crate) fn open(folder: &Path, create: bool) -> Result<Self> {
        let path = if create {
            folder::create(folder)?;
            folder::database(folder)
        } else {
            folder::visit(folder)?
        };
        let held = folder::hold(folder)?;
        folder::close_to_others(folder);
        let mut conn = connection::open_writer(&path, create)?;
        if create {
            schema::migrate(&mut conn)?;
        } else {
            schema::require_current(&conn)?;
        }
        // Foreign keys are checked once, at the end.
        conn.pragma_update(None, "foreign_keys", false)?;
        let name = std::fs::canonicalize(&path).unwrap_or(path).display().to_string();
        Ok(Self { conn, name, _held: held })
    }

    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }
}
