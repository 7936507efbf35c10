//! SQLite's rows as the shared readers of columns see them.

use rusqlite::Row;

pub(crate) use crate::shared::columns::*;

use redrive_engine::error::PortResult as Result;

impl Columns for Row<'_> {
    fn number_or_none(&self, at: usize) -> Result<Option<i64>> {
        Ok(self.get(at)?)
    }

    fn bytes_or_none(&self, at: usize) -> Result<Option<&[u8]>> {
        Ok(self.get_ref(at)?.as_bytes_or_null().map_err(rusqlite::Error::from)?)
    }
}
