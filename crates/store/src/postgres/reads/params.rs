//! Values of a statement that is put together from a filter. A list is one array, so that the statement's text, and with
//! it its plan, is the same however long the list is.

use tokio_postgres::types::ToSql;

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Number(i64),
    Numbers(Vec<i64>),
    Text(String),
    Texts(Vec<String>),
    Bytes(Vec<u8>),
    /// What people and programs sent: bytes, since it may hold NUL.
    BytesList(Vec<Vec<u8>>),
}

impl Value {
    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Number(n) => n,
            Self::Numbers(list) => list,
            Self::Text(text) => text,
            Self::Texts(list) => list,
            Self::Bytes(bytes) => bytes,
            Self::BytesList(list) => list,
        }
    }
}

/// Values in order; whoever adds one gets its place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params(Vec<Value>);

impl Params {
    /// `$n`, of the value added.
    pub(crate) fn add(&mut self, value: Value) -> String {
        self.0.push(value);
        format!("${}", self.0.len())
    }

    pub(crate) fn number(&mut self, n: i64) -> String {
        self.add(Value::Number(n))
    }

    pub(crate) fn numbers(&mut self, list: &[i64]) -> String {
        self.add(Value::Numbers(list.to_vec()))
    }

    pub(crate) fn as_sql(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(Value::as_sql).collect()
    }
}
