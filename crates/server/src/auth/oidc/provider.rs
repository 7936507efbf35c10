//! The identity provider: its published addresses and keys, fetched when needed and kept for a while, and the exchange of
//! a code for tokens.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method};
use redrive_connect::{Outbound, OutboundRequest, OutboundUrl};
use redrive_core::time::{HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use super::OidcConfig;
use super::token::{Jwks, PersonClaims};

const KEPT_MS: u64 = HOUR_MS;
/// Keys are fetched again for a token with an unknown key, but not more often than this.
const REFRESH_MS: u64 = MINUTE_MS;
/// After a failure the next login does not wait for the provider again.
const FAILED_MS: u64 = 5 * SECOND_MS;
const TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_MAX_BYTES: usize = 1024 * 1024;

/// The provider does not answer as it should. The text is for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ProviderError(pub(super) String);

/// `/.well-known/openid-configuration`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Discovery {
    issuer: String,
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

impl Discovery {
    /// Scopes that the provider does not know may be an error there.
    pub(super) fn scopes(&self) -> String {
        let known = |scope: &&str| self.scopes_supported.iter().any(|supported| supported == scope);
        let more = ["profile", "email", "groups"].into_iter().filter(known);
        std::iter::once("openid").chain(more).collect::<Vec<_>>().join(" ")
    }
}

#[derive(Debug, Deserialize)]
struct TokenAnswer {
    id_token: String,
    access_token: Option<String>,
}

/// The tokens of one login.
pub(super) struct Tokens {
    pub(super) id_token: String,
    pub(super) access_token: Option<String>,
}

/// A fetched document, or the last failure to fetch it.
struct Fetched<T> {
    at: Timestamp,
    result: Result<Arc<T>, ProviderError>,
}

impl<T> Fetched<T> {
    fn is_fresh(&self, now: Timestamp) -> bool {
        now.since(self.at) < if self.result.is_ok() { KEPT_MS } else { FAILED_MS }
    }
}

pub(super) struct Provider {
    config: Arc<OidcConfig>,
    http: Outbound,
    discovery: Mutex<Option<Fetched<Discovery>>>,
    keys: Mutex<Option<Fetched<Jwks>>>,
}

impl Provider {
    pub(super) fn new(config: Arc<OidcConfig>, http: Outbound) -> Self {
        Self { config, http, discovery: Mutex::default(), keys: Mutex::default() }
    }

    /// Logins that come at the same time wait for one fetch.
    pub(super) async fn discovery(&self, now: Timestamp) -> Result<Arc<Discovery>, ProviderError> {
        let mut kept = self.discovery.lock().await;
        if let Some(fetched) = kept.as_ref().filter(|fetched| fetched.is_fresh(now)) {
            return fetched.result.clone();
        }
        let result = self.fetch_discovery().await.map(Arc::new);
        *kept = Some(Fetched { at: now, result: result.clone() });
        result
    }

    async fn fetch_discovery(&self) -> Result<Discovery, ProviderError> {
        let issuer = &self.config.issuer;
        let discovery: Discovery =
            self.get(&format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')), None).await?;
        if discovery.issuer != *issuer {
            return Err(ProviderError("the provider names another issuer than the configuration".into()));
        }
        Ok(discovery)
    }

    pub(super) async fn keys(&self, discovery: &Discovery, now: Timestamp) -> Result<Arc<Jwks>, ProviderError> {
        self.keys_within(discovery, now, KEPT_MS).await
    }

    /// For a token with an unknown key: the provider may have new ones.
    pub(super) async fn newer_keys(&self, discovery: &Discovery, now: Timestamp) -> Result<Arc<Jwks>, ProviderError> {
        self.keys_within(discovery, now, REFRESH_MS).await
    }

    async fn keys_within(
        &self,
        discovery: &Discovery,
        now: Timestamp,
        age_ms: u64,
    ) -> Result<Arc<Jwks>, ProviderError> {
        let mut kept = self.keys.lock().await;
        if let Some(fetched) = kept.as_ref().filter(|fetched| fetched.is_fresh(now) && now.since(fetched.at) < age_ms) {
            return fetched.result.clone();
        }
        let result = self.get(&discovery.jwks_uri, None).await.map(Arc::new);
        *kept = Some(Fetched { at: now, result: result.clone() });
        result
    }

    /// Exchanges a code, which works once.
    pub(super) async fn exchange(
        &self,
        discovery: &Discovery,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
    ) -> Result<Tokens, ProviderError> {
        let request = self.token_request(discovery, code, verifier, redirect_uri)?;
        let answer: TokenAnswer = self.send(request).await?;
        Ok(Tokens { id_token: answer.id_token, access_token: answer.access_token })
    }

    fn token_request(
        &self,
        discovery: &Discovery,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
    ) -> Result<OutboundRequest, ProviderError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code").append_pair("code", code);
        form.append_pair("redirect_uri", redirect_uri).append_pair("code_verifier", verifier);
        let mut request = OutboundRequest::new(Method::POST, url(&discovery.token_endpoint)?)
            .with_header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        // Basic authentication is what a provider that says nothing takes.
        let methods = discovery.token_endpoint_auth_methods_supported.as_deref();
        let basic = methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"));
        match &self.config.client_secret {
            Some(secret) if basic => {
                request = request.with_header(AUTHORIZATION, basic_auth(&self.config.client_id, secret)?);
            }
            Some(secret) => {
                form.append_pair("client_id", &self.config.client_id).append_pair("client_secret", secret);
            }
            None => {
                form.append_pair("client_id", &self.config.client_id);
            }
        }
        Ok(request.with_body(form.finish()))
    }

    /// Claims that the ID token leaves out. They have to be about the same person.
    pub(super) async fn user_info(
        &self,
        discovery: &Discovery,
        access_token: &str,
        subject: &str,
    ) -> Result<Option<PersonClaims>, ProviderError> {
        #[derive(Deserialize)]
        struct UserInfo {
            sub: String,
            #[serde(flatten)]
            person: PersonClaims,
        }
        let Some(endpoint) = &discovery.userinfo_endpoint else { return Ok(None) };
        let bearer = secret_header(format!("Bearer {access_token}"))?;
        let info: UserInfo = self.get(endpoint, Some(bearer)).await?;
        if info.sub != subject {
            return Err(ProviderError("the user info is about somebody else".into()));
        }
        Ok(Some(info.person))
    }

    async fn get<T: DeserializeOwned>(&self, text: &str, bearer: Option<HeaderValue>) -> Result<T, ProviderError> {
        let mut request = OutboundRequest::new(Method::GET, url(text)?);
        if let Some(bearer) = bearer {
            request = request.with_header(AUTHORIZATION, bearer);
        }
        self.send(request).await
    }

    async fn send<T: DeserializeOwned>(&self, request: OutboundRequest) -> Result<T, ProviderError> {
        let host = request.url.host_text();
        let request = OutboundRequest { timeout: TIMEOUT, answer_max_bytes: ANSWER_MAX_BYTES, ..request }
            .with_header(ACCEPT, HeaderValue::from_static("application/json"));
        let answer = self.http.send(request).await.map_err(|error| ProviderError(error.to_string()))?;
        if !answer.status.is_success() || answer.is_cut {
            let status = answer.status.as_u16();
            return Err(ProviderError(format!("{host} answers with HTTP {status}{}", error_code(&answer.body))));
        }
        serde_json::from_slice(&answer.body).map_err(|_| ProviderError(format!("{host} answers with unexpected JSON")))
    }
}

/// The provider's own word for what is wrong, such as `invalid_client`.
fn error_code(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct OAuthError {
        error: String,
    }
    let is_word = |text: &str| text.len() <= 100 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match serde_json::from_slice(body) {
        Ok(OAuthError { error }) if is_word(&error) => format!(" ({error})"),
        Ok(_) | Err(_) => String::new(),
    }
}

fn url(text: &str) -> Result<OutboundUrl, ProviderError> {
    text.parse().map_err(|bad| ProviderError(format!("an address of the provider is not usable: {bad}")))
}

/// RFC 6749: both parts are form-encoded first.
fn basic_auth(client_id: &str, secret: &str) -> Result<HeaderValue, ProviderError> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client_id), encoded(secret));
    secret_header(format!("Basic {}", STANDARD.encode(pair)))
}

fn secret_header(text: String) -> Result<HeaderValue, ProviderError> {
    let mut value = HeaderValue::try_from(text).map_err(|_| ProviderError("a token is no header value".into()))?;
    value.set_sensitive(true);
    Ok(value)
}
