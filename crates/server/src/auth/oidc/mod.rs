//! Login through an OpenID provider: authorization code with PKCE, state and nonce. A person's groups give the role. The
//! person becomes a principal like a key, which exists in memory only and expires with the token.

mod provider;
mod token;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_connect::{Outbound, OutboundError};
use redrive_core::outbound::OutboundPolicy;
use redrive_core::sso::{GroupRoles, NoGroupRole};
use redrive_core::text::Label;
use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_engine::{Dice, KeyRecord};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use url::Url;

use super::keys::hash_secret;
use super::sessions::{SESSION_MS, new_token};
use crate::serve::ClientAddress;
use provider::{Provider, ProviderError};
use token::{BadToken, Expected, IdToken, PersonClaims};

/// How long a person may take at the provider.
pub(crate) const PENDING_MS: u64 = 10 * MINUTE_MS;
const PENDING_MAX: usize = 2_000;
/// One address cannot push out the logins of others.
const PENDING_PER_ADDRESS_MAX: usize = 100;
const PEOPLE_MAX: usize = 10_000;
const NAME_MAX_BYTES: usize = 100;
const DESCRIPTION_MAX_CHARS: usize = 200;

/// `[oidc]`. The issuer is a trusted address.
pub struct OidcConfig {
    pub issuer: String,
    pub client_id: String,
    /// None: a public client.
    pub client_secret: Option<String>,
    pub groups: GroupRoles,
}

/// Why a login was not completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SsoRefusal {
    /// The provider cannot be reached or answers wrongly.
    Provider(ProviderError),
    /// The login was not begun in this browser, took too long, or was completed before.
    Expired,
    /// The provider's own refusal.
    Denied(String),
    Token(BadToken),
    /// The person's groups give no role.
    NoRole {
        person: String,
        why: NoGroupRole,
    },
}

impl From<ProviderError> for SsoRefusal {
    fn from(error: ProviderError) -> Self {
        Self::Provider(error)
    }
}

impl From<BadToken> for SsoRefusal {
    fn from(bad: BadToken) -> Self {
        Self::Token(bad)
    }
}

/// A login that was begun and is not completed.
struct PendingLogin {
    from: ClientAddress,
    nonce: String,
    verifier: String,
    redirect_uri: String,
    next: String,
    until: Timestamp,
}

type StateHash = [u8; 32];

/// Where the browser goes, and the state that it has to bring back.
pub(crate) struct BegunLogin {
    pub(crate) location: String,
    pub(crate) state: String,
}

/// What the provider sends the browser back with.
#[derive(Debug, Default)]
pub(crate) struct Callback {
    pub(crate) state: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) error_description: Option<String>,
    pub(crate) iss: Option<String>,
}

/// A completed login.
#[derive(Debug)]
pub(crate) struct SignedIn {
    /// The hash that stands for the person, as a key's hash stands for a key.
    pub(crate) key_hash: [u8; 32],
    /// The page that was asked for before the login.
    pub(crate) next: String,
}

pub struct Oidc {
    config: Arc<OidcConfig>,
    provider: Provider,
    pending: Mutex<HashMap<StateHash, PendingLogin>>,
    people: Mutex<HashMap<[u8; 32], Arc<KeyRecord>>>,
}

impl Oidc {
    pub fn new(config: OidcConfig) -> Result<Self, OutboundError> {
        let config = Arc::new(config);
        let http = Outbound::new(OutboundPolicy::any_address())?;
        let provider = Provider::new(config.clone(), http);
        Ok(Self { config, provider, pending: Mutex::default(), people: Mutex::default() })
    }

