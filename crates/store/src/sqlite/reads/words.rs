//! What somebody types into the search: the beginning of a name, or words of the failure's template.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

pub(crate) use crate::shared::words::Words;

use crate::sqlite::reads::predicate::Clause;
use redrive_engine::error::PortResult as Result;

/// The run's own names begin with it.
pub(crate) fn names_begin(words: &Words) -> Clause {
    let chars = i64::try_from(words.prefix.chars().count()).unwrap_or(i64::MAX);
    let begins = |column: &str| format!("substr({column}, 1, ?) = ?");
    let sql = ["run_id", "idempotency_key", "customer"].map(begins).join(" OR ");
    let pair = [Value::from(chars), Value::from(words.prefix.clone())];
    Clause { sql, values: [pair.clone(), pair.clone(), pair].concat() }
}

/// Which patterns have the words: each is read once a call.
#[derive(Debug, Default)]
pub(crate) struct Templates(HashMap<i64, bool>);

impl Templates {
    pub(crate) fn have(&mut self, conn: &Connection, words: &Words, pattern: i64) -> Result<bool> {
        if let Some(known) = self.0.get(&pattern) {
            return Ok(*known);
        }
        let mut find = conn.prepare_cached("SELECT template FROM patterns WHERE id = ?")?;
        let template: Option<String> = find.query_row([pattern], |row| row.get(0)).optional()?;
        let has = template.is_some_and(|template| words.are_in(&template));
        self.0.insert(pattern, has);
        Ok(has)
    }
}
