//! How far a copy is, for people and for the next one that goes on with it.

use super::value::{Cells, Value};
use redrive_engine::error::{Error, PortResult as Result};

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

/// How far a table is in the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reached {
    /// The last key that was copied.
    pub(super) key: Option<Cells>,
    pub(super) rows: u64,
}

/// A key as the target keeps it: numbers as they are, text and bytes in hexadecimal behind an x.
pub(super) fn written(key: &Cells) -> String {
    let word = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::Number(n) => n.to_string(),
        Value::Bytes(bytes) => bytes.iter().fold("x".to_owned(), |word, byte| word + &format!("{byte:02x}")),
    };
    key.iter().map(word).collect::<Vec<_>>().join(" ")
}

pub(super) fn read(key: &str) -> Result<Cells> {
    let damaged = || Error::Unexpected(format!("a copy got as far as {key:?}"));
    let byte = |at: usize, hex: &str| hex.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let value = |word: &str| match (word, word.strip_prefix('x')) {
        ("-", _) => Some(Value::Null),
        (_, Some(hex)) => {
            (0..hex.len()).step_by(2).map(|at| byte(at, hex)).collect::<Option<Vec<u8>>>().map(Value::Bytes)
        }
        (number, None) => number.parse().ok().map(Value::Number),
    };
    key.split(' ').map(|word| value(word).ok_or_else(|| damaged().into())).collect()
}

/// For whoever wants to serve a store that a copy has not filled yet.
pub(crate) fn half_copied() -> Error {
    Error::Unexpected("a copy into this store is not finished: run `redrive store copy` again to go on with it".into())
}

pub(super) fn another_source() -> Error {
    Error::Unexpected(
        "a copy from another store into this one was begun: empty this one, or go on with that copy".into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_as_it_was_written() {
        let key = vec![Value::Number(-7), Value::Bytes(b"a b\0".to_vec()), Value::Bytes(Vec::new()), Value::Null];
        assert_eq!(written(&key), "-7 x61206200 x -");
        assert_eq!(read(&written(&key)).unwrap(), key);
        assert!(read("x6").is_err());
    }
}
