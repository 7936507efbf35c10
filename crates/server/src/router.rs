//! Routes, and the service built from the tables of routes and pages. A path that is in neither table is not served.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use http::Method;
use redrive_core::wire::Role;

use crate::app::App;
use crate::auth::Caller;
use crate::body::{FromBody, SchemaOf};
use crate::budget::IfFull;
use crate::call::{ApiCall, ApiResponse};
use crate::path::FromPath;
use crate::problem::{Code, HttpProblem, Result};
use crate::query::{FromQuery, Param};
use crate::routes::table;
use crate::telemetry::{MatchedRoute, observe};
use crate::ui;

/// The API and the pages.
pub fn router(app: App) -> Router {
    let routes = table().into_iter().map(|route| (route.method, route.path, route.handler));
    let pages = ui::table().into_iter().map(|page| (page.method, page.path, page.handler));
    serve_all(app, routes.chain(pages))
}

/// `/metrics` alone, without a key, for a listener of its own.
pub fn metrics_router(app: App) -> Router {
    let ApiRoute { method, path, handler, .. } = crate::routes::metrics_without_key();
    serve_all(app, [(method, path, handler)])
}

fn serve_all(app: App, rows: impl IntoIterator<Item = (Method, &'static str, Handler)>) -> Router {
    let mut router = Router::new();
    for (method, path, handler) in rows {
        let route = MatchedRoute::new(&method, path);
        let serve = move |State(app): State<App>, request: Request| {
            let handler = handler.clone();
            observe(app, route, request, move |app, request| handler(app, request))
        };
        router = router.route(path, on(filter(&method), serve));
    }
    router.fallback(path_not_found).method_not_allowed_fallback(method_not_allowed).with_state(app)
}

/// The tables use these four methods.
fn filter(method: &Method) -> MethodFilter {
    match *method {
        Method::POST => MethodFilter::POST,
        Method::PUT => MethodFilter::PUT,
        Method::DELETE => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    }
}

/// A browser gets a page, a program a problem.
async fn path_not_found(State(app): State<App>, request: Request) -> Response {
    observe(app, MatchedRoute::NONE, request, |_, request| {
        Box::pin(async move {
            match ui::is_for_a_person(&request) {
                true => ui::nothing_here(),
                false => HttpProblem::plain(Code::NoSuchPath).into_response(),
            }
        })
    })
    .await
}

async fn method_not_allowed(State(app): State<App>, request: Request) -> Response {
    observe(app, MatchedRoute::NONE, request, |_, _| {
        Box::pin(async { HttpProblem::plain(Code::MethodNotAllowed).into_response() })
    })
    .await
}

pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Response> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(App, Request) -> HandlerFuture + Send + Sync>;

pub struct ApiRoute {
    pub method: Method,
    /// The path with its parameters in braces.
    pub path: &'static str,
    /// None: the route needs no key.
    pub roles: Option<&'static [Role]>,
    pub summary: &'static str,
    pub(crate) params: &'static [Param],
    /// The body's media types with their schemas.
    pub(crate) request: Vec<(&'static str, SchemaOf)>,
    pub(crate) request_required: bool,
    pub(crate) answer_media: &'static [&'static str],
    pub(crate) answer: SchemaOf,
    pub success: &'static [u16],
    pub(crate) handler: Handler,
}

impl ApiRoute {
    /// The tag in the OpenAPI document.
    pub fn tag(&self) -> &'static str {
        let path = self.path.trim_start_matches("/v1/");
        match path.split('/').find(|part| !part.is_empty()) {
            Some("api") => "dlq",
            _ if !self.path.starts_with("/v1/") => "probes",
            Some(first) => first,
            None => "probes",
        }
    }

    /// The names of the path parameters.
    pub fn path_params(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// Starts a row of the table with the callers it admits.
pub(crate) fn by<W: Caller>() -> RouteBuilder<W> {
    RouteBuilder(PhantomData)
}

pub(crate) struct RouteBuilder<W>(PhantomData<fn() -> W>);

impl<W: Caller> RouteBuilder<W> {
    pub(crate) fn get<P, Q, A, F, R>(self, path: &'static str, summary: &'static str, handler: F) -> ApiRoute
    where
        P: FromPath,
        Q: FromQuery,
        A: ApiResponse,
        F: Fn(App, ApiCall<W, P, Q>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<A>> + Send + 'static,
    {
        self.route(Method::GET, path, &[200], summary, handler)
    }

    pub(crate) fn post<P, Q, B, A, F, R>(
        self,
        path: &'static str,
        success: &'static [u16],
        summary: &'static str,
        handler: F,
    ) -> ApiRoute
    where
        P: FromPath,
        Q: FromQuery,
        B: FromBody,
        A: ApiResponse,
        F: Fn(App, ApiCall<W, P, Q, B>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<A>> + Send + 'static,
    {
        self.route(Method::POST, path, success, summary, handler)
    }

    /// The handler's own types describe the request and the answer, so nothing is declared twice.
    pub(crate) fn route<P, Q, B, A, F, R>(
        self,
        method: Method,
        path: &'static str,
        success: &'static [u16],
        summary: &'static str,
        handler: F,
    ) -> ApiRoute
    where
        P: FromPath,
        Q: FromQuery,
        B: FromBody,
        A: ApiResponse,
        F: Fn(App, ApiCall<W, P, Q, B>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<A>> + Send + 'static,
    {
        let if_full = if method == Method::GET { IfFull::Refuse } else { IfFull::Send };
        let run = move |app: App, request: Request| -> HandlerFuture {
            let handler = handler.clone();
            Box::pin(async move {
                let call: ApiCall<W, P, Q, B> = match ApiCall::take(&app, request).await {
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
        ApiRoute {
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
