//! A column on its way between stores.

/// What a cell holds. Text and bytes are told apart by the column that it goes into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Number(i64),
    Bytes(Vec<u8>),
}

pub(super) type Cells = Vec<Value>;

/// What kind of column it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Text,
    Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
}
