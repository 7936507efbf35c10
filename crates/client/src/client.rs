//! The client: builds and sends requests to one server with one key, and reports what went wrong.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::ids::{RunId, Tenant};
use redrive_core::wire::{LeaseBeat, Problem};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::attempt::{HeartbeatGuard, Heartbeats};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A client of one server with one key. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    tenant: Option<Tenant>,
    beats: Arc<Heartbeats>,
}

pub(crate) type Pairs = Vec<(&'static str, String)>;

impl Client {
    /// A client for the server at `url`. Nothing is sent yet.
    ///
    /// ```
    /// let client = redrive_client::Client::new("http://127.0.0.1:7070", "rd_key")?;
    /// # Ok::<(), redrive_client::Error>(())
    /// ```
    pub fn new(url: &str, key: &str) -> Result<Self> {
        let base = base_url(url)?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| Error::Unusable("the key contains invalid characters".into()))?;
        bearer.set_sensitive(true);
        // A provider that is installed already stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            // A key must not follow a redirect to another server.
            .redirect(redirect::Policy::none());
        if is_this_machine(&base) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|e| Error::Unusable(format!("no HTTP client: {e}")))?;
        Ok(Self { http, base, tenant: None, beats: Arc::default() })
    }

    /// The same client, naming `tenant` in every call that concerns one: needed with a key that spans tenants.
    ///
    /// ```
    /// let client = redrive_client::Client::new("http://127.0.0.1:7070", "rd_key")?;
    /// let acme = client.for_tenant("acme".parse().expect("an id"));
    /// # Ok::<(), redrive_client::Error>(())
    /// ```
    #[must_use]
    pub fn for_tenant(&self, tenant: Tenant) -> Self {
        Self { tenant: Some(tenant), ..self.clone() }
    }

    /// Keeps a lease alive until the guard is dropped.
    pub(crate) fn keep_alive(&self, run_id: RunId, lease: String, lease_ms: u64) -> HeartbeatGuard {
        let sender = Self { beats: Arc::default(), ..self.clone() };
        self.beats.keep(sender, LeaseBeat { run_id, tenant: self.tenant.clone(), lease }, lease_ms)
    }

    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    /// `?tenant=`, where one was set.
    pub(crate) fn tenant_pair(&self) -> Pairs {
        self.tenant.iter().map(|tenant| ("tenant", tenant.to_string())).collect()
    }

    pub(crate) fn get<T>(&self, path: &[&str], query: &Pairs) -> ApiRequest<T> {
        let url = self.url(path);
        ApiRequest::new(url.to_string(), Ok(self.http.get(url).query(query)))
    }

    pub(crate) fn delete<T>(&self, path: &[&str]) -> ApiRequest<T> {
        let url = self.url(path);
        ApiRequest::new(url.to_string(), Ok(self.http.delete(url)))
    }

    pub(crate) fn post<T>(&self, path: &[&str], body: &impl Serialize) -> ApiRequest<T> {
        self.with_body(Method::POST, path, body)
    }

    /// To a path that takes no body.
    pub(crate) fn post_nothing<T>(&self, path: &[&str]) -> ApiRequest<T> {
        let url = self.url(path);
        ApiRequest::new(url.to_string(), Ok(self.http.post(url)))
    }

    pub(crate) fn put<T>(&self, path: &[&str], body: &impl Serialize) -> ApiRequest<T> {
        self.with_body(Method::PUT, path, body)
    }

    /// Sends a body byte for byte: for reports that were spooled while no server answered.
    pub fn post_written<T>(&self, path: &[&str], body: String) -> ApiRequest<T> {
        let url = self.url(path);
        let request = self.http.post(url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        ApiRequest::new(url.to_string(), Ok(request)).query(&self.tenant_pair())
    }

    pub(crate) fn post_lines<T>(&self, path: &[&str], lines: String) -> ApiRequest<T> {
        let url = self.url(path);
        let request = self.http.post(url.clone()).header(CONTENT_TYPE, "application/x-ndjson").body(lines);
        ApiRequest::new(url.to_string(), Ok(request))
    }

    fn with_body<T>(&self, method: Method, path: &[&str], body: &impl Serialize) -> ApiRequest<T> {
        let url = self.url(path);
        // Not `.json()`: raw tokens must stay unchanged, and serialization errors keep their type.
        let request = serde_json::to_vec(body)
            .map_err(Error::from)
            .map(|body| self.http.request(method, url.clone()).header(CONTENT_TYPE, "application/json").body(body));
        ApiRequest::new(url.to_string(), request)
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path);
        }
        url
    }
}

