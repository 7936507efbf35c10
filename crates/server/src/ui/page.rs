//! A row of the table of pages: where it is, and who gets to see it.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::html::Html;
use super::shell;
use crate::app::App;
use crate::auth::Visitor;
use crate::problem::{Code, Problem, Result};
use crate::route::{Handler, Handling};

/// Styles from here alone; forms come back here alone.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub struct Page {
    pub method: Method,
    pub path: &'static str,
    /// Whether it asks for a session.
    pub asks: bool,
    pub(crate) handler: Handler,
}

/// A page that only somebody who is logged in sees.
pub(crate) fn for_visitors<F, R>(path: &'static str, render: F) -> Page
where
    F: Fn(App, Visitor, HeaderMap) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Html>> + Send + 'static,
{
    let handler = move |app: App, request: Request| -> Handling {
        let render = render.clone();
        Box::pin(async move {
            let headers = request.into_parts().0.headers;
            let rendered = match Visitor::admit(&app, &headers).await {
                Ok(visitor) => render(app, visitor, headers).await,
                Err(problem) => Err(problem),
            };
            match rendered {
                Ok(html) => respond(StatusCode::OK, html),
                Err(problem) => refuse(&problem),
            }
        })
    };
    Page { method: Method::GET, path, asks: true, handler: Arc::new(handler) }
}

/// A call that needs no session, such as the one that begins it.
pub(crate) fn open<F, R>(method: Method, path: &'static str, answer: F) -> Page
where
    F: Fn(App, Request) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response> + Send + 'static,
{
    let handler = move |app: App, request: Request| -> Handling { Box::pin(answer(app, request)) };
    Page { method, path, asks: false, handler: Arc::new(handler) }
}

pub(crate) fn respond(status: StatusCode, html: Html) -> Response {
    let mut response = (status, html.into_string()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

fn refuse(problem: &Problem) -> Response {
    let (headline, what_to_do) = match problem.code {
        Code::Unauthorized => (
            "You are not logged in.",
            "Open the link that `redrive demo` printed. A link works once; press Enter in that terminal for another.",
        ),
        Code::Forbidden => {
            ("This key only does a worker's work.", "Log in with a tenant's, operator's or admin's key.")
        }
        _ => (problem.code.title(), problem.code.help()),
    };
    respond(problem.status(), shell::notice(headline, what_to_do))
}
