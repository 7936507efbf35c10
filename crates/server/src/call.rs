//! One API call: the caller, path, query and body that a handler takes, and the answer it gives.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use redrive_engine::FairPermit;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::app::App;
use crate::auth::{Caller, LookUp};
use crate::body::{FromBody, NoBody};
use crate::budget::Reserved;
use crate::path::{FromPath, PathParams};
use crate::problem::{HttpProblem, Result};
use crate::query::{FromQuery, NoQuery, RawQuery};
use crate::tasks::beside;
use crate::telemetry::record_caller;

/// Everything a handler takes, already validated.
#[derive(Debug)]
pub(crate) struct ApiCall<W, P = (), Q = NoQuery, B = NoBody> {
    pub who: W,
    pub path: P,
    pub query: Q,
    pub body: B,
}

impl<W: Caller, P: FromPath, Q: FromQuery, B: FromBody> ApiCall<W, P, Q, B> {
    /// The order is part of the contract: caller, path, query, body.
    pub(crate) async fn take(app: &App, request: axum::extract::Request) -> Result<Self> {
        let (mut parts, body) = request.into_parts();
        let asked = LookUp::now(app.store.as_ref());
        let mut who = W::admit(app, &parts.headers).await?;
        who.principal().inspect(|caller| record_caller(caller));
        let path = P::read(&PathParams::of(&mut parts).await?)?;
        let query = RawQuery::parse(parts.uri.query())?;
        let body = B::read(app, &parts, body, who.holder()).await?;
        if asked.is_old(app.store.as_ref()) {
            // The body was slow or the process was suspended: the key may be revoked by now.
            who = W::admit(app, &parts.headers).await?;
        }
        Ok(Self { who, path, query, body })
    }
}

/// What a handler gives back.
pub(crate) trait ApiResponse: Send + 'static {
    const MEDIA: &'static [&'static str];

    fn schema(generator: &mut SchemaGenerator) -> Schema;
    /// Serialises the answer; a large one on a blocking thread.
    fn respond(self) -> impl Future<Output = Response> + Send;
}

/// JSON with its status.
#[derive(Debug)]
pub(crate) struct Reply<A> {
    pub status: StatusCode,
    pub answer: A,
    is_large: bool,
    /// The turn of a large read; held until the answer is written.
    turn: Option<FairPermit>,
    reserved: Option<Reserved>,
}

impl<A> Reply<A> {
    pub(crate) fn ok(answer: A) -> Self {
        Self { status: StatusCode::OK, answer, is_large: false, turn: None, reserved: None }
    }

    /// Serialised on a blocking thread.
    pub(crate) fn large(answer: A) -> Self {
        Self { is_large: true, ..Self::ok(answer) }
    }

    pub(crate) fn under(self, turn: FairPermit) -> Self {
        Self { turn: Some(turn), ..self }
    }

    pub(crate) fn within(self, reserved: Option<Reserved>) -> Self {
        Self { reserved, ..self }
    }

    /// 201 where something is new, 200 where it was there before.
    pub(crate) fn new(answer: A, created: bool) -> Self {
        let status = if created { StatusCode::CREATED } else { StatusCode::OK };
        Self { status, ..Self::ok(answer) }
    }
}

impl<A: Serialize + JsonSchema + Send + 'static> ApiResponse for Reply<A> {
    const MEDIA: &'static [&'static str] = &["application/json"];

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<A>()
    }

    async fn respond(self) -> Response {
        let Self { status, answer, is_large, turn, reserved } = self;
        let write = move || serde_json::to_vec(&answer).map_err(|error| HttpProblem::internal(&error.to_string()));
        let written = if is_large { beside(write).await } else { write() };
        drop((turn, reserved));
        match written {
            Ok(body) => typed(status, "application/json", body),
            Err(problem) => problem.into_response(),
        }
    }
}

pub(crate) fn typed(status: StatusCode, media: &'static str, body: impl Into<axum::body::Body>) -> Response {
    let mut response = (status, body.into()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
