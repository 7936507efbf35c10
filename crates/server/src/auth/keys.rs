//! API keys: created, stored as hashes, and resolved to principals. A look-up is cached for half a second, so a revoked
//! key is refused within that time. Guessing costs the store a bounded number of look-ups, and no valid key is refused for
//! the guesses of its neighbours.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use quick_cache::sync::Cache;
use redrive_core::ids::Tenant;
use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_core::wire::Role;
use redrive_engine::{Dice, KeyRecord, KeyUse, PortalLinkRecord, Store};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::caller::Principal;
use super::wrong_keys::WrongKeys;
use crate::metrics::KeyCounters;
use crate::problem::{Code, HttpProblem, Result};
use crate::serve::ClientAddress;

const PREFIX: &str = "rdk_";
const SECRET_BYTES: usize = 32;
const ID_BYTES: usize = 8;

/// A new secret and the hash that is stored.
pub fn new_secret(dice: &dyn Dice) -> (String, [u8; 32]) {
    let mut bytes = [0; SECRET_BYTES];
    dice.fill(&mut bytes);
    let secret = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let hash = hash_secret(&secret);
    (secret, hash)
}

pub fn hash_secret(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// A new key with its secret. Without a tenant it spans all, as operators and admins always do.
pub fn new_key(dice: &dyn Dice, role: Role, tenant: Option<Tenant>, now: Timestamp) -> (String, KeyRecord) {
    let (secret, hash) = new_secret(dice);
    let tenant = match role {
        Role::Worker | Role::Tenant => tenant,
        Role::Operator | Role::Admin => None,
    };
    (secret, KeyRecord::new(new_id(dice, "key"), hash, role, tenant, now))
}

/// An id that names nothing about what it is for.
pub fn new_id(dice: &dyn Dice, kind: &str) -> String {
    let mut bytes = [0; ID_BYTES];
    dice.fill(&mut bytes);
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{kind}-{hex}")
}

/// Whether a text has the form of a key; anything else never reaches the store.
pub(super) fn is_well_formed(secret: &str) -> bool {
    let body = secret.strip_prefix(PREFIX).map(|rest| URL_SAFE_NO_PAD.decode(rest));
    matches!(body, Some(Ok(bytes)) if bytes.len() == SECRET_BYTES)
}

const CACHED_FOR: Duration = Duration::from_millis(500);
const CACHED_KEYS_MAX: usize = 10_000;

#[derive(Clone)]
struct CachedKey {
    key: Arc<KeyRecord>,
    looked_up: LookUp,
}

/// When a key was looked up, by two clocks: the monotonic one may stop while a machine is suspended, the store's may be
/// set. The age is the larger of the two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookUp {
    at: Instant,
    by_store: Timestamp,
}

impl LookUp {
    pub(crate) fn now(store: &dyn Store) -> Self {
        Self { at: Instant::now(), by_store: store.now() }
    }

    /// The key has to be looked up again: it may be revoked by now.
    pub(crate) fn is_old(self, store: &dyn Store) -> bool {
        self.age_at(Self::now(store)) >= CACHED_FOR
    }

    fn age_at(self, now: Self) -> Duration {
        let by_store = self.by_store.as_millis().abs_diff(now.by_store.as_millis());
        now.at.saturating_duration_since(self.at).max(Duration::from_millis(by_store))
    }
}

/// The hashes of all keys, for sources that guess.
struct AllKeys {
    hashes: HashSet<[u8; 32]>,
    looked_up: LookUp,
}

/// What a hash is looked up as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretKind {
    Key,
    /// The session of a portal link, which is a key of its tenant as long as it lasts.
    PortalSession,
}

/// Keys by the hash of their secret.
pub(crate) struct Keyring {
    cache: Cache<[u8; 32], CachedKey>,
    /// Read at most once per cache time, and only while a source is throttled.
    all: tokio::sync::Mutex<Option<AllKeys>>,
    wrong: WrongKeys,
    /// Uses that are not written yet. Noted when a key is read from the store, so never on the way of most calls.
    uses: Mutex<HashMap<String, Timestamp>>,
    counters: KeyCounters,
}

/// A use is written once per this time.
const USE_WRITTEN_EVERY_MS: u64 = MINUTE_MS;
/// Uses per commit.
const USES_PER_COMMIT: usize = 500;

impl Keyring {
    pub(crate) fn new(counters: KeyCounters) -> Self {
        Self {
            cache: Cache::new(CACHED_KEYS_MAX),
            all: tokio::sync::Mutex::default(),
            wrong: WrongKeys::default(),
            uses: Mutex::default(),
            counters,
        }
    }

