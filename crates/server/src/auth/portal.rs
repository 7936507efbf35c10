//! The tenant portal: a link from an operator logs a browser in once, as its tenant, for a limited time. Link and session
//! are in the store as hashes, so that every replica knows them and revoking one ends both.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::time::{HOUR_MS, Timestamp};
use redrive_core::wire::bounds::PORTAL_MS_MAX;
use redrive_engine::{Dice, PortalLinkRecord};

use super::keys::{hash_secret, new_id};
use super::sessions::{SESSION_COOKIE, secure};
use crate::app::App;
use crate::problem::{Code, HttpProblem, Result};
use crate::serve::ClientAddress;

/// Before the secret of a link and of a session: anything else never reaches the store.
const LINK_PREFIX: &str = "rdl_";
const SESSION_PREFIX: &str = "rds_";
const SECRET_BYTES: usize = 32;
/// How long a link lives that does not say.
pub(crate) const PORTAL_MS_DEFAULT: u64 = HOUR_MS;

/// A SaaS that shows the desk to its customers inside its own pages.
#[derive(Debug, Clone, Default)]
pub struct PortalSettings {
    /// Origins that may frame the pages of a portal session.
    pub frame_ancestors: Vec<String>,
}

/// An origin that cannot be named in a header.
#[derive(Debug, thiserror::Error)]
#[error("frame_ancestors: {0:?} is not an origin such as https://app.example.com")]
pub struct BadFrameAncestor(pub String);

impl PortalSettings {
    /// `https://host[:port]` and nothing else: a path, a wildcard or a keyword would open more than it says.
    pub fn check(&self) -> std::result::Result<(), BadFrameAncestor> {
        match self.frame_ancestors.iter().find(|origin| !is_origin(origin)) {
            Some(bad) => Err(BadFrameAncestor(bad.clone())),
            None => Ok(()),
        }
    }

    /// None: framing stays forbidden.
    pub(crate) fn ancestors(&self) -> Option<String> {
        (!self.frame_ancestors.is_empty()).then(|| self.frame_ancestors.join(" "))
    }
}

