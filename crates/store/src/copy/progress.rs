//! The progress of a copy: shown to people, and stored in the target so that an interrupted copy resumes.

use super::cell::{Cell, Cells};
use redrive_engine::error::{Error, PortResult as Result};

/// Reported after each batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub table: &'static str,
    /// Rows in the target, over all tables.
    pub rows: u64,
    /// Rows in the source, over all tables.
    pub of: u64,
}

/// A finished copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Each table with its number of rows, equal in both stores.
    pub tables: Vec<(&'static str, u64)>,
    /// It continued an interrupted copy.
    pub resumed: bool,
}

impl Copied {
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|(_, rows)| rows).sum()
    }
}

/// How much of a table is in the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TableProgress {
    /// The last copied key.
    pub(super) key: Option<Cells>,
    pub(super) rows: u64,
}

/// A key as text: numbers in decimal, text and bytes in hexadecimal after an `x`.
pub(super) fn encode_key(key: &Cells) -> String {
    let word = |value: &Cell| match value {
        Cell::Null => "-".to_owned(),
        Cell::Number(n) => n.to_string(),
        Cell::Bytes(bytes) => bytes.iter().fold("x".to_owned(), |word, byte| word + &format!("{byte:02x}")),
    };
    key.iter().map(word).collect::<Vec<_>>().join(" ")
}

pub(super) fn decode_key(key: &str) -> Result<Cells> {
    let damaged = || Error::Unexpected(format!("a copy stored the unreadable key {key:?}"));
    let byte = |at: usize, hex: &str| hex.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let value = |word: &str| match (word, word.strip_prefix('x')) {
        ("-", _) => Some(Cell::Null),
        (_, Some(hex)) => {
            (0..hex.len()).step_by(2).map(|at| byte(at, hex)).collect::<Option<Vec<u8>>>().map(Cell::Bytes)
        }
        (number, None) => number.parse().ok().map(Cell::Number),
    };
    key.split(' ').map(|word| value(word).ok_or_else(|| damaged().into())).collect()
}

/// The error of a server that starts on an unfinished copy.
pub(crate) fn half_copied() -> Error {
    Error::Unexpected("a copy into this store is not finished: run `redrive store copy` again to resume it".into())
}

pub(super) fn another_source() -> Error {
    Error::Unexpected(
        "an unfinished copy into this store came from another store: resume that copy, or empty this store".into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_encoding() {
        let key = vec![Cell::Number(-7), Cell::Bytes(b"a b\0".to_vec()), Cell::Bytes(Vec::new()), Cell::Null];
        assert_eq!(encode_key(&key), "-7 x61206200 x -");
        assert_eq!(decode_key(&encode_key(&key)).unwrap(), key);
        assert!(decode_key("x6").is_err());
    }
}
