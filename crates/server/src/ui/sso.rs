//! `/login/oidc`: sends the browser to the identity provider, and takes it back.

use axum::extract::Request;
use axum::response::Response;
use http::header::{COOKIE, HOST, REFRESH, SET_COOKIE};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode};
use maud::html;
use redrive_core::sso::NoGroupRole;

use super::components::isolated;
use super::layout;
use super::login::is_ours;
use super::page::{nothing_here, respond, see_other};
use crate::app::App;
use crate::auth::{Callback, PENDING_MS, SsoRefusal, secure, session_cookie};
use crate::serve::{ClientAddress, FORWARDED_HOST, SCHEME};

const STATE_COOKIE: &str = "redrive_oidc";
const PARAM_MAX_BYTES: usize = 4_000;

/// The address that begins a login and then shows `next`.
pub(super) fn path(next: &str) -> String {
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    format!("/login/oidc?next={next}")
}

pub(crate) async fn begin(app: App, request: Request) -> Response {
    let Some(sso) = &app.sso else { return nothing_here() };
    let (parts, _) = request.into_parts();
    let Some(origin) = origin(&parts.headers) else { return nothing_here() };
    let next = param(&parts, "next").filter(|next| is_ours(next)).unwrap_or_else(|| "/".into());
    let from = ClientAddress::of(&parts.extensions);
    match sso.begin(&origin, next, from, app.store.now(), app.dice.as_ref()).await {
        Ok(begun) => see_other(&begun.location, &[state_cookie(&begun.state, PENDING_MS, &parts.headers)]),
        Err(refusal) => refused(&refusal),
    }
}

/// A browser does not send a strict cookie along a redirect that another site began, so the desk is opened by the page.
pub(crate) async fn finish(app: App, request: Request) -> Response {
    let Some(sso) = &app.sso else { return nothing_here() };
    let (parts, _) = request.into_parts();
    let callback = Callback {
        state: param(&parts, "state"),
        code: param(&parts, "code"),
        error: param(&parts, "error"),
        error_description: param(&parts, "error_description"),
        iss: param(&parts, "iss"),
    };
    let headers = &parts.headers;
    let signed_in = match sso.finish(callback, state(headers), app.store.now()).await {
        Ok(signed_in) => signed_in,
        Err(refusal) => return refused(&refusal),
    };
    let session = app.sessions.begin_for(signed_in.key_hash, app.store.now(), app.dice.as_ref());
    let main = html! {
        div.narrow {
            h1 { "Signed in" }
            p { a.button.primary href=(signed_in.next) { "Continue" } }
        }
    };
    let mut response = respond(StatusCode::OK, layout::outside("Signed in", &main));
    if let Ok(value) = HeaderValue::try_from(format!("0; url={}", signed_in.next)) {
        response.headers_mut().insert(REFRESH, value);
    }
    for cookie in [session_cookie(&session, headers), state_cookie("", 0, headers)] {
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    response
}

fn refused(refusal: &SsoRefusal) -> Response {
    let (status, title, text) = match refusal {
        SsoRefusal::Provider(error) => {
            tracing::warn!(%error, "the identity provider failed");
            let text = "The identity provider does not answer as it should. Try again, or log in with a key.";
            (StatusCode::SERVICE_UNAVAILABLE, "Sign-in is not available", text.to_owned())
        }
        SsoRefusal::Expired => {
            let text = "This sign-in was used, has expired, or began in another browser. Start again.";
            (StatusCode::UNAUTHORIZED, "Sign-in expired", text.to_owned())
        }
        SsoRefusal::Denied(text) => {
            (StatusCode::UNAUTHORIZED, "Sign-in refused", format!("The identity provider says: {text}"))
        }
        SsoRefusal::Token(bad) => {
            tracing::warn!(error = %bad, "ID token refused");
            let text = "The identity provider's answer could not be verified. Ask an administrator.";
            (StatusCode::UNAUTHORIZED, "Sign-in refused", text.to_owned())
        }
        SsoRefusal::NoRole { person, why: NoGroupRole::NoGroup } => {
            let text = format!("{person} is in no group that has access. Ask an administrator to add you to one.");
            (StatusCode::FORBIDDEN, "No access", text)
        }
        SsoRefusal::NoRole { person, why: NoGroupRole::SeveralTenants } => {
            let text = format!(
                "The groups of {person} belong to several tenants, and a session shows one. Ask an administrator."
            );
            (StatusCode::FORBIDDEN, "No access", text)
        }
    };
    let main = html! {
        div.narrow {
            h1 { (title) }
            p.notice role="alert" { (isolated(&text)) }
            p { a.button.primary href="/login" { "Back to log in" } }
        }
    };
    respond(status, layout::outside(title, &main))
}

/// The desk's address as the browser sees it. The provider compares it with the registered one.
fn origin(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(FORWARDED_HOST).or_else(|| headers.get(HOST))?.to_str().ok()?;
    let host: Authority = host.parse().ok()?;
    let scheme = if headers.get(SCHEME).is_some_and(|scheme| scheme == "https") { "https" } else { "http" };
    (!host.as_str().contains('@')).then(|| format!("{scheme}://{host}"))
}

fn param(parts: &Parts, name: &str) -> Option<String> {
    let query = parts.uri.query().unwrap_or_default();
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
    values.next().map(|(_, value)| value.into_owned()).filter(|value| value.len() <= PARAM_MAX_BYTES)
}

/// Not strict: the provider's redirect has to bring it back.
fn state_cookie(state: &str, lives_ms: u64, headers: &HeaderMap) -> String {
    let max_age_s = lives_ms / 1_000;
    let secure = secure(headers);
    format!("{STATE_COOKIE}={state}; Path=/login/oidc; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{secure}")
}

fn state(headers: &HeaderMap) -> Option<&str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
    let mut states = pairs.filter_map(|pair| pair.trim().strip_prefix(STATE_COOKIE)?.strip_prefix('='));
    let (only, None) = (states.next()?, states.next()) else { return None };
    Some(only)
}
