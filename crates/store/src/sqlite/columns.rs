//! From columns to the words of the domain. What no binary of ours would have written is an error, never a panic.

use std::str::FromStr;

use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

use crate::codec::decode;
use crate::error::{Error, Result};

pub(super) fn unexpected(what: &str) -> Error {
    Error::Unexpected(what.to_owned())
}

pub(super) fn parsed<T: FromStr>(row: &Row<'_>, at: usize, what: &str) -> Result<T> {
    text(row, at)?.parse().map_err(|_| unexpected(what))
}

pub(super) fn parsed_or_none<T: FromStr>(row: &Row<'_>, at: usize, what: &str) -> Result<Option<T>> {
    match text_or_none(row, at)? {
        Some(text) => text.parse().map(Some).map_err(|_| unexpected(what)),
        None => Ok(None),
    }
}

/// An empty text means none.
pub(super) fn parsed_or_empty<T: FromStr>(row: &Row<'_>, at: usize, what: &str) -> Result<Option<T>> {
    match text(row, at)? {
        "" => Ok(None),
        word => word.parse().map(Some).map_err(|_| unexpected(what)),
    }
}

pub(super) fn label(row: &Row<'_>, at: usize) -> Result<Label> {
    Ok(Label::from(text(row, at)?))
}

pub(super) fn label_or_none(row: &Row<'_>, at: usize) -> Result<Option<Label>> {
    Ok(text_or_none(row, at)?.map(Label::from))
}

pub(super) fn text<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a str> {
    Ok(row.get_ref(at)?.as_str().map_err(rusqlite::Error::from)?)
}

fn text_or_none<'a>(row: &'a Row<'_>, at: usize) -> Result<Option<&'a str>> {
    Ok(row.get_ref(at)?.as_str_or_null().map_err(rusqlite::Error::from)?)
}

pub(super) fn time(row: &Row<'_>, at: usize) -> Result<Timestamp> {
    Ok(Timestamp::from_millis(row.get(at)?))
}

pub(super) fn time_or_none(row: &Row<'_>, at: usize) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Timestamp::from_millis))
}

pub(super) fn whole<T: TryFrom<i64>>(row: &Row<'_>, at: usize, what: &str) -> Result<T> {
    let number: i64 = row.get(at)?;
    T::try_from(number).map_err(|_| Error::Unexpected(format!("{what} {number}")))
}

pub(super) fn json<T: DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::Unexpected(format!("{what}: {e}")))
}

/// JSON through the codec.
pub(super) fn packed_json<T: DeserializeOwned>(row: &Row<'_>, at: usize, what: &str) -> Result<T> {
    json(&packed_text(row, at, what)?, what)
}

pub(super) fn packed_json_or_none<T: DeserializeOwned>(row: &Row<'_>, at: usize, what: &str) -> Result<Option<T>> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        _ => packed_json(row, at, what).map(Some),
    }
}

/// Text through the codec.
pub(super) fn packed_text(row: &Row<'_>, at: usize, what: &str) -> Result<String> {
    String::from_utf8(packed(row, at)?).map_err(|_| unexpected(what))
}

/// Bytes through the codec.
pub(super) fn packed(row: &Row<'_>, at: usize) -> Result<Vec<u8>> {
    Ok(decode(row.get_ref(at)?.as_blob().map_err(rusqlite::Error::from)?)?)
}
