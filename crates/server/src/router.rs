//! Builds the service from the tables of routes and pages. A path that is in neither is not served.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use http::Method;

use crate::app::App;
use crate::problem::{Code, Problem};
use crate::route::{Handler, Route};
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
    let Route { method, path, handler, .. } = crate::routes::metrics_without_key();
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
                false => Problem::plain(Code::NoSuchPath).into_response(),
            }
        })
    })
    .await
}

async fn method_not_allowed(State(app): State<App>, request: Request) -> Response {
    observe(app, MatchedRoute::NONE, request, |_, _| {
        Box::pin(async { Problem::plain(Code::MethodNotAllowed).into_response() })
    })
    .await
}
