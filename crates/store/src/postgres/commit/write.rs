//! A statement of a batch as data, until its line sends it.

use tokio_postgres::types::ToSql;

use crate::postgres::commit::array::Column;
use crate::postgres::connection::Session;

/// A statement of a batch, with the values that it writes.
pub(crate) struct Write {
    sql: &'static str,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Write {
    pub(crate) fn of(sql: &'static str) -> Self {
        Self { sql, values: Vec::new() }
    }

    #[cfg(test)]
    pub(crate) fn sql(&self) -> &'static str {
        self.sql
    }

    /// One column for each of the statement's first values.
    pub(crate) fn columns<const N: usize>(sql: &'static str, columns: [Column; N]) -> Self {
        columns.into_iter().fold(Self::of(sql), Self::with)
    }

    pub(crate) fn with(mut self, value: impl ToSql + Sync + Send + 'static) -> Self {
        self.values.push(Box::new(value));
        self
    }

    /// It is prepared: otherwise what is sent after it would overtake it.
    pub(crate) async fn execute(&self, session: &Session) -> std::result::Result<(), tokio_postgres::Error> {
        debug_assert!(session.statements.knows(self.sql), "others would overtake it: {}", self.sql);
        let statement = session.statements.prepared(&session.client, self.sql).await?;
        let values: Vec<&(dyn ToSql + Sync)> =
            self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        session.client.execute(&statement, &values).await.map(drop)
    }
}
