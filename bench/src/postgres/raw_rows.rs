//! Rows of any table as their bytes travel, one by one or as the arrays of an `UNNEST`, and how raw transactions are
//! committed: prepared, and on no way to the database is an answer waited for but on the last.

use anyhow::Result;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type};
use tokio_postgres::{Client, Statement};

use crate::claims::join_all;

type Failed = Box<dyn std::error::Error + Sync + Send>;
type Bytes = Option<Vec<u8>>;

/// A statement and its values.
pub type Bound<'a> = (&'a Statement, &'a [&'a (dyn ToSql + Sync)]);

/// One transaction; how many rows each statement touched.
pub async fn commit(client: &Client, statements: &[Bound<'_>]) -> Result<Vec<u64>, tokio_postgres::Error> {
    let done = tokio::join!(biased; client.batch_execute("BEGIN"), send_and_commit(client, statements));
    done.0?;
    done.1
}

/// The rest of one that has begun.
pub async fn send_and_commit(client: &Client, statements: &[Bound<'_>]) -> Result<Vec<u64>, tokio_postgres::Error> {
    let sent = statements.iter().map(|(statement, values)| client.execute(*statement, values)).collect();
    let done = tokio::join!(biased; join_all(sent), client.batch_execute("COMMIT"));
    let touched = done.0.into_iter().collect::<Result<_, _>>()?;
    done.1.map(|()| touched)
}

/// One value.
#[derive(Debug, Clone)]
pub struct Raw(pub Bytes);

impl Raw {
    /// Of a column of numbers.
    pub fn number(&self) -> i64 {
        let bytes = self.0.as_deref().and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, i64::from_be_bytes)
    }
}

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failed> {
        Ok(Self(Some(raw.to_vec())))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Failed> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        let Some(bytes) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// One column of many rows.
#[derive(Debug)]
pub struct Column(pub Vec<Bytes>);

impl ToSql for Column {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        let Kind::Array(element) = ty.kind() else { return Err("not an array".into()) };
        let nulls = u32::from(self.0.iter().any(Option::is_none));
        // Dimensions, whether there are nulls, of what; then the one dimension's length and first place.
        for head in [1, nulls, element.oid(), u32::try_from(self.0.len())?, 1] {
            out.extend_from_slice(&head.to_be_bytes());
        }
        for value in &self.0 {
            let length = value.as_ref().map_or(Ok(-1), |bytes| i32::try_from(bytes.len()))?;
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}
