//! `/healthz`, `/readyz`, `/metrics` and `/openapi.json`.

use std::sync::OnceLock;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use redrive_engine::{Error, Store, TenantScope};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::app::App;
use crate::auth::{Anyone, Caller};
use crate::call::{ApiCall, ApiResponse, Reply, typed};
use crate::metrics::{CurrentState, OPENMETRICS};
use crate::problem::{Code, HttpProblem, Result};

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProbeAnswer {
    pub(crate) status: &'static str,
}

pub(crate) async fn healthz(app: App, _: ApiCall<Anyone>) -> Result<Reply<ProbeAnswer>> {
    if !app.store.has_writer() && !app.is_stopping() {
        return Err(HttpProblem::new(Code::Unavailable, "a writer thread has ended: restart the process"));
    }
    Ok(Reply::ok(ProbeAnswer { status: "ok" }))
}

pub(crate) async fn readyz(app: App, _: ApiCall<Anyone>) -> Result<Reply<ProbeAnswer>> {
    if app.is_stopping() {
        return Err(HttpProblem::plain(Code::Closing).retry_after_s(1));
    }
    app.readiness.ask(app.store.as_ref()).await?;
    Ok(Reply::ok(ProbeAnswer { status: "ready" }))
}

/// How long a negative answer is cached.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// A store that takes longer than this is not ready.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The last negative answer; concurrent callers wait for one probe of the store.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    unready: Mutex<Option<(Instant, Unready)>>,
}

#[derive(Debug, Clone, Copy)]
enum Unready {
    Busy,
    Unavailable,
}

impl Readiness {
    pub(crate) async fn ask(&self, store: &dyn Store) -> Result<()> {
        let mut unready = self.unready.lock().await;
        if let Some((at, why)) = *unready
            && at.elapsed() < KNOWN_FOR
        {
            return Err(why.into());
        }
        *unready = match timeout(ANSWER_MAX, store.ready()).await {
            Ok(Ok(())) => None,
            Ok(Err(Error::Busy)) => Some((Instant::now(), Unready::Busy)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "store not ready");
                Some((Instant::now(), Unready::Unavailable))
            }
            Err(_) => {
                tracing::warn!("store not ready: no answer in time");
                Some((Instant::now(), Unready::Unavailable))
            }
        };
        unready.map_or(Ok(()), |(_, why)| Err(why.into()))
    }
}

impl From<Unready> for HttpProblem {
    fn from(why: Unready) -> Self {
        let code = match why {
            Unready::Busy => Code::Busy,
            Unready::Unavailable => Code::Unavailable,
        };
        Self::plain(code).retry_after_s(1)
    }
}

pub(crate) struct Exposition(String);

impl ApiResponse for Exposition {
    const MEDIA: &'static [&'static str] = &["application/openmetrics-text"];

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }

    async fn respond(self) -> Response {
        typed(StatusCode::OK, OPENMETRICS, self.0)
    }
}

/// Metrics span all tenants.
pub(crate) async fn metrics<W: Caller>(app: App, _: ApiCall<W>) -> Result<Exposition> {
    let health = app.store.health(&TenantScope::All).await?;
    let now = CurrentState {
        health: &health,
        request_body_bytes: app.in_flight_bytes.used_bytes(),
        response_body_bytes: app.answers.used_bytes(),
    };
    let exposition = app.metrics.encode(&now).map_err(|error| HttpProblem::internal(&error.to_string()))?;
    Ok(Exposition(exposition))
}

pub(crate) struct Document(Bytes);

impl ApiResponse for Document {
    const MEDIA: &'static [&'static str] = &["application/json"];

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }

    async fn respond(self) -> Response {
        typed(StatusCode::OK, "application/json", self.0)
    }
}

/// Computed once: it does not change while the server runs.
static DOCUMENT: OnceLock<Bytes> = OnceLock::new();

pub(crate) async fn openapi(_: App, _: ApiCall<Anyone>) -> Result<Document> {
    let document = DOCUMENT.get_or_init(|| crate::openapi::openapi().to_string().into());
    Ok(Document(document.clone()))
}
