//! Differences between two JSON texts as a bounded list by JSON Pointer. API, terminal and browser all show this one.

use std::borrow::Cow;
use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::{At, JsonKind, Tape, escape_pointer};
use crate::words::words;

/// The most differences that are listed.
pub const DIFF_MAX_OPERATIONS: usize = 500;
/// A longer value is cut.
const VALUE_MAX_BYTES: usize = 400;

words! {
    pub enum DiffOp {
        Add = "add",
        Remove = "remove",
        Replace = "replace",
    }
}

/// One difference. Pointers of what was there before count as before, those of what is new as now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffOperation {
    pub op: DiffOp,
    /// RFC 6901.
    pub path: String,
    /// The value as it was, as JSON text, cut where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The value as it is, as JSON text, cut where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// How long the values are in all, where one was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_bytes: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_bytes: Option<usize>,
}

/// One place that differs, with the values as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference<'a> {
    /// JSON Pointer; empty for the whole text.
    pub path: String,
    pub before: Option<&'a str>,
    pub after: Option<&'a str>,
}

/// The differences, and whether there are more than are listed.
pub fn diff(old: &Tape<'_>, new: &Tape<'_>) -> (Vec<DiffOperation>, bool) {
    let (found, more) = compare(old, new, DIFF_MAX_OPERATIONS);
    (found.into_iter().map(DiffOperation::from).collect(), more)
}

/// The first `max` differences. A text that can't be indexed differs as a whole.
pub fn differences<'a>(before: &'a str, after: &'a str, max: usize) -> Vec<Difference<'a>> {
    match (Tape::of(before), Tape::of(after)) {
        (Some(old), Some(new)) => compare(&old, &new, max).0,
        (Some(_) | None, _) if before == after => Vec::new(),
        (Some(_) | None, _) => vec![Difference { path: String::new(), before: Some(before), after: Some(after) }],
    }
}

fn compare<'a>(old: &Tape<'a>, new: &Tape<'a>, max: usize) -> (Vec<Difference<'a>>, bool) {
    let mut comparison = Differ { old, new, max, found: Vec::new(), more: false };
    comparison.values(String::new(), old.root(), new.root());
    (comparison.found, comparison.more)
}

impl From<Difference<'_>> for DiffOperation {
    fn from(difference: Difference<'_>) -> Self {
        let Difference { path, before, after } = difference;
        let op = match (before, after) {
            (None, _) => DiffOp::Add,
            (Some(_), None) => DiffOp::Remove,
            (Some(_), Some(_)) => DiffOp::Replace,
        };
        let ((old, old_bytes), (new, new_bytes)) = (shown(before), shown(after));
        Self { op, path, old, new, old_bytes, new_bytes }
    }
}

struct Differ<'t, 'a> {
    old: &'t Tape<'a>,
    new: &'t Tape<'a>,
    max: usize,
    found: Vec<Difference<'a>>,
    more: bool,
}

impl Differ<'_, '_> {
    fn values(&mut self, path: String, old: At, new: At) {
        if self.more || self.old.raw(old) == self.new.raw(new) {
            return;
        }
        match (self.old.kind(old), self.new.kind(new)) {
            (JsonKind::Object, JsonKind::Object) => self.objects(&path, old, new),
            (JsonKind::Array, JsonKind::Array) => self.arrays(&path, old, new),
            _ => self.note(path, Some(old), Some(new)),
        }
    }

    fn objects(&mut self, path: &str, old: At, new: At) {
        let olds = by_name(self.old, old);
        let news = by_name(self.new, new);
        for (key, _) in self.old.members(old) {
            let name = self.old.string(key).unwrap_or_default();
            let below = format!("{path}/{}", escape_pointer(&name));
            match (olds.get(&name), news.get(&name)) {
                (Some(was), Some(is)) => self.values(below, *was, *is),
                (was, _) => self.note(below, was.copied(), None),
            }
        }
        for (key, value) in self.new.members(new) {
            let name = self.new.string(key).unwrap_or_default();
            if !olds.contains_key(&name) {
                self.note(format!("{path}/{}", escape_pointer(&name)), None, Some(value));
            }
        }
    }

