//! A person in a browser, known by the session in its cookie.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::COOKIE;
use redrive_core::wire::Role;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::identity::Identity;
use super::secret::{hash_secret, is_well_formed};
use super::sessions::SESSION_MS;
use crate::app::App;
use crate::problem::{Code, Problem, Result};
use crate::telemetry::record_caller;

const NAME: &str = "redrive_session";
/// Set by a page that asks for itself again: nobody may be in front of it.
const FOLLOWS: &str = "x-redrive-follows";

/// Whoever is logged in and may read: made from a session alone, never from a bearer key.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    identity: Identity,
    /// What every form of this session carries.
    csrf: String,
}

impl std::ops::Deref for Visitor {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.identity
    }
}

impl Visitor {
    /// A key that is revoked or has expired takes its sessions with it.
    pub(crate) async fn admit(app: &App, headers: &HeaderMap) -> Result<Self> {
        let Some(token) = session_token(headers) else { return Err(Problem::plain(Code::Unauthorized)) };
        let now = app.store.now();
        let key = match headers.contains_key(FOLLOWS) {
            true => app.sessions.key_behind(token, now),
            false => app.sessions.key_of(token, now),
        };
        let Some(key) = key else { return Err(Problem::plain(Code::Unauthorized)) };
        let known = app.keyring.identify_hash(key, app.store.as_ref()).await;
        if known.as_ref().is_err_and(|problem| problem.code == Code::Unauthorized) {
            app.sessions.end(token);
        }
        let identity = known?;
        record_caller(&identity);
        Ok(Self { identity: for_people(identity)?, csrf: csrf_of(token) })
    }

    pub(crate) fn csrf(&self) -> &str {
        &self.csrf
    }

    pub(crate) fn is_csrf(&self, said: &str) -> bool {
        self.csrf.as_bytes().ct_eq(said.as_bytes()).into()
    }

    pub(crate) fn is_operator(&self) -> bool {
        matches!(self.role(), Role::Operator | Role::Admin)
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.role() == Role::Admin
    }
}

/// A session for whoever has this key; the same refusal for every key that is none.
pub(crate) async fn log_in(app: &App, secret: &str) -> Result<String> {
    if !is_well_formed(secret) {
        return Err(Problem::plain(Code::Unauthorized));
    }
    let hash = hash_secret(secret);
    for_people(app.keyring.identify_hash(hash, app.store.as_ref()).await?)?;
    Ok(app.sessions.begin_for(hash, app.store.now(), app.dice.as_ref()))
}

fn for_people(identity: Identity) -> Result<Identity> {
    match identity.role() {
        Role::Tenant | Role::Operator | Role::Admin => Ok(identity),
        Role::Worker => Err(Problem::plain(Code::Forbidden)),
    }
}

/// Made of the session's token, which no script and no other site can read: nothing has to be kept for it.
fn csrf_of(token: &str) -> String {
    let hash = Sha256::new().chain_update(b"csrf\0").chain_update(token.as_bytes()).finalize();
    URL_SAFE_NO_PAD.encode(hash)
}

/// The one session cookie; two of them are none.
pub(crate) fn session_token(headers: &HeaderMap) -> Option<&str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
    let mut tokens = pairs.filter_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='));
    let (only, None) = (tokens.next()?, tokens.next()) else { return None };
    Some(only)
}

/// What a proxy in front of us may call the scheme that it was asked with, and how it says `https`.
const TLS_HEADERS: [(&str, &str); 8] = [
    ("x-forwarded-proto", "https"),
    ("x-forwarded-protocol", "https"),
    ("x-forwarded-scheme", "https"),
    ("x-url-scheme", "https"),
    ("x-scheme", "https"),
    ("cloudfront-forwarded-proto", "https"),
    ("x-forwarded-ssl", "on"),
    ("front-end-https", "on"),
];

/// Whether the browser speaks TLS to the proxy in front of us. Of a chain of proxies the first is the browser's. Whoever
/// makes it up only keeps its own cookie from plain HTTP.
fn is_over_tls(headers: &HeaderMap) -> bool {
    let first = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(|all| first_of(all, ','));
    let plain = TLS_HEADERS.iter().any(|(name, word)| first(name).is_some_and(|said| said.eq_ignore_ascii_case(word)));
    plain || first("forwarded").is_some_and(says_https)
}

fn first_of(list: &str, separator: char) -> &str {
    list.split(separator).next().unwrap_or_default().trim()
}

/// RFC 7239: `for=192.0.2.60;proto=https;by=203.0.113.43`, names in any case, values quoted or not.
fn says_https(element: &str) -> bool {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let proto = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("proto"));
    proto.is_some_and(|(_, value)| value.trim().trim_matches('"').eq_ignore_ascii_case("https"))
}

/// What a cookie's attributes end in: over TLS it never goes out without.
pub(crate) fn secure(headers: &HeaderMap) -> &'static str {
    if is_over_tls(headers) { "; Secure" } else { "" }
}

/// Never seen by scripts, never sent from another site; over TLS only where a proxy says that it speaks TLS.
pub(crate) fn session_cookie(token: &str, headers: &HeaderMap) -> String {
    let max_age_s = SESSION_MS / 1_000;
    let secure = secure(headers);
    format!("{NAME}={token}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}")
}

pub(crate) fn no_cookie(headers: &HeaderMap) -> String {
    format!("{NAME}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{}", secure(headers))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_session_is_found_among_other_cookies_and_two_are_none() {
        let of = |cookie: &'static str| {
            let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(cookie))]);
            session_token(&headers).map(str::to_owned)
        };
        assert_eq!(of("a=b; redrive_session=t1; c=d"), Some("t1".into()));
        assert_eq!(of("redrive_session=t1; redrive_session=t2"), None);
        assert_eq!(of("redrive_session_x=t1"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_cookie_is_secure_behind_any_tls_proxy() {
        let cookie = |name: &'static str, value: &'static str| {
            let headers =
                HeaderMap::from_iter([(name.parse::<http::HeaderName>().unwrap(), HeaderValue::from_static(value))]);
            (session_cookie("t", &headers).ends_with("; Secure"), no_cookie(&headers).ends_with("; Secure"))
        };
        for (name, value) in [
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Proto", "HTTPS"),
            ("X-Forwarded-Proto", "https, http"),
            ("X-Forwarded-Proto", " https ,http"),
            ("X-Forwarded-Protocol", "https"),
            ("X-Forwarded-Scheme", "https"),
            ("X-Url-Scheme", "https"),
            ("CloudFront-Forwarded-Proto", "https"),
            ("X-Forwarded-Ssl", "on"),
            ("X-Forwarded-Ssl", "ON"),
            ("Front-End-Https", "On"),
            ("Forwarded", "proto=https"),
            ("Forwarded", "for=192.0.2.60; Proto=\"HTTPS\";by=203.0.113.43, for=10.0.0.1;proto=http"),
        ] {
            assert_eq!(cookie(name, value), (true, true), "{name}: {value}");
        }
        for (name, value) in [
            ("X-Forwarded-Proto", "http"),
            ("X-Forwarded-Proto", "http, https"),
            ("X-Forwarded-Proto", "httpsx"),
            ("X-Forwarded-Ssl", "off"),
            ("Forwarded", "for=https"),
            ("Forwarded", "proto=http, proto=https"),
            ("Host", "https"),
        ] {
            assert_eq!(cookie(name, value), (false, false), "{name}: {value}");
        }
    }
}
