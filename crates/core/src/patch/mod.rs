//! JSON Patch (RFC 6902) on the text itself. Whatever a patch does not name (numbers, key order, escapes, white space) keeps
//! its bytes, which a parsed tree could not promise.

mod equality;
mod locate;
#[cfg(test)]
mod tests;

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::json::{EntrySpan, JsonKind, entries, kind_at, value_end};
use crate::text::Text;
use crate::wire::RawJson;
use crate::wire::bounds::POINTER_MAX_BYTES;
use crate::words::words;

use equality::same;
use locate::{Pointer, child, cut, find, index, is_named};

pub use crate::json::{Difference, differences};

words! {
    pub enum PatchOp {
        Add = "add",
        Remove = "remove",
        Replace = "replace",
        Move = "move",
        Copy = "copy",
        Test = "test",
    }
}

/// One operation of a JSON Patch. Stricter than the RFC: a member that it does not know is refused, not ignored.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchOperation {
    pub op: PatchOp,
    /// JSON Pointer (RFC 6901).
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub path: Text,
    /// With move and copy: where from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub from: Option<Text>,
    /// With add, replace and test; kept byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("x-bounded-by" = "body_max_bytes"), with = "Option<serde_json::Value>")]
    pub value: Option<RawJson>,
}

/// A present value, `null` included: serde itself would read `null` as absent.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

pub const PATCH_OPERATIONS_MAX: usize = 1_000;
/// Each operation reads the text, once or a few times: what all of them together may read. Some 20 operations on a payload
/// of 16 MiB, a thousand on one of 256 KiB; half a second of work.
const WORK_MAX_BYTES: usize = 512 * 1024 * 1024;

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
    #[error("there are more than {PATCH_OPERATIONS_MAX} operations")]
    TooMany,
    #[error("the patch has too much to look for in a payload of this size: split it, or give a whole payload")]
    TooCostly,
}

/// `payload` with `patch` done to it, at most `max_bytes` long. `payload` is well-formed JSON without white space around.
pub fn apply(payload: &str, patch: &[PatchOperation], max_bytes: usize) -> Result<String, BadPatch> {
    apply_within(payload, patch, max_bytes, &mut WorkBudget::of(WORK_MAX_BYTES))
}

fn apply_within(
    payload: &str,
    patch: &[PatchOperation],
    max_bytes: usize,
    work: &mut WorkBudget,
) -> Result<String, BadPatch> {
    let mut text = payload.to_owned();
    for (at, operation) in patch.iter().enumerate() {
        let bad = |why| BadPatch { operation: at, path: operation.path.decode().into_owned(), why };
        if at >= PATCH_OPERATIONS_MAX {
            return Err(bad(Why::TooMany));
        }
        PatchStep { text: &mut text, max_bytes, work }.run(operation).map_err(bad)?;
    }
    Ok(text)
}

/// One operation on the text that the last one left.
struct PatchStep<'a> {
    text: &'a mut String,
    max_bytes: usize,
    work: &'a mut WorkBudget,
}

