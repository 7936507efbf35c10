//! A row of the table of routes: all that the router, the description and the isolation test need to know.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::Method;
use redrive_core::wire::Role;

use crate::answers::IfFull;
use crate::app::App;
use crate::auth::Gate;
use crate::body::{FromBody, SchemaOf};
use crate::call::{Answer, Call};
use crate::path::FromPath;
use crate::problem::Result;
use crate::query::{FromQuery, Param};

pub(crate) type Handling = Pin<Box<dyn Future<Output = Response> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(App, Request) -> Handling + Send + Sync>;

pub struct Route {
    pub method: Method,
    /// With its parts in braces.
    pub path: &'static str,
    /// None: no key is asked for.
    pub roles: Option<&'static [Role]>,
    pub summary: &'static str,
    pub(crate) params: &'static [Param],
    /// Media types of the body with what they hold.
    pub(crate) request: Vec<(&'static str, SchemaOf)>,
    pub(crate) request_required: bool,
    pub(crate) answer_media: &'static [&'static str],
    pub(crate) answer: SchemaOf,
    pub success: &'static [u16],
    pub(crate) handler: Handler,
}

impl Route {
    /// What the description files it under.
    pub fn tag(&self) -> &'static str {
        let path = self.path.trim_start_matches("/v1/");
        match path.split('/').find(|part| !part.is_empty()) {
            Some("api") => "dlq",
            _ if !self.path.starts_with("/v1/") => "probes",
            Some(first) => first,
            None => "probes",
        }
    }

    /// The names in braces.
    pub fn path_params(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// Begins a row: who may.
pub(crate) fn by<W: Gate>() -> RowBy<W> {
    RowBy(PhantomData)
}

pub(crate) struct RowBy<W>(PhantomData<fn() -> W>);

impl<W: Gate> RowBy<W> {
    pub(crate) fn get<P, Q, A, F, R>(self, path: &'static str, summary: &'static str, handler: F) -> Route
    where
        P: FromPath,
        Q: FromQuery,
        A: Answer,
        F: Fn(App, Call<W, P, Q>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<A>> + Send + 'static,
    {
        self.row(Method::GET, path, &[200], summary, handler)
    }

    pub(crate) fn post<P, Q, B, A, F, R>(
        self,
        path: &'static str,
        success: &'static [u16],
        summary: &'static str,
        handler: F,
    ) -> Route
    where
        P: FromPath,
        Q: FromQuery,
        B: FromBody,
        A: Answer,
        F: Fn(App, Call<W, P, Q, B>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<A>> + Send + 'static,
    {
        self.row(Method::POST, path, success, summary, handler)
    }

    /// The handler's own types say what it takes and gives; nothing is said twice.
    pub(crate) fn row<P, Q, B, A, F, R>(
        self,
        method: Method,
        path: &'static str,
        success: &'static [u16],
        summary: &'static str,
        handler: F,
    ) -> Route
    where
        P: FromPath,
        Q: FromQuery,
        B: FromBody,
        A: Answer,
        F: Fn(App, Call<W, P, Q, B>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<A>> + Send + 'static,
    {
        let if_full = if method == Method::GET { IfFull::Refuse } else { IfFull::Send };
        let run = move |app: App, request: Request| -> Handling {
            let handler = handler.clone();
            Box::pin(async move {
                let call: Call<W, P, Q, B> = match Call::take(&app, request).await {
                    Ok(call) => call,
                    Err(problem) => return problem.into_response(),
                };
                let holder = call.who.holder();
                match handler(app.clone(), call).await {
                    Ok(answer) => app.answers.count(holder, if_full, answer.respond().await),
                    Err(problem) => problem.into_response(),
                }
            })
        };
        Route {
            method,
            path,
            roles: W::ROLES,
            summary,
            params: Q::PARAMS,
            request: B::media(),
            request_required: B::REQUIRED,
            answer_media: A::MEDIA,
            answer: A::schema,
            success,
            handler: Arc::new(run),
        }
    }
}
