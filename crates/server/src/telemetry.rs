//! Observes every request: an id, a tracing span, its duration and its status.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use redrive_core::ids::RunId;
use redrive_engine::Dice;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span};

use crate::app::App;
use crate::auth::Principal;
use crate::problem::{Code, HttpProblem};
use crate::router::HandlerFuture;
use crate::serve::BadHost;
use redrive_engine::tasks::guarded;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The row of the table that a request matched; bounded, so that it can label metrics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatchedRoute {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
}

impl MatchedRoute {
    /// One label for every request that no row matches.
    pub(crate) const NONE: Self = Self { method: "", path: "other" };

    pub(crate) fn new(method: &Method, path: &'static str) -> Self {
        let method = match *method {
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::DELETE => "DELETE",
            _ => "GET",
        };
        Self { method, path }
    }
}

/// Answers one request inside its span. Every answer passes here, so every answer has the id and the headers.
pub(crate) async fn observe(
    app: App,
    route: MatchedRoute,
    request: Request,
    handle: impl FnOnce(App, Request) -> HandlerFuture,
) -> Response {
    let id = app.request_ids.of(request.headers());
    let span = tracing::info_span!(
        "request",
        request_id = id.to_str().unwrap_or_default(),
        method = route.method,
        route = route.path,
        tenant = Empty,
        role = Empty,
    );
    let started = Instant::now();
    let answering = if request.extensions().get::<BadHost>().is_some() {
        let refused = HttpProblem::plain(Code::BadHost).into_response();
        Box::pin(std::future::ready(refused)) as HandlerFuture
    } else {
        handle(app.clone(), request)
    };
    let answered = guarded(answering).instrument(span.clone()).await;
    let elapsed = started.elapsed();
    let mut response = span.in_scope(|| {
        let response = answered.unwrap_or_else(|panic| HttpProblem::internal(&panic).into_response());
        let code = response.extensions().get::<Code>().map(|code| code.as_str());
        let elapsed_ms = elapsed.as_secs_f64() * 1_000.0;
        tracing::debug!(status = response.status().as_u16(), code, elapsed_ms, "request finished");
        response
    });
    app.metrics.record_request(route, response.status(), elapsed);
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.insert(X_REQUEST_ID, id);
    response
}

/// Defaults that a page may relax: nothing is sniffed, framed, run or cached.
const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (REFERRER_POLICY, "no-referrer"),
];

/// Adds the caller to the current request's span. A key that spans tenants has `*`.
pub(crate) fn record_caller(caller: &Principal) {
    let span = Span::current();
    span.record("role", caller.role().as_str());
    match caller.own_tenant() {
        Some(tenant) => span.record("tenant", display(tenant)),
        None => span.record("tenant", "*"),
    };
}

/// Takes or makes the id of each request.
#[derive(Debug)]
pub(crate) struct RequestIds {
    /// Hashed with the counter, so that ids do not reveal the number of requests.
    secret: [u8; 32],
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(dice: &dyn Dice) -> Self {
        let mut secret = [0; 32];
        dice.fill(&mut secret);
        Self { secret, next: AtomicU64::new(0) }
    }

    /// The caller's own id if it sent exactly one and it looks like one of ours, otherwise a new one.
    fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let mut sent = headers.get_all(X_REQUEST_ID).iter();
        if let (Some(only), None) = (sent.next(), sent.next())
            && only.to_str().is_ok_and(|id| id.parse::<RunId>().is_ok())
        {
            return only.clone();
        }
        self.make()
    }

    fn make(&self) -> HeaderValue {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let hash = Sha256::new().chain_update(self.secret).chain_update(n.to_le_bytes()).finalize();
        let mut id = String::with_capacity(32);
        for byte in hash.iter().take(16) {
            let _ = write!(id, "{byte:02x}");
        }
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("-"))
    }
}

#[cfg(test)]
mod tests {
    use redrive_engine::SeededDice;

    use super::*;

    fn answered(sent: &[&str]) -> String {
        let headers = sent.iter().map(|id| (X_REQUEST_ID, HeaderValue::from_bytes(id.as_bytes()).unwrap()));
        let id = RequestIds::new(&SeededDice::new(1)).of(&headers.fold(HeaderMap::new(), |mut all, (name, id)| {
            all.append(name, id);
            all
        }));
        id.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_well_formed_request_id_is_kept() {
        assert_eq!(answered(&["trace:4bf92f35.1"]), "trace:4bf92f35.1");
    }

    #[test]
    fn any_other_request_id_is_replaced() {
        let long = "a".repeat(201);
        for sent in [&[][..], &["a", "a"], &[""], &["a b"], &["é"], &["a\"b"], &[&long]] {
            let id = answered(sent);
            assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{sent:?}: {id}");
        }
    }

    #[test]
    fn made_request_ids_differ() {
        let ids = RequestIds::new(&SeededDice::new(1));
        assert_ne!(ids.make(), ids.make());
    }
}
