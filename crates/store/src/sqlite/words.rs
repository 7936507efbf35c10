//! What somebody types into the search: the beginning of a name, or words of the failure's template.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::predicate::Clause;
use crate::error::Result;

#[derive(Debug, Clone)]
pub(super) struct Words {
    prefix: String,
    /// In lower case; all must be in the template.
    words: Vec<String>,
}

impl Words {
    /// None when nothing was typed.
    pub(super) fn of(q: &str) -> Option<Self> {
        let words: Vec<String> = q.split_whitespace().map(str::to_lowercase).collect();
        (!words.is_empty()).then(|| Self { prefix: q.to_owned(), words })
    }

    /// The run's own names begin with it.
    pub(super) fn names_begin(&self) -> Clause {
        let chars = i64::try_from(self.prefix.chars().count()).unwrap_or(i64::MAX);
        let begins = |column: &str| format!("substr({column}, 1, ?) = ?");
        let sql = ["run_id", "idempotency_key", "customer"].map(begins).join(" OR ");
        let pair = [Value::from(chars), Value::from(self.prefix.clone())];
        Clause { sql, values: [pair.clone(), pair.clone(), pair].concat() }
    }

    fn are_in(&self, template: &str) -> bool {
        let template = template.to_lowercase();
        self.words.iter().all(|word| template.contains(word))
    }
}

/// Which patterns have the words: each is read once a call.
#[derive(Debug, Default)]
pub(super) struct Templates(HashMap<i64, bool>);

impl Templates {
    pub(super) fn have(&mut self, conn: &Connection, words: &Words, pattern: i64) -> Result<bool> {
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
