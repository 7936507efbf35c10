//! One JSON value, or many with one on each line.

use bytes::Bytes;
use http::request::Parts;
use schemars::JsonSchema;
use std::marker::PhantomData;

use super::json::trim;
use super::media::{FORM, JSON, LINES, media_type, unsupported};
use super::{Buffered, FromBody, SchemaOf};
use crate::app::App;
use crate::budget::Holder;
use crate::problem::Result;

/// The bytes of one report, or of many; they are read line by line, so that one bad line is only its own problem.
#[derive(Debug)]
pub(crate) struct JsonOrLines<T> {
    pub(crate) body: Buffered,
    pub(crate) many: bool,
    of: PhantomData<fn() -> T>,
}

impl<T: JsonSchema + 'static> FromBody for JsonOrLines<T> {
    const REQUIRED: bool = true;

    fn media() -> Vec<(&'static str, SchemaOf)> {
        vec![(JSON, |generator| generator.subschema_for::<T>()), (LINES, |generator| generator.subschema_for::<T>())]
    }

    async fn read(app: &App, parts: &Parts, body: axum::body::Body, payer: Holder) -> Result<Self> {
        let many = match media_type(&parts.headers)?.as_deref() {
            None | Some(JSON | FORM) => false,
            Some(LINES) => true,
            Some(other) => return Err(unsupported(other)),
        };
        let body = Buffered::read(app, &parts.headers, body, payer).await?;
        Ok(Self { body, many, of: PhantomData })
    }
}

impl<T> JsonOrLines<T> {
    /// The one value's bytes, without the white space around them.
    pub(crate) fn one(&self) -> Bytes {
        self.body.bytes.slice_ref(trim(&self.body.bytes))
    }
}

/// The lines that say something, each without the white space around it.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]);
    let split = ends.scan(0, |begin, end| Some(&bytes[std::mem::replace(begin, end + 1)..end]));
    split.map(trim).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_say_nothing() {
        let found: Vec<&[u8]> = lines(b"{}\r\n\n  {\"a\":1} \n").collect();
        assert_eq!(found, [&b"{}"[..], b"{\"a\":1}"]);
    }
}
