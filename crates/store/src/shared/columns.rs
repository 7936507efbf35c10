//! Reads columns as domain types. An unexpected value is an error, never a panic.

use std::str::FromStr;

use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use serde::de::DeserializeOwned;

use redrive_engine::codec::decode;
use redrive_engine::error::{Error, PortResult as Result};

/// A row of either database. A column is a number, text or bytes.
pub(crate) trait Columns {
    fn number_or_none(&self, at: usize) -> Result<Option<i64>>;
    /// Text or bytes.
    fn bytes_or_none(&self, at: usize) -> Result<Option<&[u8]>>;
}

pub(crate) fn unexpected(what: &str) -> Error {
    Error::Unexpected(what.to_owned())
}

fn missing(at: usize) -> Error {
    Error::Unexpected(format!("column {at} holds nothing"))
}

pub(crate) fn number(row: &impl Columns, at: usize) -> Result<i64> {
    Ok(row.number_or_none(at)?.ok_or_else(|| missing(at))?)
}

pub(crate) fn flag(row: &impl Columns, at: usize) -> Result<bool> {
    Ok(number(row, at)? != 0)
}

pub(crate) fn bytes(row: &impl Columns, at: usize) -> Result<&[u8]> {
    Ok(row.bytes_or_none(at)?.ok_or_else(|| missing(at))?)
}

pub(crate) fn text(row: &impl Columns, at: usize) -> Result<&str> {
    Ok(text_or_none(row, at)?.ok_or_else(|| missing(at))?)
}

fn text_or_none(row: &impl Columns, at: usize) -> Result<Option<&str>> {
    let read = row.bytes_or_none(at)?.map(std::str::from_utf8).transpose();
    Ok(read.map_err(|_| Error::Unexpected(format!("column {at} holds no text")))?)
}

pub(crate) fn owned(row: &impl Columns, at: usize) -> Result<String> {
    text(row, at).map(ToOwned::to_owned)
}

pub(crate) fn owned_or_none(row: &impl Columns, at: usize) -> Result<Option<String>> {
    Ok(text_or_none(row, at)?.map(ToOwned::to_owned))
}

pub(crate) fn parsed<T: FromStr>(row: &impl Columns, at: usize, what: &str) -> Result<T> {
    Ok(text(row, at)?.parse().map_err(|_| unexpected(what))?)
}

pub(crate) fn parsed_or_none<T: FromStr>(row: &impl Columns, at: usize, what: &str) -> Result<Option<T>> {
    match text_or_none(row, at)? {
        Some(text) => Ok(text.parse().map(Some).map_err(|_| unexpected(what))?),
        None => Ok(None),
    }
}

/// An empty text means none.
pub(crate) fn parsed_or_empty<T: FromStr>(row: &impl Columns, at: usize, what: &str) -> Result<Option<T>> {
    match text(row, at)? {
        "" => Ok(None),
        word => Ok(word.parse().map(Some).map_err(|_| unexpected(what))?),
    }
}

pub(crate) fn label(row: &impl Columns, at: usize) -> Result<Label> {
    Ok(Label::from(text(row, at)?))
}

pub(crate) fn label_or_none(row: &impl Columns, at: usize) -> Result<Option<Label>> {
    Ok(text_or_none(row, at)?.map(Label::from))
}

pub(crate) fn time(row: &impl Columns, at: usize) -> Result<Timestamp> {
    number(row, at).map(Timestamp::from_millis)
}

pub(crate) fn time_or_none(row: &impl Columns, at: usize) -> Result<Option<Timestamp>> {
    Ok(row.number_or_none(at)?.map(Timestamp::from_millis))
}

pub(crate) fn whole<T: TryFrom<i64>>(row: &impl Columns, at: usize, what: &str) -> Result<T> {
    let number = number(row, at)?;
    Ok(T::try_from(number).map_err(|_| Error::Unexpected(format!("{what} {number}")))?)
}

pub(crate) fn json<T: DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    Ok(serde_json::from_str(text).map_err(|e| Error::Unexpected(format!("{what}: {e}")))?)
}

/// JSON through the codec.
pub(crate) fn packed_json<T: DeserializeOwned>(row: &impl Columns, at: usize, what: &str) -> Result<T> {
    json(&packed_text(row, at, what)?, what)
}

pub(crate) fn packed_json_or_none<T: DeserializeOwned>(row: &impl Columns, at: usize, what: &str) -> Result<Option<T>> {
    match row.bytes_or_none(at)? {
        None => Ok(None),
        Some(_) => packed_json(row, at, what).map(Some),
    }
}

/// Text through the codec.
pub(crate) fn packed_text(row: &impl Columns, at: usize, what: &str) -> Result<String> {
    Ok(String::from_utf8(packed(row, at)?).map_err(|_| unexpected(what))?)
}

/// A note, as its JSON token through the codec.
pub(crate) fn packed_note(row: &impl Columns, at: usize) -> Result<Option<Text>> {
    match row.bytes_or_none(at)? {
        None => Ok(None),
        Some(_) => Ok(Some(Text::from_token(packed_text(row, at, "note")?).ok_or_else(|| unexpected("note"))?)),
    }
}

/// Bytes through the codec.
pub(crate) fn packed(row: &impl Columns, at: usize) -> Result<Vec<u8>> {
    Ok(decode(bytes(row, at)?)?)
}
