//! Browser sessions: a login link works once, and a session lives in memory until it is idle, old or its key is revoked.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::COOKIE;
use redrive_core::time::{HOUR_MS, MINUTE_MS, Timestamp};
use redrive_core::wire::Role;
use redrive_engine::Dice;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::caller::Principal;
use super::keys::{hash_secret, is_well_formed};
use crate::app::App;
use crate::problem::{Code, HttpProblem, Result};
use crate::telemetry::record_caller;

pub const LINK_MS: u64 = 15 * MINUTE_MS;
/// A session ends after this long without a call.
pub const SESSION_IDLE_MS: u64 = HOUR_MS;
/// A session ends after this long in any case.
pub const SESSION_MS: u64 = 12 * HOUR_MS;
const LINKS_MAX: usize = 1_000;
const SESSIONS_MAX: usize = 10_000;
/// More would gain nothing: the key itself can log in at any time.
const SESSIONS_PER_KEY_MAX: usize = 100;
const TOKEN_BYTES: usize = 32;

/// The hash of the key that a link or a session belongs to.
type KeyHash = [u8; 32];
/// Tokens are stored as hashes, like keys.
type TokenHash = [u8; 32];

struct Link {
    key: KeyHash,
    until: Timestamp,
}

struct BrowserSession {
    key: KeyHash,
    begun: Timestamp,
    seen: Timestamp,
}

impl BrowserSession {
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.seen) >= SESSION_IDLE_MS || now.since(self.begun) >= SESSION_MS
    }
}

#[derive(Default)]
struct SessionTables {
    links: HashMap<TokenHash, Link>,
    sessions: HashMap<TokenHash, BrowserSession>,
}

impl SessionTables {
    fn begin(&mut self, key: KeyHash, now: Timestamp, dice: &dyn Dice) -> String {
        let token = new_token(dice);
        self.sessions.retain(|_, session| !session.is_over(now));
        self.make_room_for(key);
        self.sessions.insert(hash_secret(&token), BrowserSession { key, begun: now, seen: now });
        token
    }

    /// A key at its bound gives up its own oldest session. When all places are taken, the key with the most sessions
    /// does: many logins with one key never end a session of another that has fewer.
    fn make_room_for(&mut self, key: KeyHash) {
        let mut by_key: HashMap<KeyHash, usize> = HashMap::new();
        for session in self.sessions.values() {
            *by_key.entry(session.key).or_default() += 1;
        }
        let own = by_key.get(&key).copied().unwrap_or_default();
        let gives_up = if own >= SESSIONS_PER_KEY_MAX {
            Some(key)
        } else if self.sessions.len() >= SESSIONS_MAX {
            by_key.into_iter().max_by_key(|(_, count)| *count).map(|(key, _)| key)
        } else {
            None
        };
        let Some(from) = gives_up else { return };
        let of_key = self.sessions.iter().filter(|(_, session)| session.key == from);
        if let Some(oldest) = of_key.min_by_key(|(_, session)| session.seen).map(|(hash, _)| *hash) {
            self.sessions.remove(&oldest);
        }
    }
}

#[derive(Default)]
pub(crate) struct Sessions(Mutex<SessionTables>);

impl Sessions {
    /// A token that logs in once as this key.
    pub(crate) fn new_link(&self, key: KeyHash, now: Timestamp, dice: &dyn Dice) -> String {
        let token = new_token(dice);
        let mut tables = self.tables();
        tables.links.retain(|_, link| now < link.until);
        make_room(&mut tables.links, LINKS_MAX, |link| link.until);
        tables.links.insert(hash_secret(&token), Link { key, until: now.plus_ms(LINK_MS) });
        token
    }

    /// Consumes the link. None: it was used before, has expired, or never existed.
    pub(crate) fn begin(&self, link: &str, now: Timestamp, dice: &dyn Dice) -> Option<String> {
        let mut tables = self.tables();
        let link = tables.links.remove(&hash_secret(link)).filter(|link| now < link.until)?;
        Some(tables.begin(link.key, now, dice))
    }

    /// For a caller that has presented the key itself.
    pub(crate) fn begin_for(&self, key: KeyHash, now: Timestamp, dice: &dyn Dice) -> String {
        self.tables().begin(key, now, dice)
    }

    /// The key of a live session; the look-up counts as a call.
    pub(crate) fn key_of(&self, token: &str, now: Timestamp) -> Option<KeyHash> {
        self.find(token, now, true)
    }

    /// The same for a page that refreshes itself, which does not extend the session.
    pub(crate) fn key_behind(&self, token: &str, now: Timestamp) -> Option<KeyHash> {
        self.find(token, now, false)
    }

