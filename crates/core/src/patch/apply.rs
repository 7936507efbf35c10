//! A patch on a payload: all of it, or nothing and the reason.

use std::ops::Range;

use super::operation::{Operation, PatchOp};
use super::place::{child, cut, find, is_named};
use super::pointer::{Pointer, index};
use super::same::same;
use super::scan::{Kind, entries, kind, value_end};
use crate::text::Text;

pub const PATCH_OPERATIONS_MAX: usize = 1_000;
/// Each operation looks through the text: what all of them together may look at.
const LOOKS_MAX_BYTES: usize = 2 * 1024 * 1024 * 1024;

/// The operation that could not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operation {operation} (`{path}`): {why}")]
pub struct BadPatch {
    /// From 0, as in the list that was sent.
    pub operation: usize,
    pub path: String,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("is no JSON Pointer")]
    BadPointer,
    #[error("`from` is no JSON Pointer")]
    BadFrom,
    #[error("nothing is there")]
    NothingThere,
    #[error("needs a `value`")]
    ValueMissing,
    #[error("needs a `from`")]
    FromMissing,
    #[error("the whole document can't be removed")]
    WholeDocument,
    #[error("a value can't be moved into itself")]
    IntoItself,
    #[error("what is there is not what was expected")]
    TestFailed,
    #[error("the result would be too large")]
    TooLarge,
    #[error("the patch has too many operations for a payload of this size")]
    TooMany,
}

/// `payload` with `patch` done to it, at most `max_bytes` long. `payload` is well-formed JSON without white space around.
pub fn apply(payload: &str, patch: &[Operation], max_bytes: usize) -> Result<String, BadPatch> {
    let mut text = payload.to_owned();
    let mut looked_at = 0_usize;
    for (at, operation) in patch.iter().enumerate() {
        let bad = |why| BadPatch { operation: at, path: operation.path.decode().into_owned(), why };
        looked_at = looked_at.saturating_add(text.len());
        if at >= PATCH_OPERATIONS_MAX || looked_at > LOOKS_MAX_BYTES {
            return Err(bad(Why::TooMany));
        }
        step(&mut text, operation, max_bytes).map_err(bad)?;
    }
    Ok(text)
}

fn step(text: &mut String, operation: &Operation, max_bytes: usize) -> Result<(), Why> {
    let path = Pointer::parse(&operation.path.decode()).ok_or(Why::BadPointer)?;
    let value = || operation.value.as_ref().map(|value| value.get()).ok_or(Why::ValueMissing);
    match operation.op {
        PatchOp::Add => add(text, &path, value()?, max_bytes),
        PatchOp::Remove => remove(text, &path),
        PatchOp::Replace => {
            let place = find(text, path.names()).ok_or(Why::NothingThere)?;
            splice(text, place, value()?, max_bytes)
        }
        PatchOp::Move => {
            let from = from_of(operation.from.as_ref())?;
            if from == path {
                return find(text, from.names()).map(|_| ()).ok_or(Why::NothingThere);
            }
            if from.holds(&path) {
                return Err(Why::IntoItself);
            }
            let moved = text[find(text, from.names()).ok_or(Why::NothingThere)?].to_owned();
            remove(text, &from)?;
            add(text, &path, &moved, max_bytes)
        }
        PatchOp::Copy => {
            let from = from_of(operation.from.as_ref())?;
            let copied = text[find(text, from.names()).ok_or(Why::NothingThere)?].to_owned();
            add(text, &path, &copied, max_bytes)
        }
        PatchOp::Test => {
            let place = find(text, path.names()).ok_or(Why::TestFailed)?;
            if same(&text[place], value()?) { Ok(()) } else { Err(Why::TestFailed) }
        }
    }
}

fn from_of(from: Option<&Text>) -> Result<Pointer, Why> {
    Pointer::parse(&from.ok_or(Why::FromMissing)?.decode()).ok_or(Why::BadFrom)
}

