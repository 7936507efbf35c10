//! `/login`, where a one-time link leads, and `/logout`.

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{LOCATION, ORIGIN, SET_COOKIE};
use http::{HeaderValue, Method, StatusCode};

use super::page::respond;
use super::shell;
use crate::app::App;
use crate::auth::{no_cookie, session_cookie, session_token};

/// Turns a link into a session. A look ahead (HEAD) uses nothing up.
pub(crate) async fn get(app: App, request: Request) -> Response {
    if request.method() == Method::HEAD {
        return StatusCode::NO_CONTENT.into_response();
    }
    let token = request.uri().query().unwrap_or_default();
    let token = form_urlencoded::parse(token.as_bytes()).find(|(name, _)| name == "token").map(|(_, value)| value);
    let begun = token.and_then(|token| app.sessions.begin(&token, app.store.now(), app.dice.as_ref()));
    match begun {
        Some(session) => to_the_front(&session_cookie(&session, request.headers())),
        None => respond(
            StatusCode::UNAUTHORIZED,
            shell::notice(
                "This link no longer works.",
                "A link works once and for 15 minutes. Press Enter in the demo's terminal for another.",
            ),
        ),
    }
}

/// The cookie never comes along from another site; the origin is looked at all the same.
pub(crate) async fn end(app: App, request: Request) -> Response {
    let headers = request.headers();
    let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let same = origin.is_none_or(|origin| origin.split_once("://").map(|(_, of)| of) == host);
    if let Some(token) = session_token(headers).filter(|_| same) {
        app.sessions.end(token);
    }
    to_the_front(&no_cookie())
}

fn to_the_front(cookie: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