    /// `origin` is the desk's own address as the browser sees it.
    pub(crate) async fn begin(
        &self,
        origin: &str,
        next: String,
        from: ClientAddress,
        now: Timestamp,
        dice: &dyn Dice,
    ) -> Result<BegunLogin, SsoRefusal> {
        let discovery = self.provider.discovery(now).await?;
        let mut location = Url::parse(&discovery.authorization_endpoint)
            .map_err(|_| ProviderError("the authorization endpoint is not a URL".into()))?;
        let [state, nonce, verifier] = [(); 3].map(|()| new_token(dice));
        let redirect_uri = format!("{origin}/login/oidc/callback");
        location
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.config.client_id)
            .append_pair("redirect_uri", &redirect_uri)
            .append_pair("scope", &discovery.scopes())
            .append_pair("state", &state)
            .append_pair("nonce", &nonce)
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())))
            .append_pair("code_challenge_method", "S256");
        let login = PendingLogin { from, nonce, verifier, redirect_uri, next, until: now.plus_ms(PENDING_MS) };
        self.remember(hash_secret(&state), login, now);
        Ok(BegunLogin { location: location.into(), state })
    }

    fn remember(&self, state: StateHash, login: PendingLogin, now: Timestamp) {
        let mut pending = lock(&self.pending);
        pending.retain(|_, login| now < login.until);
        let own = pending.values().filter(|other| other.from == login.from).count();
        let oldest = |only: Option<ClientAddress>| {
            let logins = pending.iter().filter(|(_, other)| only.is_none_or(|from| other.from == from));
            logins.min_by_key(|(_, login)| login.until).map(|(state, _)| *state)
        };
        let gives_way = if own >= PENDING_PER_ADDRESS_MAX {
            oldest(Some(login.from))
        } else if pending.len() >= PENDING_MAX {
            oldest(None)
        } else {
            None
        };
        if let Some(state) = gives_way {
            pending.remove(&state);
        }
        pending.insert(state, login);
    }

    /// `cookie` is the state that this browser got when it began.
    pub(crate) async fn finish(
        &self,
        callback: Callback,
        cookie: Option<&str>,
        now: Timestamp,
    ) -> Result<SignedIn, SsoRefusal> {
        let login = self.take_pending(&callback, cookie, now).ok_or(SsoRefusal::Expired)?;
        if callback.iss.is_some_and(|issuer| issuer != self.config.issuer) {
            return Err(BadToken::Issuer.into());
        }
        if let Some(error) = callback.error {
            let text = callback.error_description.unwrap_or(error);
            return Err(SsoRefusal::Denied(text.chars().take(DESCRIPTION_MAX_CHARS).collect()));
        }
        let code = callback.code.ok_or(SsoRefusal::Expired)?;
        let discovery = self.provider.discovery(now).await?;
        let tokens = self.provider.exchange(&discovery, &code, &login.verifier, &login.redirect_uri).await?;
        let expected =
            Expected { issuer: &self.config.issuer, client_id: &self.config.client_id, nonce: &login.nonce, now };
        let keys = self.provider.keys(&discovery, now).await?;
        let verified = match token::verify(&tokens.id_token, &keys, &expected) {
            Err(BadToken::UnknownKey) => {
                let keys = self.provider.newer_keys(&discovery, now).await?;
                token::verify(&tokens.id_token, &keys, &expected)
            }
            verified => verified,
        };
        let mut verified = verified?;
        // Many providers keep claims out of the ID token.
        if verified.person.groups.is_none()
            && let Some(access_token) = &tokens.access_token
            && let Some(more) = self.provider.user_info(&discovery, access_token, &verified.subject).await?
        {
            verified.person = merged(verified.person, more);
        }
        let key_hash = self.admit(&verified, now)?;
        Ok(SignedIn { key_hash, next: login.next })
    }

    /// Consumes the login, so that an answer works once.
    fn take_pending(&self, callback: &Callback, cookie: Option<&str>, now: Timestamp) -> Option<PendingLogin> {
        let (state, cookie) = (callback.state.as_deref()?, cookie?);
        if !bool::from(state.as_bytes().ct_eq(cookie.as_bytes())) {
            return None;
        }
        lock(&self.pending).remove(&hash_secret(state)).filter(|login| now < login.until)
    }

    fn admit(&self, token: &IdToken, now: Timestamp) -> Result<[u8; 32], SsoRefusal> {
        let person = self.name_of(&token.person, &token.subject);
        let groups = token.person.groups.iter().flat_map(|groups| groups.as_slice()).map(String::as_str);
        let role = match self.config.groups.role_of(groups) {
            Ok(role) => role,
            Err(why) => return Err(SsoRefusal::NoRole { person, why }),
        };
        let hash = Sha256::new()
            .chain_update(b"oidc\0")
            .chain_update(self.config.issuer.as_bytes())
            .chain_update([0])
            .chain_update(token.subject.as_bytes())
            .finalize()
            .into();
        let record = KeyRecord {
            note: Some(Label::from("signed in by SSO")),
            expires_at: Some(token.expires_at.min(now.plus_ms(SESSION_MS))),
            ..KeyRecord::new(person, hash, role.role(), role.tenant().cloned(), now)
        };
        let mut people = lock(&self.people);
        people.retain(|_, person| person.expires_at.is_none_or(|at| now < at));
        if people.len() >= PEOPLE_MAX
            && !people.contains_key(&hash)
            && let Some(first) = people.iter().min_by_key(|(_, person)| person.expires_at).map(|(hash, _)| *hash)
        {
            people.remove(&first);
        }
        people.insert(hash, Arc::new(record));
        Ok(hash)
    }

    /// The person behind a session, until the token expires.
    pub(crate) fn person(&self, hash: &[u8; 32], now: Timestamp) -> Option<Arc<KeyRecord>> {
        lock(&self.people).get(hash).filter(|person| person.expires_at.is_none_or(|at| now < at)).cloned()
    }

    /// An address with `@`, which no key's id has: a person cannot choose a name that looks like a key.
    fn name_of(&self, person: &PersonClaims, subject: &str) -> String {
        let is_verified = !matches!(&person.email_verified, Some(flag) if flag == false || flag == "false");
        let email = person.email.as_deref().filter(|email| is_verified && is_address(email));
        if let Some(email) = email {
            return email.to_owned();
        }
        let names = [person.preferred_username.as_deref(), person.name.as_deref(), Some(subject)];
        let name = names.into_iter().flatten().find(|name| !name.trim().is_empty()).unwrap_or_default();
        let plain: String = name.chars().filter(|c| !c.is_control()).take(NAME_MAX_BYTES).collect();
        let issuer = Url::parse(&self.config.issuer).ok();
        let host = issuer.as_ref().and_then(Url::host_str).unwrap_or("sso");
        format!("{}@{host}", plain.trim())
    }
}