impl PatchStep<'_> {
    fn run(mut self, operation: &PatchOperation) -> Result<(), Why> {
        let path = Pointer::parse(&operation.path.decode()).ok_or(Why::BadPointer)?;
        let value = || operation.value.as_ref().map(|value| value.get()).ok_or(Why::ValueMissing);
        match operation.op {
            PatchOp::Add => self.add(&path, value()?),
            PatchOp::Remove => self.remove(&path),
            PatchOp::Replace => {
                let place = self.place(path.names())?;
                self.splice(place, value()?)
            }
            PatchOp::Move => {
                let from = from_of(operation.from.as_ref())?;
                let place = self.place(from.names())?;
                if from == path {
                    return Ok(());
                }
                if from.holds(&path) {
                    return Err(Why::IntoItself);
                }
                let moved = self.text[place].to_owned();
                self.remove(&from)?;
                self.add(&path, &moved)
            }
            PatchOp::Copy => {
                let from = from_of(operation.from.as_ref())?;
                let place = self.place(from.names())?;
                let copied = self.text[place].to_owned();
                self.add(&path, &copied)
            }
            PatchOp::Test => {
                let place = find(self.text, path.names(), self.work)?.ok_or(Why::TestFailed)?;
                if same(&self.text[place], value()?, self.work)? { Ok(()) } else { Err(Why::TestFailed) }
            }
        }
    }

    fn place(&mut self, names: &[String]) -> Result<Range<usize>, Why> {
        find(self.text, names, self.work)?.ok_or(Why::NothingThere)
    }

    /// Where the container begins, to be read once more.
    fn container(&mut self, names: &[String]) -> Result<usize, Why> {
        let place = self.place(names)?;
        self.work.look(place.len())?;
        Ok(place.start)
    }

    fn add(&mut self, path: &Pointer, value: &str) -> Result<(), Why> {
        let Some((parents, name)) = path.split() else { return self.splice(0..self.text.len(), value) };
        let container = self.container(parents)?;
        match kind_at(self.text, container) {
            JsonKind::Object => match child(self.text, container, name) {
                Some(entry) => self.splice(entry.value, value),
                None => {
                    let last = entries(self.text, container).last();
                    self.append(container, last, Some(name), value)
                }
            },
            JsonKind::Array => self.insert(container, name, value),
            JsonKind::String | JsonKind::Other => Err(Why::NothingThere),
        }
    }

    /// Into a list, before the entry of that index, or at its end.
    fn insert(&mut self, container: usize, name: &str, value: &str) -> Result<(), Why> {
        let wanted = if name == "-" { None } else { Some(index(name).ok_or(Why::NothingThere)?) };
        let (mut count, mut last) = (0, None);
        for entry in entries(self.text, container) {
            if wanted == Some(count) {
                let gap = space_before(self.text, entry.start()).to_owned();
                return self.splice(entry.start()..entry.start(), &format!("{value},{gap}"));
            }
            count += 1;
            last = Some(entry);
        }
        if wanted.is_some_and(|at| at > count) {
            return Err(Why::NothingThere);
        }
        self.append(container, last, None, value)
    }

    /// At the end of an object or list, spaced as the entry before it is.
    fn append(
        &mut self,
        container: usize,
        last: Option<EntrySpan>,
        name: Option<&str>,
        value: &str,
    ) -> Result<(), Why> {
        let colon = last.as_ref().and_then(|last| last.key.as_ref().map(|key| &self.text[key.end..last.value.start]));
        let entry = match name {
            Some(name) => format!("{}{}{value}", serde_json::Value::from(name), colon.unwrap_or(":")),
            None => value.to_owned(),
        };
        match last {
            Some(last) => {
                let gap = space_before(self.text, last.start()).to_owned();
                self.splice(last.value.end..last.value.end, &format!(",{gap}{entry}"))
            }
            None => self.splice(container + 1..container + 1, &entry),
        }
    }

    fn remove(&mut self, path: &Pointer) -> Result<(), Why> {
        let (parents, name) = path.split().ok_or(Why::WholeDocument)?;
        let container = self.container(parents)?;
        let gone = match kind_at(self.text, container) {
            JsonKind::Object => {
                // A key that is there twice would come back as its earlier self: all of that name go.
                let named = entries(self.text, container).filter(|entry| is_named(self.text, entry, name)).count();
                if named > 1 {
                    let rest = without(self.text, container, name);
                    let end = value_end(self.text, container);
                    self.text.replace_range(container..end, &rest);
                    return Ok(());
                }
                cut(self.text, container, |_, entry| is_named(self.text, entry, name))
            }
            JsonKind::Array => {
                let wanted = index(name).ok_or(Why::NothingThere)?;
                cut(self.text, container, |at, _| at == wanted)
            }
            JsonKind::String | JsonKind::Other => None,
        };
        self.text.replace_range(gone.ok_or(Why::NothingThere)?, "");
        Ok(())
    }

    fn splice(&mut self, place: Range<usize>, value: &str) -> Result<(), Why> {
        if self.text.len() - place.len() + value.len() > self.max_bytes {
            return Err(Why::TooLarge);
        }
        self.text.replace_range(place, value);
        Ok(())
    }
}

fn from_of(from: Option<&Text>) -> Result<Pointer, Why> {
    Pointer::parse(&from.ok_or(Why::FromMissing)?.decode()).ok_or(Why::BadFrom)
}

fn space_before(text: &str, at: usize) -> &str {
    let kept = text[..at].trim_end_matches([' ', '\t', '\r', '\n']);
    &text[kept.len()..at]
}

/// An object less every entry of that name.
fn without(text: &str, container: usize, name: &str) -> String {
    let kept: Vec<&str> = entries(text, container)
        .filter(|entry| !is_named(text, entry, name))
        .map(|entry| &text[entry.start()..entry.value.end])
        .collect();
    format!("{{{}}}", kept.join(","))
}

/// Bytes that may still be read.
#[derive(Debug)]
struct WorkBudget {
    left: usize,
}

impl WorkBudget {
    fn of(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Charges one read of that many bytes.
    fn look(&mut self, bytes: usize) -> Result<(), Why> {
        self.left = self.left.checked_sub(bytes).ok_or(Why::TooCostly)?;
        Ok(())
    }

    #[cfg(test)]
    fn left(&self) -> usize {
        self.left
    }
}
