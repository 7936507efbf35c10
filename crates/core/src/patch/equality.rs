//! Equality of two JSON texts by meaning: numbers by value, objects in any key order.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Why, WorkBudget};
use crate::json::{EntrySpan, JsonKind, entries, kind_at};
use crate::text::decode_token;

/// Deeper than this only the very same text counts as the same.
const DEPTH_MAX: usize = 128;

/// What lies inside is read again at each level: all of it counts.
pub(super) fn same(a: &str, b: &str, work: &mut WorkBudget) -> Result<bool, Why> {
    same_within(a, b, DEPTH_MAX, work)
}

fn same_within(a: &str, b: &str, depth: usize, work: &mut WorkBudget) -> Result<bool, Why> {
    if a == b || depth == 0 {
        return Ok(a == b);
    }
    work.look(a.len() + b.len())?;
    Ok(match (kind_at(a, 0), kind_at(b, 0)) {
        (JsonKind::Object, JsonKind::Object) => {
            let (a, b) = (members(a), members(b));
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, value) in &a {
                let Some(other) = b.get(key) else { return Ok(false) };
                if !same_within(value, other, depth - 1, work)? {
                    return Ok(false);
                }
            }
            true
        }
        (JsonKind::Array, JsonKind::Array) => {
            let (mut left, mut right) = (entries(a, 0), entries(b, 0));
            loop {
                match (left.next(), right.next()) {
                    (Some(x), Some(y)) => {
                        if !same_within(&a[x.value], &b[y.value], depth - 1, work)? {
                            return Ok(false);
                        }
                    }
                    (None, None) => return Ok(true),
                    (Some(_), None) | (None, Some(_)) => return Ok(false),
                }
            }
        }
        (JsonKind::String, JsonKind::String) => decode_token(a) == decode_token(b),
        (JsonKind::Other, JsonKind::Other) => matches!((number(a), number(b)), (Some(a), Some(b)) if a == b),
        (JsonKind::Object | JsonKind::Array | JsonKind::String | JsonKind::Other, _) => false,
    })
}

fn members(object: &str) -> BTreeMap<Cow<'_, str>, &str> {
    let member = |entry: EntrySpan| {
        let key = entry.key.map_or(Cow::Borrowed(""), |key| decode_token(&object[key]));
        (key, &object[entry.value])
    };
    entries(object, 0).map(member).collect()
}

/// Sign, digits without zeros at either end, and the power of ten of the last digit: exact, whatever the size.
fn number(token: &str) -> Option<(bool, String, i64)> {
    let (negative, rest) = token.strip_prefix('-').map_or((false, token), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() || !whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = format!("{whole}{part}");
    let significant = digits.trim_end_matches('0');
    let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
    let power = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(part.len()).ok()?)?.checked_add(dropped)?;
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    Some((negative, significant.to_owned(), power))
}