    fn find(&self, token: &str, now: Timestamp, counts: bool) -> Option<KeyHash> {
        let hash = hash_secret(token);
        let mut tables = self.tables();
        let session = tables.sessions.get_mut(&hash).filter(|session| !session.is_over(now))?;
        if counts {
            session.seen = session.seen.max(now);
        }
        Some(session.key)
    }

    pub(crate) fn end(&self, token: &str) {
        self.tables().sessions.remove(&hash_secret(token));
    }

    fn tables(&self) -> MutexGuard<'_, SessionTables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_token(dice: &dyn Dice) -> String {
    let mut bytes = [0; TOKEN_BYTES];
    dice.fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// When the map is full, the entry that ends first is removed.
fn make_room<T>(of: &mut HashMap<TokenHash, T>, most: usize, by: impl Fn(&T) -> Timestamp) {
    while of.len() >= most {
        let Some(first) = of.iter().min_by_key(|(_, entry)| by(entry)).map(|(hash, _)| *hash) else { return };
        of.remove(&first);
    }
}

const SESSION_COOKIE: &str = "redrive_session";
/// Sent by a page that refreshes itself.
const FOLLOWS: &str = "x-redrive-follows";

/// A person who is logged in; made from a session, never from a bearer key.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    principal: Principal,
    /// The token that every form of this session carries.
    csrf: String,
}

impl std::ops::Deref for Visitor {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        &self.principal
    }
}

impl Visitor {
    /// A key that is revoked or has expired ends its sessions.
    pub(crate) async fn admit(app: &App, headers: &HeaderMap) -> Result<Self> {
        let Some(token) = session_token(headers) else { return Err(HttpProblem::plain(Code::Unauthorized)) };
        let now = app.store.now();
        let key = match headers.contains_key(FOLLOWS) {
            true => app.sessions.key_behind(token, now),
            false => app.sessions.key_of(token, now),
        };
        let Some(key) = key else { return Err(HttpProblem::plain(Code::Unauthorized)) };
        let known = app.keyring.identify_hash(key, app.store.as_ref()).await;
        if known.as_ref().is_err_and(|problem| problem.code == Code::Unauthorized) {
            app.sessions.end(token);
        }
        let principal = known?;
        record_caller(&principal);
        Ok(Self { principal: for_people(principal)?, csrf: csrf_of(token) })
    }

    pub(crate) fn csrf(&self) -> &str {
        &self.csrf
    }

    pub(crate) fn is_csrf(&self, token: &str) -> bool {
        self.csrf.as_bytes().ct_eq(token.as_bytes()).into()
    }

    pub(crate) fn is_operator(&self) -> bool {
        matches!(self.role(), Role::Operator | Role::Admin)
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.role() == Role::Admin
    }
}

/// Starts a session for this key; every invalid key gets the same refusal.
pub(crate) async fn log_in(app: &App, secret: &str) -> Result<String> {
    if !is_well_formed(secret) {
        return Err(HttpProblem::plain(Code::Unauthorized));
    }
    let hash = hash_secret(secret);
    for_people(app.keyring.identify_hash(hash, app.store.as_ref()).await?)?;
    Ok(app.sessions.begin_for(hash, app.store.now(), app.dice.as_ref()))
}

fn for_people(principal: Principal) -> Result<Principal> {
    match principal.role() {
        Role::Tenant | Role::Operator | Role::Admin => Ok(principal),
        Role::Worker => Err(HttpProblem::plain(Code::Forbidden)),
    }
}

/// Derived from the session's token, which no script and no other site can read, so nothing has to be stored.
fn csrf_of(token: &str) -> String {
    let hash = Sha256::new().chain_update(b"csrf\0").chain_update(token.as_bytes()).finalize();
    URL_SAFE_NO_PAD.encode(hash)
}

/// The session cookie, if there is exactly one.
pub(crate) fn session_token(headers: &HeaderMap) -> Option<&str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
    let mut tokens = pairs.filter_map(|pair| pair.trim().strip_prefix(SESSION_COOKIE)?.strip_prefix('='));
    let (only, None) = (tokens.next()?, tokens.next()) else { return None };
    Some(only)
}

/// Headers in which proxies report the scheme, with the value that means TLS.
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

/// Whether the browser speaks TLS to the first proxy. A client that forges the header only limits its own cookie.
fn is_over_tls(headers: &HeaderMap) -> bool {
    let first = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(|all| first_of(all, ','));
    let plain =
        TLS_HEADERS.iter().any(|(name, word)| first(name).is_some_and(|value| value.eq_ignore_ascii_case(word)));
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

/// The `Secure` attribute for a cookie that was set over TLS.
pub(crate) fn secure(headers: &HeaderMap) -> &'static str {
    if is_over_tls(headers) { "; Secure" } else { "" }
}