fn add(text: &mut String, path: &Pointer, value: &str, max_bytes: usize) -> Result<(), Why> {
    let Some((parents, name)) = path.split() else { return splice(text, 0..text.len(), value, max_bytes) };
    let container = find(text, parents).ok_or(Why::NothingThere)?.start;
    match kind(text, container) {
        Kind::Object => match child(text, container, name) {
            Some(entry) => splice(text, entry.value, value, max_bytes),
            None => append(text, container, Some(name), value, max_bytes),
        },
        Kind::List => insert(text, container, name, value, max_bytes),
        Kind::Plain => Err(Why::NothingThere),
    }
}

/// Into a list, before the entry of that index, or at its end.
fn insert(text: &mut String, container: usize, name: &str, value: &str, max_bytes: usize) -> Result<(), Why> {
    let count = entries(text, container).count();
    let at = if name == "-" { count } else { index(name).filter(|at| *at <= count).ok_or(Why::NothingThere)? };
    let Some(entry) = entries(text, container).nth(at) else {
        return append(text, container, None, value, max_bytes);
    };
    let gap = space_before(text, entry.start()).to_owned();
    splice(text, entry.start()..entry.start(), &format!("{value},{gap}"), max_bytes)
}

/// At the end of an object or list, spaced as the entry before it is.
fn append(text: &mut String, container: usize, name: Option<&str>, value: &str, max_bytes: usize) -> Result<(), Why> {
    let last = entries(text, container).last();
    let colon = last.as_ref().and_then(|last| last.key.as_ref().map(|key| &text[key.end..last.value.start]));
    let entry = match name {
        Some(name) => format!("{}{}{value}", serde_json::Value::from(name), colon.unwrap_or(":")),
        None => value.to_owned(),
    };
    match last {
        Some(last) => {
            let gap = space_before(text, last.start()).to_owned();
            splice(text, last.value.end..last.value.end, &format!(",{gap}{entry}"), max_bytes)
        }
        None => splice(text, container + 1..container + 1, &entry, max_bytes),
    }
}

fn space_before(text: &str, at: usize) -> &str {
    let kept = text[..at].trim_end_matches([' ', '\t', '\r', '\n']);
    &text[kept.len()..at]
}

fn remove(text: &mut String, path: &Pointer) -> Result<(), Why> {
    let (parents, name) = path.split().ok_or(Why::WholeDocument)?;
    let container = find(text, parents).ok_or(Why::NothingThere)?.start;
    match kind(text, container) {
        Kind::Object => {
            // A key that is there twice would come back as its earlier self: all of that name go.
            let named = entries(text, container).filter(|entry| is_named(text, entry, name)).count();
            if named > 1 {
                let rest = without(text, container, name);
                text.replace_range(container..value_end(text, container), &rest);
                return Ok(());
            }
            let gone = cut(text, container, |_, entry| is_named(text, entry, name)).ok_or(Why::NothingThere)?;
            text.replace_range(gone, "");
            Ok(())
        }
        Kind::List => {
            let wanted = index(name).ok_or(Why::NothingThere)?;
            text.replace_range(cut(text, container, |at, _| at == wanted).ok_or(Why::NothingThere)?, "");
            Ok(())
        }
        Kind::Plain => Err(Why::NothingThere),
    }
}

/// An object less every entry of that name.
fn without(text: &str, container: usize, name: &str) -> String {
    let kept: Vec<&str> = entries(text, container)
        .filter(|entry| !is_named(text, entry, name))
        .map(|entry| &text[entry.start()..entry.value.end])
        .collect();
    format!("{{{}}}", kept.join(","))
}

fn splice(text: &mut String, place: Range<usize>, value: &str, max_bytes: usize) -> Result<(), Why> {
    if text.len() - place.len() + value.len() > max_bytes {
        return Err(Why::TooLarge);
    }
    text.replace_range(place, value);
    Ok(())
}
