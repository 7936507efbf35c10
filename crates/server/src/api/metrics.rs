//! `GET /metrics`: figures for Prometheus, with an operator's key or on a listener of its own.

use axum::response::Response;
use http::StatusCode;
use redrive_store::TenantScope;
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::app::App;
use crate::auth::Gate;
use crate::call::{Answer, Call, typed};
use crate::metrics::{CurrentState, OPENMETRICS};
use crate::problem::{Problem, Result};

pub(crate) struct Exposition(String);

impl Answer for Exposition {
    const MEDIA: &'static [&'static str] = &["application/openmetrics-text"];

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }

    async fn respond(self) -> Response {
        typed(StatusCode::OK, OPENMETRICS, self.0)
    }
}

/// Whoever the route lets in sees the figures of all tenants.
pub(crate) async fn get<W: Gate>(app: App, _: Call<W>) -> Result<Exposition> {
    let health = app.store.health(&TenantScope::All).await?;
    let now = CurrentState {
        health: &health,
        request_body_bytes: app.in_flight_bytes.used_bytes(),
        response_body_bytes: app.answers.used_bytes(),
    };
    let exposition = app.metrics.encode(&now).map_err(|error| Problem::internal(&error.to_string()))?;
    Ok(Exposition(exposition))
}