    /// A missing, malformed, unknown, revoked or expired key all get the same answer.
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        from: ClientAddress,
        store: &dyn Store,
    ) -> Result<Principal> {
        match bearer(headers) {
            Some(secret) => self.identify_secret(secret, from, store).await,
            None => Err(HttpProblem::plain(Code::Unauthorized)),
        }
    }

    /// A well-formed key that a caller presents.
    pub(super) async fn identify_secret(
        &self,
        secret: &str,
        from: ClientAddress,
        store: &dyn Store,
    ) -> Result<Principal> {
        let (hash, now) = (hash_secret(secret), store.now());
        if let Some(retry_after_s) = self.wrong.retry_after_s(from, now)
            && self.cached(&hash, LookUp::now(store)).is_none()
            && !self.is_any_key(&hash, store).await?
        {
            self.count_wrong(from, now);
            return Err(self.too_many(retry_after_s));
        }
        let known = self.identify_hash(hash, store).await;
        if known.as_ref().is_err_and(|problem| problem.code == Code::Unauthorized) {
            self.count_wrong(from, now);
        }
        known
    }

    /// For a caller that has proved before that it has the key; the key has to be valid still.
    pub(crate) async fn identify_hash(&self, hash: [u8; 32], store: &dyn Store) -> Result<Principal> {
        self.identify_as(SecretKind::Key, hash, store).await
    }

    /// The session of a portal link. A source that guesses gets look-ups only of sessions that were seen here before.
    pub(super) async fn identify_portal(
        &self,
        token: &str,
        from: ClientAddress,
        store: &dyn Store,
    ) -> Result<Principal> {
        let hash = hash_secret(token);
        if self.cache.peek(&hash).is_none() {
            self.admit_guess(from, store)?;
        }
        let known = self.identify_as(SecretKind::PortalSession, hash, store).await;
        if known.as_ref().is_err_and(|problem| problem.code == Code::Unauthorized) {
            self.count_wrong(from, store.now());
        }
        known
    }

    /// Refuses a source that has sent too many wrong secrets.
    pub(super) fn admit_guess(&self, from: ClientAddress, store: &dyn Store) -> Result<()> {
        self.wrong.retry_after_s(from, store.now()).map_or(Ok(()), |seconds| Err(self.too_many(seconds)))
    }

    pub(super) fn count_wrong(&self, from: ClientAddress, now: Timestamp) {
        self.counters.wrong.inc();
        self.wrong.count(from, now);
    }

    fn too_many(&self, retry_after_s: u32) -> HttpProblem {
        self.counters.throttled.inc();
        HttpProblem::plain(Code::TooManyWrongKeys).retry_after_s(retry_after_s)
    }

    async fn identify_as(&self, kind: SecretKind, hash: [u8; 32], store: &dyn Store) -> Result<Principal> {
        let key = self.look_up(kind, hash, store).await?;
        let valid = key.filter(|key| key.is_valid(store.now()));
        valid.map(Principal::of).ok_or_else(|| HttpProblem::plain(Code::Unauthorized))
    }

    /// Drops every cached key, after one was changed here.
    pub(crate) fn forget(&self) {
        self.cache.clear();
    }

    /// Writes the uses that were noted, for `last_used_at`.
    pub(crate) async fn write_uses(&self, store: &dyn Store) -> redrive_engine::Result<()> {
        let noted: Vec<KeyUse> = self.uses().drain().map(|(id, at)| KeyUse { id, at }).collect();
        for some in noted.chunks(USES_PER_COMMIT) {
            store.put_key_uses(some.to_vec()).await?;
        }
        Ok(())
    }

    async fn look_up(&self, kind: SecretKind, hash: [u8; 32], store: &dyn Store) -> Result<Option<Arc<KeyRecord>>> {
        // Taken before the read: a change during the read must not be cached for longer.
        let mut looked_up = LookUp::now(store);
        if let Some(key) = self.cached(&hash, looked_up) {
            return Ok(Some(key));
        }
        let mut found = read_key(kind, hash, store).await?;
        // A process that was suspended meanwhile gets an old answer: the key may be revoked by now.
        if looked_up.is_old(store) {
            looked_up = LookUp::now(store);
            found = read_key(kind, hash, store).await?;
        }
        if let Some(key) = &found {
            if kind == SecretKind::Key {
                self.note_use(key, looked_up.by_store);
            }
            self.cache.insert(hash, CachedKey { key: key.clone(), looked_up });
        }
        Ok(found)
    }

    fn cached(&self, hash: &[u8; 32], now: LookUp) -> Option<Arc<KeyRecord>> {
        let cached = self.cache.get(hash)?;
        (cached.looked_up.age_at(now) < CACHED_FOR).then_some(cached.key)
    }

    fn note_use(&self, key: &KeyRecord, now: Timestamp) {
        let is_due = key.last_used_at.is_none_or(|at| now.since(at) >= USE_WRITTEN_EVERY_MS);
        if !is_due || !key.is_valid(now) {
            return;
        }
        let mut uses = self.uses();
        if uses.len() < CACHED_KEYS_MAX || uses.contains_key(&key.id) {
            uses.insert(key.id.clone(), now);
        }
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<String, Timestamp>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the hash is that of any key, from one read of all keys per cache time, however many ask.
    async fn is_any_key(&self, hash: &[u8; 32], store: &dyn Store) -> Result<bool> {
        let mut all = self.all.lock().await;
        if let Some(known) = all.as_ref().filter(|known| !known.looked_up.is_old(store)) {
            return Ok(known.hashes.contains(hash));
        }
        let looked_up = LookUp::now(store);
        let hashes: HashSet<[u8; 32]> = store.keys().await?.into_iter().map(|key| key.hash).collect();
        let is_known = hashes.contains(hash);
        *all = Some(AllKeys { hashes, looked_up });
        Ok(is_known)
    }
}

