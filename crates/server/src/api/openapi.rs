//! `GET /openapi.json`: the API describes itself.

use std::sync::OnceLock;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::app::App;
use crate::auth::Anyone;
use crate::call::{Answer, Call, typed};
use crate::problem::Result;

pub(crate) struct Document(Bytes);

impl Answer for Document {
    const MEDIA: &'static [&'static str] = &["application/json"];

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }

    async fn respond(self) -> Response {
        typed(StatusCode::OK, "application/json", self.0)
    }
}

/// Made once: it does not change while the server runs.
static DOCUMENT: OnceLock<Bytes> = OnceLock::new();

pub(crate) async fn get(_: App, _: Call<Anyone>) -> Result<Document> {
    let document = DOCUMENT.get_or_init(|| crate::openapi::openapi().to_string().into());
    Ok(Document(document.clone()))
}