fn is_origin(text: &str) -> bool {
    let Some(host) = text.strip_prefix("https://") else { return false };
    let (name, port) = host.split_once(':').unwrap_or((host, "443"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    !name.is_empty() && name.chars().all(is_name) && port.parse::<u16>().is_ok()
}

/// A new link with its secret.
pub(crate) fn new_link(
    dice: &dyn Dice,
    tenant: Tenant,
    lives_ms: u64,
    by: &str,
    now: Timestamp,
) -> (String, PortalLinkRecord) {
    let secret = new_token(dice, LINK_PREFIX);
    let link = PortalLinkRecord {
        id: new_id(dice, "link"),
        tenant,
        hash: hash_secret(&secret),
        session: None,
        created_at: now,
        created_by: Label::from(by),
        expires_at: now.plus_ms(lives_ms.min(PORTAL_MS_MAX)),
        used_at: None,
        revoked_at: None,
    };
    (secret, link)
}

/// Consumes the link and begins its session. A used, ended, revoked or unknown link is refused alike.
pub(crate) async fn open_link(app: &App, secret: &str, from: ClientAddress) -> Result<String> {
    let refused = || HttpProblem::plain(Code::Unauthorized);
    if !has_form(secret, LINK_PREFIX) {
        return Err(refused());
    }
    app.keyring.admit_guess(from, app.store.as_ref())?;
    let session = new_token(app.dice.as_ref(), SESSION_PREFIX);
    if app.store.open_portal_link(hash_secret(secret), hash_secret(&session)).await? {
        return Ok(session);
    }
    app.keyring.count_wrong(from, app.store.now());
    Err(refused())
}

/// Whether a session cookie is of a portal link.
pub(super) fn is_portal_session(token: &str) -> bool {
    has_form(token, SESSION_PREFIX)
}

fn new_token(dice: &dyn Dice, prefix: &str) -> String {
    let mut bytes = [0; SECRET_BYTES];
    dice.fill(&mut bytes);
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
}

fn has_form(text: &str, prefix: &str) -> bool {
    let body = text.strip_prefix(prefix).map(|rest| URL_SAFE_NO_PAD.decode(rest));
    matches!(body, Some(Ok(bytes)) if bytes.len() == SECRET_BYTES)
}

/// The cookie of a portal session. A link is followed from another site, which a strict cookie would not survive; forms
/// carry a token instead. Inside a frame the browser keeps one cookie jar per embedding site.
pub(crate) fn portal_cookie(token: &str, settings: &PortalSettings, headers: &HeaderMap) -> String {
    let max_age_s = PORTAL_MS_MAX / 1_000;
    let attributes = cookie_attributes(settings, headers);
    format!("{SESSION_COOKIE}={token}; Path=/; Max-Age={max_age_s}; HttpOnly{attributes}")
}

pub(crate) fn no_portal_cookie(settings: &PortalSettings, headers: &HeaderMap) -> String {
    format!("{SESSION_COOKIE}=; Path=/; Max-Age=0; HttpOnly{}", cookie_attributes(settings, headers))
}

fn cookie_attributes(settings: &PortalSettings, headers: &HeaderMap) -> String {
    match settings.ancestors() {
        Some(_) => "; SameSite=None; Secure; Partitioned".to_owned(),
        None => format!("; SameSite=Lax{}", secure(headers)),
    }
}

/// A page's policy with the configured origins; none if framing stays forbidden.
pub(crate) fn framed_policy(settings: &PortalSettings, policy: &str) -> Option<HeaderValue> {
    let ancestors = settings.ancestors()?;
    let opened = policy.replace("frame-ancestors 'none'", &format!("frame-ancestors {ancestors}"));
    HeaderValue::from_str(&opened).ok()
}

#[cfg(test)]
mod tests {
    use redrive_engine::SeededDice;

    use super::*;

    fn settings(origins: &[&str]) -> PortalSettings {
        PortalSettings { frame_ancestors: origins.iter().map(|origin| (*origin).to_owned()).collect() }
    }

    #[test]
    fn only_plain_https_origins_may_frame() {
        for good in ["https://app.example.com", "https://app.example.com:8443"] {
            assert!(settings(&[good]).check().is_ok(), "{good}");
        }
        for bad in [
            "http://app.example.com",
            "https://",
            "https://*.example.com",
            "https://a.example/path",
            "*",
            "'self'",
            "https://a.example; script-src *",
            "https://a.example:99999",
            "",
        ] {
            assert!(settings(&["https://ok.example", bad]).check().is_err(), "{bad}");
        }
    }

    #[test]
    fn framing_is_opened_only_by_the_setting() {
        let policy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'";
        assert_eq!(framed_policy(&settings(&[]), policy), None);
        let opened = framed_policy(&settings(&["https://a.example", "https://b.example"]), policy).unwrap();
        let expected = "default-src 'none'; frame-ancestors https://a.example https://b.example; base-uri 'none'";
        assert_eq!(opened, expected);
    }

    #[test]
    fn a_framed_cookie_is_partitioned_and_another_is_lax() {
        let headers = HeaderMap::new();
        let framed = portal_cookie("t", &settings(&["https://a.example"]), &headers);
        assert!(framed.ends_with("; HttpOnly; SameSite=None; Secure; Partitioned"), "{framed}");
        let plain = portal_cookie("t", &settings(&[]), &headers);
        assert!(plain.ends_with("; HttpOnly; SameSite=Lax"), "{plain}");
    }

    #[test]
    fn a_link_lives_a_day_at_most_and_its_secret_is_hashed() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let (secret, link) = new_link(&SeededDice::new(1), Tenant::default_tenant(), u64::MAX, "operator:k", now);
        assert_eq!(link.expires_at, now.plus_ms(PORTAL_MS_MAX));
        assert!(has_form(&secret, LINK_PREFIX) && !is_portal_session(&secret));
        assert_eq!(link.hash, hash_secret(&secret));
    }
}
