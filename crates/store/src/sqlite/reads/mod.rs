//! SQLite's side of the shared reads: statements run at once, and those in SQLite's own dialect are here.

pub(crate) mod columns;
mod counters;
mod operations;
mod patterns;
pub(crate) mod runs;

use rusqlite::{Connection, Statement};

use crate::shared::reader::{SqlParam, SqlParams, SqlReader, SqlRows};
use crate::sqlite::connection::classify;
use crate::sqlite::reads::columns::OwnedRow;
use redrive_engine::error::{BoxError, Error, PortResult as Result};

impl SqlReader for Connection {
    type Row = OwnedRow;

    /// One writer numbers runs as it receives them.
    const RECEIPT_SKEW_MS: u64 = 0;
    /// `CROSS JOIN` keeps the order: by the tenant's names, so that other tenants' queues cost nothing.
    const QUEUES_OF_TENANT: &'static str = "SELECT id FROM queues WHERE declared = 1
         UNION SELECT id FROM queues WHERE name = 'default'
         UNION SELECT queues.id FROM tenant_names CROSS JOIN queues ON queues.name = tenant_names.name
             WHERE tenant_names.tenant = $1 AND tenant_names.kind = 0
         ORDER BY 1";

    async fn rows(&self, sql: &str, values: &[SqlParam]) -> Result<SqlRows<OwnedRow>> {
        let mut statement = self.prepare_cached(sql)?;
        for (at, value) in (1..).zip(values) {
            bind(&mut statement, at, value)?;
        }
        let mut found = Vec::new();
        collect(&mut statement, &mut found)?;
        Ok(SqlRows(found))
    }

    async fn rows_any(&self, sql: &str, values: &[SqlParam]) -> Result<SqlRows<OwnedRow>> {
        let mut found = Vec::new();
        let Some((list, rest)) = values.split_first() else { return Ok(SqlRows(found)) };
        let mut statement = self.prepare_cached(&sql.replace("= ANY($1)", "= $1"))?;
        for (at, value) in (2..).zip(rest) {
            bind(&mut statement, at, value)?;
        }
        for value in elements(list) {
            bind(&mut statement, 1, &value)?;
            collect(&mut statement, &mut found)?;
        }
        Ok(SqlRows(found))
    }

    fn index_hint(index: &str) -> String {
        format!("INDEXED BY {index}")
    }

    fn one_of(column: &str, list: SqlParam, params: &mut SqlParams) -> String {
        let placeholders: Vec<String> = elements(&list).into_iter().map(|value| params.add(value)).collect();
        format!("{column} IN ({})", placeholders.join(", "))
    }

    fn in_subquery(column: &str, subquery: &str) -> String {
        format!("{column} IN ({subquery})")
    }

    fn classify(error: BoxError) -> Error {
        classify(error)
    }
}

/// SQLite numbers named parameters in the order in which they appear, so `$n` is bound by name. A statement may leave
/// out a parameter that another dialect needs.
fn bind(statement: &mut Statement<'_>, at: usize, value: &SqlParam) -> Result<()> {
    let Some(index) = statement.parameter_index(&format!("${at}"))? else { return Ok(()) };
    match value {
        SqlParam::Number(n) => statement.raw_bind_parameter(index, n)?,
        SqlParam::Text(text) => statement.raw_bind_parameter(index, text)?,
        SqlParam::Bytes(bytes) => statement.raw_bind_parameter(index, bytes)?,
        SqlParam::Numbers(_) | SqlParam::Texts(_) | SqlParam::Labels(_) => {
            return Err(Error::Unexpected("a list as one value".into()).into());
        }
    }
    Ok(())
}

fn collect(statement: &mut Statement<'_>, found: &mut Vec<OwnedRow>) -> Result<()> {
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        found.push(OwnedRow((0..columns).map(|at| row.get(at)).collect::<rusqlite::Result<_>>()?));
    }
    Ok(())
}

fn elements(list: &SqlParam) -> Vec<SqlParam> {
    match list {
        SqlParam::Numbers(list) => list.iter().map(|n| SqlParam::Number(Some(*n))).collect(),
        SqlParam::Texts(list) | SqlParam::Labels(list) => list.iter().cloned().map(SqlParam::Text).collect(),
        SqlParam::Number(_) | SqlParam::Text(_) | SqlParam::Bytes(_) => vec![list.clone()],
    }
}