fn is_address(email: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | ',' | ';' | ':');
    email.len() <= NAME_MAX_BYTES && email.contains('@') && email.chars().all(plain)
}

/// What the ID token says counts first.
fn merged(token: PersonClaims, more: PersonClaims) -> PersonClaims {
    let email_verified = if token.email.is_some() { token.email_verified } else { more.email_verified };
    PersonClaims {
        email: token.email.or(more.email),
        email_verified,
        preferred_username: token.preferred_username.or(more.preferred_username),
        name: token.name.or(more.name),
        groups: token.groups.or(more.groups),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use redrive_core::wire::Role;

    use super::*;

    fn noon() -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn oidc() -> Oidc {
        let groups = [("sre", "operator"), ("acme", "tenant:acme")];
        let groups = groups.map(|(name, role)| (name.to_owned(), role.parse().unwrap()));
        Oidc::new(OidcConfig {
            issuer: "https://id.example".into(),
            client_id: "desk".into(),
            client_secret: None,
            groups: GroupRoles::new(groups.into_iter().collect()),
        })
        .unwrap()
    }

    fn token(groups: &[&str], person: PersonClaims, lives_ms: u64) -> IdToken {
        let groups = token::ClaimValues::Many(groups.iter().map(|group| (*group).to_owned()).collect());
        let person = PersonClaims { groups: Some(groups), ..person };
        IdToken { subject: "ada".into(), expires_at: noon().plus_ms(lives_ms), person }
    }

    fn login(from: u32) -> PendingLogin {
        PendingLogin {
            from: ClientAddress::new(IpAddr::V4(Ipv4Addr::from_bits(from))),
            nonce: String::new(),
            verifier: String::new(),
            redirect_uri: String::new(),
            next: "/".into(),
            until: noon().plus_ms(PENDING_MS),
        }
    }

    fn callback(state: &str) -> Callback {
        Callback { state: Some(state.into()), code: Some("c".into()), ..Callback::default() }
    }

    #[test]
    fn a_login_is_completed_once_and_by_the_browser_that_began_it() {
        let oidc = oidc();
        let begin = |state: &str| oidc.remember(hash_secret(state), login(1), noon());
        begin("s1");
        assert!(oidc.take_pending(&callback("s1"), None, noon()).is_none());
        assert!(oidc.take_pending(&callback("s1"), Some("s2"), noon()).is_none());
        assert!(oidc.take_pending(&callback("s1"), Some("s1"), noon()).is_some());
        assert!(oidc.take_pending(&callback("s1"), Some("s1"), noon()).is_none(), "used");
        begin("s3");
        assert!(oidc.take_pending(&callback("s3"), Some("s3"), noon().plus_ms(PENDING_MS)).is_none(), "late");
    }

    #[test]
    fn begun_logins_are_bounded_for_each_address_and_in_all() {
        let oidc = oidc();
        oidc.remember(hash_secret("mine"), login(1), noon());
        for n in 0..=PENDING_PER_ADDRESS_MAX {
            oidc.remember(hash_secret(&format!("flood-{n}")), login(2), noon());
        }
        assert_eq!(lock(&oidc.pending).len(), 1 + PENDING_PER_ADDRESS_MAX);
        for n in 0..PENDING_MAX {
            oidc.remember(hash_secret(&format!("many-{n}")), login(3 + n as u32), noon().plus_ms(1));
        }
        assert_eq!(lock(&oidc.pending).len(), PENDING_MAX);
        oidc.remember(hash_secret("later"), login(1), noon().plus_ms(PENDING_MS + 1));
        assert_eq!(lock(&oidc.pending).len(), 1, "the rest has expired");
    }

    #[test]
    fn a_person_gets_the_role_of_the_group_until_the_token_expires() {
        let oidc = oidc();
        let ada = PersonClaims { email: Some("ada@example.com".into()), ..PersonClaims::default() };
        let hash = oidc.admit(&token(&["sre", "staff"], ada.clone(), 1_000), noon()).unwrap();
        let record = oidc.person(&hash, noon()).unwrap();
        assert_eq!((record.id.as_str(), record.role, &record.tenant), ("ada@example.com", Role::Operator, &None));
        assert!(
            oidc.person(&hash, noon().plus_ms(999)).is_some() && oidc.person(&hash, noon().plus_ms(1_000)).is_none()
        );

        // The next login counts, and no session outlives the desk's maximum.
        assert_eq!(oidc.admit(&token(&["acme"], ada.clone(), 100 * SESSION_MS), noon()).unwrap(), hash);
        let record = oidc.person(&hash, noon()).unwrap();
        assert_eq!((record.role, record.tenant.as_ref().unwrap().as_str()), (Role::Tenant, "acme"));
        assert_eq!(record.expires_at, Some(noon().plus_ms(SESSION_MS)));

        let nobody = oidc.admit(&token(&["staff"], ada, 1_000), noon()).unwrap_err();
        assert_eq!(nobody, SsoRefusal::NoRole { person: "ada@example.com".into(), why: NoGroupRole::NoGroup });
    }

    #[test]
    fn a_name_never_looks_like_a_key() {
        let oidc = oidc();
        let some = |text: &str| Some(text.to_owned());
        for (person, name) in [
            (PersonClaims { email: some("a@b.c"), name: some("Ada"), ..PersonClaims::default() }, "a@b.c"),
            (
                PersonClaims { email: some("a@b.c"), email_verified: Some(false.into()), ..PersonClaims::default() },
                "sub@id.example",
            ),
            (
                PersonClaims { email: some("a\u{202e}@b.c"), name: some("Ada L"), ..PersonClaims::default() },
                "Ada L@id.example",
            ),
            (PersonClaims { preferred_username: some("k1"), ..PersonClaims::default() }, "k1@id.example"),
            (PersonClaims { preferred_username: some(" \n"), ..PersonClaims::default() }, "sub@id.example"),
        ] {
            assert_eq!(oidc.name_of(&person, "sub"), name);
        }
    }

    #[tokio::test]
    async fn a_foreign_answer_ends_before_anything_is_sent() {
        let oidc = oidc();
        let refused = |callback: Callback| oidc.finish(callback, Some("s"), noon());
        assert_eq!(refused(callback("s")).await.unwrap_err(), SsoRefusal::Expired);
        let begin = || oidc.remember(hash_secret("s"), login(1), noon());
        begin();
        let denied = Callback { error: Some("access_denied".into()), code: None, ..callback("s") };
        assert_eq!(refused(denied).await.unwrap_err(), SsoRefusal::Denied("access_denied".into()));
        begin();
        let mixed_up = Callback { iss: Some("https://evil.example".into()), ..callback("s") };
        assert_eq!(refused(mixed_up).await.unwrap_err(), SsoRefusal::Token(BadToken::Issuer));
    }
}
