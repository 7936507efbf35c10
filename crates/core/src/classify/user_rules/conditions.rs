//! Conditions of a user rule: on a field, on the HTTP status, on the payload.

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use serde::Deserialize;
use serde_json::Value;

use super::glob;
use crate::classify::text;

/// A longer pattern is refused.
pub(super) const MOST_PATTERN_BYTES: usize = 2_000;
/// Limits on nesting and compiled size bound what an expression costs to run.
const MOST_NESTING: u32 = 40;
const MOST_COMPILED_BYTES: usize = 256 * 1024;
/// How much of a field is searched; expressions are linear, so this bounds the time.
const SEARCHED_BYTES: usize = 64 * 1024;

/// A condition on one field.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a string, or one of { glob = … }, { regex = … }, { contains = … }")]
pub enum FieldMatch {
    Exact(String),
    Glob { glob: String },
    Regex { regex: String },
    Contains { contains: String },
}

/// A condition on the HTTP status.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a status, or { from = …, to = … }")]
pub enum StatusMatch {
    One(u16),
    Range { from: u16, to: u16 },
}

impl StatusMatch {
    pub(super) fn holds(self, status: Option<u16>) -> bool {
        let Some(status) = status else { return false };
        match self {
            Self::One(one) => status == one,
            Self::Range { from, to } => (from..=to).contains(&status),
        }
    }
}

/// What is known of the run besides the error.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunFacts<'a> {
    pub tenant: &'a str,
    pub queue: &'a str,
    pub agent: Option<&'a str>,
    pub model: Option<&'a str>,
    pub tool: Option<&'a str>,
    pub step: Option<&'a str>,
    pub environment: Option<&'a str>,
    pub task_type: Option<&'a str>,
    pub customer: Option<&'a str>,
}

/// A compiled condition.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Exact(String),
    Glob(String),
    Contains(String),
    Regex(Box<Regex>),
}

impl Test {
    pub(super) fn new(field: &str, condition: FieldMatch) -> Result<Self, String> {
        let (FieldMatch::Exact(pattern)
        | FieldMatch::Glob { glob: pattern }
        | FieldMatch::Regex { regex: pattern }
        | FieldMatch::Contains { contains: pattern }) = &condition;
        if pattern.len() > MOST_PATTERN_BYTES {
            return Err(format!("`{field}`: longer than {MOST_PATTERN_BYTES} bytes"));
        }
        match condition {
            FieldMatch::Exact(exact) => Ok(Self::Exact(exact)),
            FieldMatch::Glob { glob } => Ok(Self::Glob(glob)),
            FieldMatch::Contains { contains } => Ok(Self::Contains(contains)),
            FieldMatch::Regex { regex } => expression(field, &regex).map(|regex| Self::Regex(Box::new(regex))),
        }
    }

    pub(super) fn holds(&self, value: Option<&str>) -> bool {
        let Some(value) = value.map(|v| text::head(v, SEARCHED_BYTES)) else { return false };
        match self {
            Self::Exact(exact) => value == exact,
            Self::Glob(pattern) => glob::matches(pattern, value),
            Self::Contains(part) => value.contains(part.as_str()),
            Self::Regex(regex) => regex.is_match(value),
        }
    }
}

fn expression(field: &str, pattern: &str) -> Result<Regex, String> {
    let limits =
        Regex::config().nfa_size_limit(Some(MOST_COMPILED_BYTES)).onepass_size_limit(Some(MOST_COMPILED_BYTES));
    let nesting = syntax::Config::new().nest_limit(MOST_NESTING);
    Regex::builder().configure(limits).syntax(nesting).build(pattern).map_err(|error| format!("`{field}`: {error}"))
}

/// `{ pointer = "/amount", op = "gt", value = 1000 }`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PayloadMatch {
    /// RFC 6901; empty is the whole payload.
    pub pointer: String,
    #[serde(default)]
    pub op: Comparison,
    /// The value to compare with; unused with `exists`.
    #[serde(default)]
    pub value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    #[default]
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Exists,
}

impl PayloadMatch {
    const MOST_POINTER_BYTES: usize = 500;

    pub(super) fn check(&self) -> Result<(), String> {
        let Self { pointer, op, value } = self;
        if !(pointer.is_empty() || pointer.starts_with('/')) || pointer.len() > Self::MOST_POINTER_BYTES {
            return Err(format!("`{pointer}` is no JSON pointer: it begins with `/` and has at most 500 bytes"));
        }
        match op {
            Comparison::Lt | Comparison::Le | Comparison::Gt | Comparison::Ge if !value.is_number() => {
                Err(format!("`{pointer}`: only numbers are compared, and the value is none"))
            }
            Comparison::Eq
            | Comparison::Ne
            | Comparison::Lt
            | Comparison::Le
            | Comparison::Gt
            | Comparison::Ge
            | Comparison::Exists => Ok(()),
        }
    }

    pub(super) fn holds(&self, payload: Option<&Value>) -> bool {
        let Some(found) = payload.and_then(|p| p.pointer(&self.pointer)) else { return false };
        let numbers = || Some((found.as_f64()?, self.value.as_f64()?));
        let compare = |holds: fn(f64, f64) -> bool| numbers().is_some_and(|(a, b)| holds(a, b));
        match self.op {
            Comparison::Exists => true,
            Comparison::Eq => equal(found, &self.value),
            Comparison::Ne => !equal(found, &self.value),
            Comparison::Lt => compare(|a, b| a < b),
            Comparison::Le => compare(|a, b| a <= b),
            Comparison::Gt => compare(|a, b| a > b),
            Comparison::Ge => compare(|a, b| a >= b),
        }
    }
}

/// 1 and 1.0 are the same number.
#[expect(clippy::float_cmp, reason = "equality is what the rule asks for")]
fn equal(a: &Value, b: &Value) -> bool {
    a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a == b)
}
