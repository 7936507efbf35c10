//! Conditions on the payload: a JSON pointer and what must stand there.

use serde::Deserialize;
use serde_json::Value;

/// `{ pointer = "/amount", op = "gt", value = 1000 }`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PayloadMatch {
    /// RFC 6901; empty is the whole payload.
    pub pointer: String,
    #[serde(default)]
    pub op: Comparison,
    /// What it is compared with; not asked for with `exists`.
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
