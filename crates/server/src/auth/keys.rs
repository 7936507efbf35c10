//! API keys: created, stored as hashes, and resolved to principals. A look-up is cached for half a second, so a revoked
//! key is refused within that time.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use quick_cache::sync::Cache;
use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use redrive_engine::{Dice, KeyRecord, Store};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::caller::Principal;
use crate::problem::{Code, HttpProblem, Result};

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
pub fn new_key(
    dice: &dyn Dice,
    role: Role,
    tenant: Option<Tenant>,
    note: Option<Label>,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> (String, KeyRecord) {
    let (secret, hash) = new_secret(dice);
    let tenant = match role {
        Role::Worker | Role::Tenant => tenant,
        Role::Operator | Role::Admin => None,
    };
    let id = new_id(dice);
    let record =
        KeyRecord { lineage: id.clone(), id, hash, role, tenant, note, created_at: now, expires_at, revoked_at: None };
    (secret, record)
}

fn new_id(dice: &dyn Dice) -> String {
    let mut bytes = [0; ID_BYTES];
    dice.fill(&mut bytes);
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("key-{hex}")
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

/// Keys by the hash of their secret.
pub(crate) struct Keyring(Cache<[u8; 32], CachedKey>);

impl Default for Keyring {
    fn default() -> Self {
        Self(Cache::new(CACHED_KEYS_MAX))
    }
}

impl Keyring {
    /// A missing, malformed, unknown, revoked or expired key all get the same answer.
    pub(crate) async fn identify(&self, headers: &HeaderMap, store: &dyn Store) -> Result<Principal> {
        match bearer(headers) {
            Some(secret) => self.identify_hash(hash_secret(secret), store).await,
            None => Err(HttpProblem::plain(Code::Unauthorized)),
        }
    }

    /// For a caller that has proved before that it has the key; the key has to be valid still.
    pub(crate) async fn identify_hash(&self, hash: [u8; 32], store: &dyn Store) -> Result<Principal> {
        let key = self.look_up(hash, store).await?;
        let valid = key.filter(|key| is_valid(key, store.now()));
        valid.map(Principal::of).ok_or_else(|| HttpProblem::plain(Code::Unauthorized))
    }

    /// Drops every cached key, after one was revoked here.
    pub(crate) fn forget(&self) {
        self.0.clear();
    }

    async fn look_up(&self, hash: [u8; 32], store: &dyn Store) -> Result<Option<Arc<KeyRecord>>> {
        // Taken before the read: a change during the read must not be cached for longer.
        let mut looked_up = LookUp::now(store);
        if let Some(key) = self.cached(&hash, looked_up) {
            return Ok(Some(key));
        }
        let mut found = read_key(hash, store).await?;
        // A process that was suspended meanwhile gets an old answer: the key may be revoked by now.
        if looked_up.is_old(store) {
            looked_up = LookUp::now(store);
            found = read_key(hash, store).await?;
        }
        if let Some(key) = &found {
            self.0.insert(hash, CachedKey { key: key.clone(), looked_up });
        }
        Ok(found)
    }

    fn cached(&self, hash: &[u8; 32], now: LookUp) -> Option<Arc<KeyRecord>> {
        let cached = self.0.get(hash)?;
        (cached.looked_up.age_at(now) < CACHED_FOR).then_some(cached.key)
    }
}

async fn read_key(hash: [u8; 32], store: &dyn Store) -> Result<Option<Arc<KeyRecord>>> {
    Ok(store.key_by_hash(hash).await?.filter(|key| bool::from(key.hash.ct_eq(&hash))).map(Arc::new))
}

/// The key in the `Authorization` header, if there is exactly one and it is well formed.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (only, None) = (values.next()?, values.next()) else { return None };
    let (scheme, secret) = only.to_str().ok()?.split_once(' ')?;
    let secret = secret.trim_start_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && is_well_formed(secret)).then_some(secret)
}

fn is_valid(key: &KeyRecord, now: Timestamp) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|at| now < at)
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
        let made = |role| new_key(&SeededDice::new(1), role, tenant(), None, None, Timestamp::default()).1.tenant;
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
