//! Bodies: read within limits, after the caller is known; parsed strictly, with the place of each mistake.

mod bounds;
mod buffered;
mod held;
mod json;
mod lines;
mod media;

pub(crate) use held::HeldJson;
pub(crate) use json::{Json, OptionalJson};
pub(crate) use lines::JsonOrLines;

pub(crate) use buffered::Buffered;
pub(crate) use json::{parse, parse_free};
pub(crate) use lines::lines;

use http::request::Parts;
use schemars::{Schema, SchemaGenerator};

use crate::app::App;
use crate::budget::Holder;
use crate::problem::Result;

/// A schema, made when the API is described.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a handler takes as its body.
pub(crate) trait FromBody: Sized + Send + 'static {
    /// The media types that are taken, with what they hold; none where no body is read.
    fn media() -> Vec<(&'static str, SchemaOf)>;
    /// Whether a call without a body is refused.
    const REQUIRED: bool;

    /// `payer` holds the body for as long as it is in memory.
    fn read(
        app: &App,
        parts: &Parts,
        body: axum::body::Body,
        payer: Holder,
    ) -> impl Future<Output = Result<Self>> + Send;
}

/// The call has no body; one that comes is not looked at.
#[derive(Debug)]
pub(crate) struct NoBody;

impl FromBody for NoBody {
    const REQUIRED: bool = false;

    fn media() -> Vec<(&'static str, SchemaOf)> {
        Vec::new()
    }

    async fn read(_: &App, _: &Parts, _: axum::body::Body, _: Holder) -> Result<Self> {
        Ok(Self)
    }
}