async fn read_key(kind: SecretKind, hash: [u8; 32], store: &dyn Store) -> Result<Option<Arc<KeyRecord>>> {
    let found = match kind {
        SecretKind::Key => store.key_by_hash(hash).await?,
        SecretKind::PortalSession => store.portal_session(hash).await?.and_then(session_key),
    };
    Ok(found.filter(|key| bool::from(key.hash.ct_eq(&hash))).map(Arc::new))
}

/// The session of a portal link as a key of its tenant.
fn session_key(link: PortalLinkRecord) -> Option<KeyRecord> {
    let PortalLinkRecord { id, tenant, session, created_at, created_by, expires_at, revoked_at, .. } = link;
    Some(KeyRecord {
        created_by: Some(created_by),
        expires_at: Some(expires_at),
        revoked_at,
        ..KeyRecord::new(id, session?, Role::Tenant, Some(tenant), created_at)
    })
}

/// The key in the `Authorization` header, if there is exactly one and it is well formed.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (only, None) = (values.next()?, values.next()) else { return None };
    let (scheme, secret) = only.to_str().ok()?.split_once(' ')?;
    let secret = secret.trim_start_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && is_well_formed(secret)).then_some(secret)
}

#[cfg(test)]
mod tests {
    use redrive_engine::SeededDice;

    use super::*;

    #[test]
    fn a_secret_has_256_bits_and_is_stored_hashed() {
        let (secret, hash) = new_secret(&SeededDice::new(1));
        assert_eq!((secret.len(), &secret[..4]), (47, "rdk_"));
        assert!(is_well_formed(&secret));
        assert_eq!(hash_secret(&secret), hash);
        for bad in ["", "rdk_", &secret[4..], &secret[..46], &format!("{secret}A"), "rdk_ü"] {
            assert!(!is_well_formed(bad), "{bad}");
        }
    }

    #[test]
    fn operators_and_admins_always_span_all_tenants() {
        let tenant = || Some(Tenant::default_tenant());
        let made = |role| new_key(&SeededDice::new(1), role, tenant(), Timestamp::default()).1.tenant;
        assert_eq!([made(Role::Worker), made(Role::Tenant)], [tenant(), tenant()]);
        assert_eq!([made(Role::Operator), made(Role::Admin)], [None, None]);
    }

    #[test]
    fn a_suspended_machine_does_not_extend_the_cache() {
        let then = LookUp { at: Instant::now(), by_store: Timestamp::from_millis(1_800_000_000_000) };
        let later = |monotonic_ms, store_ms| LookUp {
            at: then.at + Duration::from_millis(monotonic_ms),
            by_store: Timestamp::from_millis(then.by_store.as_millis() + store_ms),
        };
        assert!(then.age_at(later(1, 1)) < CACHED_FOR);
        for (monotonic_ms, store_ms) in [(0, 6_000), (6_000, 0), (0, -6_000)] {
            assert!(then.age_at(later(monotonic_ms, store_ms)) >= CACHED_FOR, "{monotonic_ms} {store_ms}");
        }
    }
}
