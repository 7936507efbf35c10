//! `/login`: by a key, or by a link that works once; and `/logout`.

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, Method, StatusCode};
use maud::html;

use super::components::{hidden, isolated};
use super::form::Form;
use super::layout;
use super::page::{respond, see_other};
use crate::app::App;
use crate::auth::{Visitor, log_in, no_cookie, session_cookie, session_token};
use crate::problem::{Code, HttpProblem};

/// Logs in by a link, or asks for a key. A HEAD request does not consume the link.
pub(crate) async fn get(app: App, request: Request) -> Response {
    if request.method() == Method::HEAD {
        return StatusCode::NO_CONTENT.into_response();
    }
    let query = request.uri().query().unwrap_or_default();
    let Some((_, token)) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token") else {
        return ask(StatusCode::OK, None, "/");
    };
    match app.sessions.begin(&token, app.store.now(), app.dice.as_ref()) {
        Some(session) => see_other("/", &[session_cookie(&session, request.headers())]),
        None => ask(
            StatusCode::UNAUTHORIZED,
            Some(
                "This login link was used or has expired: a link works once, within 15 minutes. Get a new one, or log in with a key.",
            ),
            "/",
        ),
    }
}

/// A key, typed in.
pub(crate) async fn post(app: App, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = match Form::read(&app, &parts, body, None).await {
        Ok(form) => form,
        Err(problem) => return ask(problem.status(), Some(&problem.detail), "/"),
    };
    let next = form.one("next").filter(|next| is_ours(next)).unwrap_or("/");
    match log_in(&app, form.one("key").unwrap_or_default()).await {
        Ok(session) => see_other(next, &[session_cookie(&session, &parts.headers)]),
        Err(problem) => refused(&problem, next),
    }
}

/// Ends the session in every tab. It needs the form's token: another site can make a browser send the cookie.
pub(crate) async fn end(app: App, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(who) = Visitor::admit(&app, &parts.headers).await else {
        return see_other("/", &[no_cookie(&parts.headers)]);
    };
    match Form::read(&app, &parts, body, Some(&who)).await {
        Ok(_) => {
            end_session(&app, &parts.headers);
            see_other("/login", &[no_cookie(&parts.headers)])
        }
        Err(problem) => respond(problem.status(), layout::whole(&who, &layout::problem(&problem), None)),
    }
}

fn end_session(app: &App, headers: &HeaderMap) {
    if let Some(token) = session_token(headers) {
        app.sessions.end(token);
    }
}

/// The login form for a request without a session, or with one that lacks the role.
pub(crate) fn refused(problem: &HttpProblem, next: &str) -> Response {
    let says = match problem.code {
        Code::Unauthorized => {
            "Log in to continue. A session ends after an hour of inactivity, or when its key is revoked."
        }
        Code::Forbidden => "This key has no access to that page. Log in with another key.",
        _ => problem.code.help(),
    };
    ask(problem.status(), Some(says), if is_ours(next) { next } else { "/" })
}

/// Whether a redirect stays on this site.
fn is_ours(next: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && c != '\\';
    next.starts_with('/') && !next.starts_with("//") && next.chars().all(plain) && !next.starts_with("/login")
}

fn ask(status: StatusCode, says: Option<&str>, next: &str) -> Response {
    let main = html! {
        div.narrow {
            h1 { "Log in" }
            @if let Some(says) = says { p.notice role="alert" { (isolated(says)) } }
            form.panel.body method="post" action="/login" {
                (hidden("next", next))
                label.field {
                    span { "Key" }
                    input type="password" name="key" required autocomplete="current-password" autofocus placeholder="rdk_…";
                }
                button.primary { "Log in" }
                p.muted {
                    "Use a tenant, operator or admin key. " code { "redrive keys create --role operator" }
                    " creates one; " code { "redrive demo" } " prints a login link instead."
                }
            }
        }
    };
    respond(status, layout::outside("Log in", &main))
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn login_redirects_stay_on_this_site() {
        assert!(is_ours("/runs?state=dead&q=a") && is_ours("/"));
        for elsewhere in ["https://evil.example", "//evil.example", "/\\evil.example", "", "/a\nb", "/login?token=x"] {
            assert!(!is_ours(elsewhere), "{elsewhere}");
        }
    }
}