fn base_url(url: &str) -> Result<Url> {
    let unusable = |why: &str| Error::Unusable(format!("`{url}` is not a server address: {why}"));
    let parsed = Url::parse(url).map_err(|e| unusable(&e.to_string()))?;
    match parsed.scheme() {
        "http" | "https" if parsed.has_host() => Ok(parsed),
        "http" | "https" => Err(unusable("it names no host")),
        _ => Err(unusable("it begins with http:// or https://")),
    }
}

/// Loopback addresses bypass any proxy.
fn is_this_machine(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

/// A request that is sent when it is awaited.
#[must_use = "a request does nothing until it is awaited"]
#[derive(Debug)]
pub struct ApiRequest<T> {
    request: Result<reqwest::RequestBuilder>,
    /// For error messages: the URL without its query.
    url: String,
    answer: PhantomData<fn() -> T>,
}

impl<T> ApiRequest<T> {
    pub(crate) fn new(url: String, request: Result<reqwest::RequestBuilder>) -> Self {
        Self { request, url, answer: PhantomData }
    }

    pub(crate) fn query(mut self, pairs: &Pairs) -> Self {
        self.request = self.request.map(|request| request.query(pairs));
        self
    }

    /// Overrides the client's default timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request = self.request.map(|request| request.timeout(timeout));
        self
    }

    /// The server's JSON, byte for byte.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> redrive_client::Result<()> {
    /// let json: String = client.limits().text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn text(self) -> Result<String> {
        send(self.request?, self.url).await
    }
}

/// Not generic, so that it is compiled once.
async fn send(request: reqwest::RequestBuilder, url: String) -> Result<String> {
    let answer = request.send().await.map_err(|e| Error::unreachable(&url, &e))?;
    let status = answer.status();
    let is_problem = answer
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/problem+json"));
    let text = answer.text().await.map_err(|e| Error::unreachable(&url, &e))?;
    if status.is_success() && !is_problem {
        return Ok(text);
    }
    match serde_json::from_str::<Problem>(&text) {
        Ok(problem) if is_problem => Err(Error::Problem(Box::new(problem))),
        Ok(_) | Err(_) => Err(Error::Unexpected { url, what: format!("{status} without a problem") }),
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for ApiRequest<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let url = self.url.clone();
        Box::pin(async move {
            let text = self.text().await?;
            serde_json::from_str(&text).map_err(|e| Error::Unexpected { url, what: format!("something else ({e})") })
        })
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused; `code` is stable and says why.
    #[error("{} ({})", .0.detail, .0.code)]
    Problem(Box<Problem>),
    /// No answer from the server.
    #[error("no answer from {url}: {why}")]
    Unreachable { url: String, why: String },
    /// An answer that is not a Redrive server's.
    #[error("{url} answered {what}: is that a Redrive server?")]
    Unexpected { url: String, what: String },
    /// The address or the key can't be used at all.
    #[error("{0}")]
    Unusable(String),
    /// A body that can't be written as JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// The problem's stable code, if the server refused.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            Self::Unreachable { .. } | Self::Unexpected { .. } | Self::Unusable(_) | Self::Json(_) => None,
        }
    }

    /// Whether the attempt no longer belongs to the caller: its work can stop.
    pub fn lease_is_over(&self) -> bool {
        matches!(self.code(), Some("lease_lost" | "cancelled"))
    }

    pub(crate) fn unreachable(url: &str, error: &reqwest::Error) -> Self {
        Self::Unreachable { url: url.into(), why: innermost(error) }
    }
}

/// The innermost cause says what happened ("connection refused").
fn innermost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_scheme_or_host_is_refused() {
        for bad in ["127.0.0.1:7070", "", "file:///etc", "localhost:7070"] {
            assert!(matches!(Client::new(bad, "k"), Err(Error::Unusable(_))), "{bad:?}");
        }
        assert!(matches!(Client::new("http://h", "a\nb"), Err(Error::Unusable(_))));
    }

    #[test]
    fn paths_join_any_base_and_ids_are_one_segment() {
        for base in ["http://h:1", "http://h:1/"] {
            let client = Client::new(base, "k").unwrap();
            assert_eq!(client.url(&["patterns", "a/b?c"]).as_str(), "http://h:1/v1/patterns/a%2Fb%3Fc");
        }
        let behind_a_prefix = Client::new("https://h/redrive/", "k").unwrap();
        assert_eq!(behind_a_prefix.url(&["runs"]).as_str(), "https://h/redrive/v1/runs");
    }

    #[test]
    fn a_key_is_not_in_the_debug_output() {
        let client = Client::new("http://h", "rd_secret").unwrap();
        assert!(!format!("{client:?}").contains("rd_secret"));
    }

    #[tokio::test]
    async fn nobody_there_is_unreachable_and_says_why() {
        let client = Client::new("http://127.0.0.1:9", "k").unwrap();
        let error = client.limits().await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().to_lowercase().contains("refused"), "{error}");
    }
}
