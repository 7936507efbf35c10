//! PostgreSQL's rows, for the shared functions that read columns.

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

pub(crate) use crate::shared::columns::*;

use redrive_engine::error::PortResult as Result;

/// Text or bytes, borrowed from the row: both have the same wire format.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(ty: &Type) -> bool {
        [Type::BYTEA, Type::TEXT].contains(ty)
    }
}

impl Columns for Row {
    fn number_or_none(&self, at: usize) -> Result<Option<i64>> {
        Ok(self.try_get(at)?)
    }

    fn bytes_or_none(&self, at: usize) -> Result<Option<&[u8]>> {
        Ok(self.try_get::<_, Option<Raw<'_>>>(at)?.map(|raw| raw.0))
    }
}