    /// Equal items at both ends are skipped. Between them, items are compared one by one if their number is the same;
    /// otherwise the old ones are removed and the new ones added.
    fn arrays(&mut self, path: &str, old: At, new: At) {
        let olds: Vec<At> = self.old.items(old).collect();
        let news: Vec<At> = self.new.items(new).collect();
        let same = |o: &At, n: &At| self.old.raw(*o) == self.new.raw(*n);
        let head = olds.iter().zip(&news).take_while(|(o, n)| same(o, n)).count();
        let tail = olds[head..].iter().rev().zip(news[head..].iter().rev()).take_while(|(o, n)| same(o, n)).count();
        let (middle_old, middle_new) = (head..olds.len() - tail, head..news.len() - tail);
        if middle_old.len() == middle_new.len() {
            for (o, n) in middle_old.zip(middle_new) {
                self.values(format!("{path}/{n}"), olds[o], news[n]);
            }
            return;
        }
        for o in middle_old {
            self.note(format!("{path}/{o}"), Some(olds[o]), None);
        }
        for n in middle_new {
            self.note(format!("{path}/{n}"), None, Some(news[n]));
        }
    }

    fn note(&mut self, path: String, old: Option<At>, new: Option<At>) {
        if self.found.len() >= self.max {
            self.more = true;
            return;
        }
        let (before, after) = (old.map(|at| self.old.raw(at)), new.map(|at| self.new.raw(at)));
        self.found.push(Difference { path, before, after });
    }
}

/// An object's members by name; of several with one name, the last.
fn by_name<'a>(tape: &Tape<'a>, object: At) -> HashMap<Cow<'a, str>, At> {
    tape.members(object).map(|(key, value)| (tape.string(key).unwrap_or_default(), value)).collect()
}

fn shown(raw: Option<&str>) -> (Option<String>, Option<usize>) {
    let Some(raw) = raw else { return (None, None) };
    if raw.len() <= VALUE_MAX_BYTES {
        return (Some(raw.to_owned()), None);
    }
    let cut = raw.floor_char_boundary(VALUE_MAX_BYTES);
    (Some(format!("{}…", &raw[..cut])), Some(raw.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> Vec<String> {
        let (found, _) = diff(&Tape::of(old).unwrap(), &Tape::of(new).unwrap());
        found
            .iter()
            .map(|o| {
                format!("{} {} {} {}", o.op, o.path, o.old.as_deref().unwrap_or("-"), o.new.as_deref().unwrap_or("-"))
            })
            .collect()
    }

    #[test]
    fn equal_values_are_left_out() {
        assert_eq!(shown(r#"{"a": [1,2], "b": 1.0}"#, r#"{"a": [1,2], "b": 1.0}"#), Vec::<String>::new());
        assert_eq!(
            shown(r#"{"a":1,"b":{"c/d":2},"e":3}"#, r#"{"a":1,"b":{"c/d":5},"f":4}"#),
            ["replace /b/c~1d 2 5", "remove /e 3 -", "add /f - 4"]
        );
    }

    #[test]
    fn removed_items_keep_their_old_index() {
        assert_eq!(shown("[0,1,2,3,4]", "[0,3,4]"), ["remove /1 1 -", "remove /2 2 -"]);
        assert_eq!(shown("[0,1]", "[0,1,2]"), ["add /2 - 2"]);
        assert_eq!(shown(r#"[{"a":1},2]"#, r#"[{"a":9},2]"#), ["replace /0/a 1 9"]);
    }

    #[test]
    fn long_values_and_lists_are_cut() {
        let long = format!("[\"{}\"]", "é".repeat(1_000));
        let (found, _) = diff(&Tape::of("[]").unwrap(), &Tape::of(&long).unwrap());
        assert_eq!(found[0].new_bytes, Some(2_002));
        assert!(found[0].new.as_ref().unwrap().len() < 410);
        let many = format!("[{}0]", "1,".repeat(600));
        let (found, more) = diff(&Tape::of("[]").unwrap(), &Tape::of(&many).unwrap());
        assert_eq!((found.len(), more), (DIFF_MAX_OPERATIONS, true));
    }
}
