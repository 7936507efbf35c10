//! `GET /metrics`: figures for Prometheus, with an operator's key or on a listener of its own.

use axum::response::Response;
use http::StatusCode;
use redrive_store::TenantScope;
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::app::App;
use crate::auth::Gate;
use crate::call::{Answer, Call, typed};
use crate::problem::Result;

pub(crate) struct Exposition(String);

impl Answer for Exposition {
    const MEDIA: &'static [&'static str] = &["text/plain"];

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }

    async fn respond(self) -> Response {
        typed(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", self.0)
    }
}

/// Whoever the route lets in sees the figures of all tenants.
pub(crate) async fn get<W: Gate>(app: App, _: Call<W>) -> Result<Exposition> {
    let health = app.store.health(&TenantScope::All).await?;
    let (bodies, answers) = (app.in_flight_bytes.used_bytes(), app.answers.used_bytes());
    Ok(Exposition(app.metrics.prometheus(&health, bodies, answers)))
}