/// Hidden from scripts and from other sites; limited to TLS where a proxy says that it speaks TLS.
pub(crate) fn session_cookie(token: &str, headers: &HeaderMap) -> String {
    let max_age_s = SESSION_MS / 1_000;
    let secure = secure(headers);
    format!("{SESSION_COOKIE}={token}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}")
}

pub(crate) fn no_cookie(headers: &HeaderMap) -> String {
    format!("{SESSION_COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{}", secure(headers))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use redrive_engine::SeededDice;

    use super::*;

    const KEY: KeyHash = [7; 32];

    fn noon() -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn begun(sessions: &Sessions, dice: &SeededDice) -> String {
        let link = sessions.new_link(KEY, noon(), dice);
        sessions.begin(&link, noon(), dice).unwrap()
    }

    #[test]
    fn a_link_works_once_and_not_after_its_time() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let link = sessions.new_link(KEY, noon(), &dice);
        assert!(sessions.begin(&link, noon(), &dice).is_some());
        assert!(sessions.begin(&link, noon(), &dice).is_none());
        let late = sessions.new_link(KEY, noon(), &dice);
        assert!(sessions.begin(&late, noon().plus_ms(LINK_MS), &dice).is_none());
        assert!(sessions.begin("", noon(), &dice).is_none());
    }

    #[test]
    fn a_session_ends_when_idle_or_old() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let idle = begun(&sessions, &dice);
        assert_eq!(sessions.key_of(&idle, noon().plus_ms(SESSION_IDLE_MS - 1)), Some(KEY));
        assert_eq!(sessions.key_of(&idle, noon().plus_ms(2 * SESSION_IDLE_MS)), None);
        let busy = begun(&sessions, &dice);
        let calls =
            (1..).map(|n| noon().plus_ms(n * SESSION_IDLE_MS / 2)).take_while(|at| at.since(noon()) < SESSION_MS);
        assert!(calls.into_iter().all(|at| sessions.key_of(&busy, at) == Some(KEY)));
        assert_eq!(sessions.key_of(&busy, noon().plus_ms(SESSION_MS)), None);
    }

    #[test]
    fn a_session_can_be_ended_and_links_are_not_sessions() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let token = begun(&sessions, &dice);
        sessions.end(&token);
        assert_eq!(sessions.key_of(&token, noon()), None);
        let link = sessions.new_link(KEY, noon(), &dice);
        assert_eq!(sessions.key_of(&link, noon()), None);
    }

    #[test]
    fn logins_with_one_key_end_no_session_of_another() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let operator = sessions.begin_for([1; 32], noon(), &dice);
        let first = sessions.begin_for(KEY, noon().plus_ms(1), &dice);
        for n in 0..SESSIONS_PER_KEY_MAX as u64 {
            sessions.begin_for(KEY, noon().plus_ms(2 + n), &dice);
        }
        assert_eq!(sessions.key_of(&operator, noon()), Some([1; 32]));
        assert_eq!(sessions.key_of(&first, noon()), None);
        assert_eq!(sessions.tables().sessions.len(), 1 + SESSIONS_PER_KEY_MAX);
    }

    #[test]
    fn when_full_the_key_with_most_sessions_loses_one() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let operator = sessions.begin_for(KEY, noon(), &dice);
        let keys = (0..).map(|n: u16| {
            let mut key = [9; 32];
            key[..2].copy_from_slice(&n.to_le_bytes());
            key
        });
        for key in keys.take(SESSIONS_MAX / SESSIONS_PER_KEY_MAX + 1) {
            (0..SESSIONS_PER_KEY_MAX).for_each(|_| drop(sessions.begin_for(key, noon().plus_ms(1), &dice)));
        }
        assert_eq!(sessions.tables().sessions.len(), SESSIONS_MAX);
        assert_eq!(sessions.key_of(&operator, noon()), Some(KEY));
    }

    #[test]
    fn links_are_bounded_and_the_oldest_is_dropped() {
        let (sessions, dice) = (Sessions::default(), SeededDice::new(1));
        let first = sessions.new_link(KEY, noon(), &dice);
        for n in 1..=LINKS_MAX as u64 {
            sessions.new_link(KEY, noon().plus_ms(n), &dice);
        }
        assert_eq!(sessions.tables().links.len(), LINKS_MAX);
        assert!(sessions.begin(&first, noon(), &dice).is_none());
    }

    #[test]
    fn exactly_one_session_cookie_is_accepted() {
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
