//! The one HTTP client for requests to the outside. The address of every connection is checked against the policy
//! between its resolution and its use, so no DNS answer can change in between. Redirects are not followed, and no proxy
//! is taken from the environment, which would connect in our place.

mod resolver;
mod url;

#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::url::Host;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use redrive_core::outbound::{OutboundPolicy, RefusedAddress};
use reqwest::dns::Resolve;

pub use self::url::{BadOutboundUrl, OutboundUrl, URL_MAX_BYTES};
use resolver::{CheckedResolver, NoAddress, RefusedName, SystemResolver};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
const ANSWER_MAX_BYTES_DEFAULT: usize = 64 * 1024;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_PER_HOST_MAX: usize = 4;
const USER_AGENT: &str = concat!("redrive/", env!("CARGO_PKG_VERSION"));

/// A client for one policy. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Outbound {
    http: reqwest::Client,
    resolver: CheckedResolver,
}

/// One request, with bounds for its answer.
#[derive(Clone)]
pub struct OutboundRequest {
    pub method: Method,
    pub url: OutboundUrl,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// From the resolution of the name to the last byte of the answer.
    pub timeout: Duration,
    /// A longer answer is cut off here.
    pub answer_max_bytes: usize,
}

impl OutboundRequest {
    pub fn new(method: Method, url: OutboundUrl) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: TIMEOUT_DEFAULT,
            answer_max_bytes: ANSWER_MAX_BYTES_DEFAULT,
        }
    }

    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    #[must_use]
    pub fn with_body(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }
    }
}

/// An answer of any status. A redirect is an answer like any other.
#[derive(Debug, Clone)]
pub struct OutboundAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The answer was longer than `answer_max_bytes`.
    pub is_cut: bool,
    /// The address that was connected to.
    pub address: Option<SocketAddr>,
}

/// Why there is no answer. Texts name the host only: paths and queries may hold secrets.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("{host} is not reached: {refused}")]
    Refused { host: String, refused: RefusedAddress },
    #[error("the name {host} was not resolved: {why}")]
    Unresolved { host: String, why: String },
    #[error("{host} did not answer within {timeout_ms} ms")]
    TimedOut { host: String, timeout_ms: u128 },
    #[error("{host} can't be reached: {}", innermost(source))]
    Unreachable { host: String, source: reqwest::Error },
    #[error("no HTTP client: {0}")]
    NoClient(#[source] reqwest::Error),
}

impl OutboundError {
    /// A refused address stays refused until the configuration changes; everything else may pass.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Unresolved { .. } | Self::TimedOut { .. } | Self::Unreachable { .. } | Self::NoClient(_) => false,
        }
    }
}

/// An address of a host, and whether it may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedAddress {
    pub address: IpAddr,
    pub verdict: Result<(), RefusedAddress>,
}

impl Outbound {
    pub fn new(policy: OutboundPolicy) -> Result<Self, OutboundError> {
        Self::with_resolver(policy, Arc::new(SystemResolver))
    }

    fn with_resolver(policy: OutboundPolicy, names: Arc<dyn Resolve>) -> Result<Self, OutboundError> {
        let resolver = CheckedResolver::new(policy, names);
        // A provider that is installed already stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .dns_resolver(Arc::new(resolver.clone()))
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            // What was sent is sent again only by those who know that it may be.
            .retry(reqwest::retry::never())
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .build()
            .map_err(OutboundError::NoClient)?;
        Ok(Self { http, resolver })
    }

    pub async fn send(&self, request: OutboundRequest) -> Result<OutboundAnswer, OutboundError> {
        let OutboundRequest { method, url, headers, body, timeout, answer_max_bytes } = request;
        self.check_literal(&url)?;
        let failed = |error| failure(&url, timeout, error);
        let sending = self.http.request(method, url.as_url().clone()).headers(headers).body(body).timeout(timeout);
        let mut response = sending.send().await.map_err(failed)?;
        let mut body = BytesMut::new();
        let mut is_cut = false;
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            let room = answer_max_bytes - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                is_cut = true;
                break;
            }
        }
        Ok(OutboundAnswer {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body: body.freeze(),
            is_cut,
            address: response.remote_addr(),
        })
    }

    /// Every address of the URL's host with its verdict. Nothing is sent.
    pub async fn check(&self, url: &OutboundUrl) -> Result<Vec<CheckedAddress>, OutboundError> {
        match url.host() {
            Host::Domain(name) => {
                let all = self.resolver.check_name(name).await;
                all.map_err(|why| OutboundError::Unresolved { host: name.into(), why: why.to_string() })
            }
            Host::Ipv4(address) => Ok(vec![self.resolver.check(address.into())]),
            Host::Ipv6(address) => Ok(vec![self.resolver.check(address.into())]),
        }
    }

    /// An address in the URL itself is never resolved, so the resolver does not see it.
    fn check_literal(&self, url: &OutboundUrl) -> Result<(), OutboundError> {
        let verdict = match url.host() {
            Host::Domain(_) => Ok(()),
            Host::Ipv4(address) => self.resolver.check(address.into()).verdict,
            Host::Ipv6(address) => self.resolver.check(address.into()).verdict,
        };
        verdict.map_err(|refused| OutboundError::Refused { host: url.host_text(), refused })
    }
}

fn failure(url: &OutboundUrl, timeout: Duration, error: reqwest::Error) -> OutboundError {
    let host = url.host_text();
    if let Some(RefusedName(refused)) = cause(&error) {
        return OutboundError::Refused { host, refused: *refused };
    }
    if let Some(NoAddress(why)) = cause(&error) {
        return OutboundError::Unresolved { host, why: why.clone() };
    }
    if error.is_timeout() {
        let timeout_ms = if error.is_connect() { timeout.min(CONNECT_TIMEOUT) } else { timeout }.as_millis();
        return OutboundError::TimedOut { host, timeout_ms };
    }
    OutboundError::Unreachable { host, source: error.without_url() }
}

fn cause<E: StdError + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref() {
            return Some(found);
        }
        next = current.source();
    }
    None
}

/// The innermost cause says what happened ("connection refused").
fn innermost(error: &reqwest::Error) -> String {
    let mut current: &dyn StdError = error;
    while let Some(next) = current.source() {
        current = next;
    }
    current.to_string()
}
