//! One call: who, where, what; and its answer.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::app::App;
use crate::auth::{Gate, LookUp};
use crate::body::{FromBody, NoBody};
use crate::path::{FromPath, Params};
use crate::problem::{Problem, Result};
use crate::query::{FromQuery, Given, NoQuery};

/// Everything a handler gets, each part checked before it is reached.
#[derive(Debug)]
pub(crate) struct Call<W, P = (), Q = NoQuery, B = NoBody> {
    pub who: W,
    pub path: P,
    pub query: Q,
    pub body: B,
}

impl<W: Gate, P: FromPath, Q: FromQuery, B: FromBody> Call<W, P, Q, B> {
    /// The order is part of the contract: who, then what is named, and the body last.
    pub(crate) async fn take(app: &App, request: axum::extract::Request) -> Result<Self> {
        let (mut parts, body) = request.into_parts();
        let asked = LookUp::now(app.store.as_ref());
        let mut who = W::admit(app, &parts.headers).await?;
        let path = P::read(&Params::of(&mut parts).await?)?;
        let query = Given::parse(parts.uri.query())?;
        let body = B::read(app, &parts, body, who.holder()).await?;
        if asked.is_old(app.store.as_ref()) {
            // The body took its time, or the process was suspended: the key may be revoked by now.
            who = W::admit(app, &parts.headers).await?;
        }
        Ok(Self { who, path, query, body })
    }
}

/// What a handler gives back.
pub(crate) trait Answer: Send + 'static {
    const MEDIA: &'static [&'static str];

    fn schema(generator: &mut SchemaGenerator) -> Schema;
    fn into_response(self) -> Response;
}

/// JSON with its status.
#[derive(Debug)]
pub(crate) struct Reply<A> {
    pub status: StatusCode,
    pub answer: A,
}

impl<A> Reply<A> {
    pub(crate) fn ok(answer: A) -> Self {
        Self { status: StatusCode::OK, answer }
    }

    /// 201 where something is new, 200 where it was there before.
    pub(crate) fn new(answer: A, created: bool) -> Self {
        Self { status: if created { StatusCode::CREATED } else { StatusCode::OK }, answer }
    }
}

impl<A: Serialize + JsonSchema + Send + 'static> Answer for Reply<A> {
    const MEDIA: &'static [&'static str] = &["application/json"];

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<A>()
    }

    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.answer) {
            Ok(body) => typed(self.status, "application/json", body),
            Err(error) => Problem::internal(&error.to_string()).into_response(),
        }
    }
}

pub(crate) fn typed(status: StatusCode, media: &'static str, body: impl Into<axum::body::Body>) -> Response {
    let mut response = (status, body.into()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
