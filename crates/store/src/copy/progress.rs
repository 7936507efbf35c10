//! How far a copy is, for people.

/// After each piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub table: &'static str,
    /// Rows that are in the target, of all tables.
    pub rows: u64,
    /// Rows that the source has, of all tables.
    pub of: u64,
}

/// What a copy came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Each table with its rows, the same in both stores.
    pub tables: Vec<(&'static str, u64)>,
    /// It went on where an earlier one had stopped.
    pub resumed: bool,
}

impl Copied {
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|(_, rows)| rows).sum()
    }
}
