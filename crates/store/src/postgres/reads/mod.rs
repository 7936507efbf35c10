//! PostgreSQL's side of the shared reads: a snapshot answers statements, and those in PostgreSQL's own dialect are here.

pub(crate) mod columns;
mod counters;
mod operations;
mod patterns;
mod runs;

use bytes::BytesMut;
use redrive_core::time::MINUTE_MS;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::postgres::connection::failure::classify;
use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::reader::{SqlParam, SqlParams, SqlReader, SqlRows};
use redrive_engine::error::{BoxError, Error, PortResult as Result};

impl SqlReader for Snapshot<'_> {
    type Row = Row;

    /// Several writers number runs at once.
    const RECEIPT_SKEW_MS: u64 = MINUTE_MS;
    const QUEUES_OF_TENANT: &'static str = QUEUES_OF_TENANT;

    async fn rows(&self, sql: &str, values: &[SqlParam]) -> Result<SqlRows<Row>> {
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        Snapshot::rows(self, sql, &values).await.map(SqlRows)
    }

    async fn rows_any(&self, sql: &str, values: &[SqlParam]) -> Result<SqlRows<Row>> {
        if values.first().is_some_and(SqlParam::is_empty_list) {
            return Ok(SqlRows(Vec::new()));
        }
        SqlReader::rows(self, sql, values).await
    }

    fn index_hint(_: &str) -> String {
        String::new()
    }

    fn one_of(column: &str, list: SqlParam, params: &mut SqlParams) -> String {
        format!("{column} = ANY({})", params.add(list))
    }

    fn in_subquery(column: &str, subquery: &str) -> String {
        format!("{column} = ANY(ARRAY({subquery}))")
    }

    fn classify(error: BoxError) -> Error {
        classify(error)
    }
}

/// By the tenant's names, so that other tenants' queues cost nothing.
pub(crate) const QUEUES_OF_TENANT: &str = "SELECT id FROM queues WHERE declared = 1
     UNION SELECT id FROM queues WHERE name = 'default'
     UNION SELECT queues.id FROM tenant_names JOIN queues ON queues.name = tenant_names.name
         WHERE tenant_names.tenant = $1 AND tenant_names.kind = 0
     ORDER BY 1";

impl ToSql for SqlParam {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, BoxError> {
        match self {
            Self::Number(n) => n.to_sql_checked(ty, out),
            Self::Text(text) => text.to_sql_checked(ty, out),
            Self::Bytes(bytes) => bytes.to_sql_checked(ty, out),
            Self::Numbers(list) => list.to_sql_checked(ty, out),
            Self::Texts(list) => list.to_sql_checked(ty, out),
            Self::Labels(list) => list.iter().map(|label| label.as_bytes()).collect::<Vec<_>>().to_sql_checked(ty, out),
        }
    }

    /// Each variant checks its own type.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
