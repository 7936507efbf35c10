//! A connection with the vault that opens its sealed values.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _};

use crate::shared::vault::{key_by_id, read_key};
use redrive_engine::error::PortResult as Result;
use redrive_engine::vault::Vault;

pub(crate) struct Db {
    conn: Connection,
    vault: Arc<Vault>,
}

impl Db {
    pub(crate) fn new(conn: Connection, vault: Arc<Vault>) -> Self {
        Self { conn, vault }
    }

    /// For commands that read no sealed value.
    pub(crate) fn without_vault(conn: Connection) -> Self {
        Self::new(conn, Arc::new(Vault::off()))
    }

    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// Reads the data key that a value needs, unless it is known.
    pub(crate) fn learn_key(&self, stored: &[u8]) -> Result<()> {
        let Some(id) = self.vault.missing_key(stored) else { return Ok(()) };
        let mut find = self.conn.prepare_cached(&key_by_id())?;
        if let Some(key) = find.query_row([id], |row| Ok(read_key(row))).optional()? {
            self.vault.learn(&key?)?;
        }
        Ok(())
    }
}

impl Deref for Db {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.conn
    }
}

impl DerefMut for Db {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.conn
    }
}
