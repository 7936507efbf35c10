//! SQLite's rows, for the shared functions that read columns.

use rusqlite::Row;
use rusqlite::types::{FromSql as _, Value, ValueRef};

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

/// A row that outlives its statement.
pub(crate) struct OwnedRow(pub(crate) Vec<Value>);

impl OwnedRow {
    fn value(&self, at: usize) -> Result<ValueRef<'_>> {
        Ok(self.0.get(at).map(ValueRef::from).ok_or(rusqlite::Error::InvalidColumnIndex(at))?)
    }
}

impl Columns for OwnedRow {
    fn number_or_none(&self, at: usize) -> Result<Option<i64>> {
        Ok(Option::column_result(self.value(at)?).map_err(rusqlite::Error::from)?)
    }

    fn bytes_or_none(&self, at: usize) -> Result<Option<&[u8]>> {
        Ok(self.value(at)?.as_bytes_or_null().map_err(rusqlite::Error::from)?)
    }
}
