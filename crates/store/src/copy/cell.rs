//! Rows and columns between the two databases.

/// A value. The target's column decides whether bytes are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Number(i64),
    Bytes(Vec<u8>),
}

/// The values of some columns, in their order.
pub(super) type Cells = Vec<Cell>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Number,
    Text,
    Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableColumn {
    pub(super) name: String,
    pub(super) column_type: ColumnType,
}

/// Column names as a statement lists them.
pub(super) fn names(columns: &[TableColumn]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    names.join(", ")
}

/// The types of a table's key columns.
pub(super) fn key_types(key: &[&str], columns: &[TableColumn]) -> Vec<ColumnType> {
    let type_of = |name: &&str| columns.iter().find(|column| column.name == **name).map(|column| column.column_type);
    key.iter().filter_map(type_of).collect()
}
