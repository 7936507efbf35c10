//! The reasons for people: what each means and what an operator does about it.

use crate::reason::{Category, Reason};

/// One reason of the taxonomy.
#[derive(Debug, Clone)]
pub struct Entry {
    pub reason: Reason,
    pub category: Category,
    pub meaning: &'static str,
    pub example: &'static str,
    /// What an operator does.
    pub action: &'static str,
}

pub fn taxonomy() -> Vec<Entry> {
    Vec::new()
}

pub fn taxonomy_markdown() -> String {
    String::new()
}
