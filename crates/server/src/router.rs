//! From the table of routes to a service. What is not in the table can't be reached.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, Method};

use crate::app::App;
use crate::metrics::Metrics;
use crate::problem::{Code, Problem};
use crate::route::{Handler, Route};
use crate::routes::table;
use crate::tasks::guarded;
use crate::ui;

/// The whole API, and the pages.
pub fn router(app: App) -> Router {
    let routes = table().into_iter().enumerate().map(|(place, route)| (place, route.method, route.path, route.handler));
    let pages = ui::table().into_iter().map(|page| (Metrics::OTHER, page.method, page.path, page.handler));
    serve_all(app, routes.chain(pages))
}

/// `/metrics` alone and without a key, for a listener of its own.
pub fn metrics_router(app: App) -> Router {
    let Route { method, path, handler, .. } = crate::routes::metrics_without_key();
    serve_all(app, [(Metrics::OTHER, method, path, handler)])
}

/// Each comes with its place in the figures.
fn serve_all(app: App, all: impl IntoIterator<Item = (usize, Method, &'static str, Handler)>) -> Router {
    let mut router = Router::new();
    for (place, method, path, handler) in all {
        let serve = move |State(app): State<App>, request: Request| {
            let handler = handler.clone();
            async move {
                let answered = guarded(handler(app.clone(), request)).await;
                let response = answered.unwrap_or_else(|panic| Problem::internal(&panic).into_response());
                finish(&app, place, response)
            }
        };
        router = router.route(path, on(filter(&method), serve));
    }
    router.fallback(no_such_path).method_not_allowed_fallback(method_not_allowed).with_state(app)
}

/// The table uses these four; any other would be served to nobody.
fn filter(method: &Method) -> MethodFilter {
    match *method {
        Method::POST => MethodFilter::POST,
        Method::PUT => MethodFilter::PUT,
        Method::DELETE => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    }
}

/// A person gets a page, a program its problem.
async fn no_such_path(State(app): State<App>, request: Request) -> Response {
    let response = match ui::is_for_a_person(&request) {
        true => ui::nothing_here(),
        false => Problem::plain(Code::NoSuchPath).into_response(),
    };
    finish(&app, Metrics::OTHER, response)
}

async fn method_not_allowed(State(app): State<App>) -> Response {
    finish(&app, Metrics::OTHER, Problem::plain(Code::MethodNotAllowed).into_response())
}

/// On every answer: nothing is sniffed, framed, run or kept.
const HEADERS: [(HeaderName, &str); 4] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (REFERRER_POLICY, "no-referrer"),
];

fn finish(app: &App, place: usize, mut response: Response) -> Response {
    app.metrics.count(place, response.status());
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
