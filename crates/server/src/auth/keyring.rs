//! From a bearer key to an identity. Look-ups are remembered for half a second, so that a revoked key is out
//! within one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use redrive_core::time::Timestamp;
use redrive_store::{KeyRecord, Store};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::identity::Identity;
use super::secret::{hash_secret, is_well_formed};
use crate::problem::{Code, Problem, Result};

const REMEMBERED_FOR: Duration = Duration::from_millis(500);
const REMEMBERED_MAX: usize = 10_000;

struct Remembered {
    key: Arc<KeyRecord>,
    looked_up: LookUp,
}

/// When a key was looked up, by two clocks: the monotonic one may stand still while a machine is suspended, the store's
/// may be set. An age is the larger of the two.
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
        self.age_at(Self::now(store)) >= REMEMBERED_FOR
    }

    fn age_at(self, now: Self) -> Duration {
        let by_store = self.by_store.as_millis().abs_diff(now.by_store.as_millis());
        now.at.saturating_duration_since(self.at).max(Duration::from_millis(by_store))
    }
}

#[derive(Default)]
pub(crate) struct Keyring {
    remembered: Mutex<HashMap<[u8; 32], Remembered>>,
}

impl Keyring {
    /// Every way to have no valid key looks the same from outside.
    pub(crate) async fn identify(&self, headers: &HeaderMap, store: &dyn Store) -> Result<Identity> {
        match bearer(headers) {
            Some(secret) => self.identify_hash(hash_secret(secret), store).await,
            None => Err(Problem::plain(Code::Unauthorized)),
        }
    }

    /// Of a key that somebody proved to have before: it has to be valid still.
    pub(crate) async fn identify_hash(&self, hash: [u8; 32], store: &dyn Store) -> Result<Identity> {
        let key = self.look_up(hash, store).await?;
        let valid = key.filter(|key| is_valid(key, store.now()));
        valid.map(Identity::of).ok_or_else(|| Problem::plain(Code::Unauthorized))
    }

    /// Forgets everything, after a key was revoked here.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    async fn look_up(&self, hash: [u8; 32], store: &dyn Store) -> Result<Option<Arc<KeyRecord>>> {
        // The moment before the look-up: what changes during it must not be remembered longer.
        let mut looked_up = LookUp::now(store);
        if let Some(key) = self.recall(&hash, looked_up) {
            return Ok(Some(key));
        }
        let mut found = read_key(hash, store).await?;
        // An answer may be old when it arrives, in a process that was suspended meanwhile: the key may be revoked by now.
        if looked_up.is_old(store) {
            looked_up = LookUp::now(store);
            found = read_key(hash, store).await?;
        }
        if let Some(key) = &found {
            let mut remembered = self.lock();
            if remembered.len() >= REMEMBERED_MAX {
                remembered.clear();
            }
            remembered.insert(hash, Remembered { key: key.clone(), looked_up });
        }
        Ok(found)
    }

    fn recall(&self, hash: &[u8; 32], now: LookUp) -> Option<Arc<KeyRecord>> {
        let remembered = self.lock();
        let entry = remembered.get(hash)?;
        (entry.looked_up.age_at(now) < REMEMBERED_FOR).then(|| entry.key.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Remembered>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_key(hash: [u8; 32], store: &dyn Store) -> Result<Option<Arc<KeyRecord>>> {
    Ok(store.key_by_hash(hash).await?.filter(|key| bool::from(key.hash.ct_eq(&hash))).map(Arc::new))
}

/// The key in the one `Authorization` header, if it could be one.
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
    use super::*;

    #[test]
    fn a_suspended_machine_does_not_keep_a_key_young() {
        let then = LookUp { at: Instant::now(), by_store: Timestamp::from_millis(1_800_000_000_000) };
        let later = |monotonic_ms, store_ms| LookUp {
            at: then.at + Duration::from_millis(monotonic_ms),
            by_store: Timestamp::from_millis(then.by_store.as_millis() + store_ms),
        };
        assert!(then.age_at(later(1, 1)) < REMEMBERED_FOR);
        for (monotonic_ms, store_ms) in [(0, 6_000), (6_000, 0), (0, -6_000)] {
            assert!(then.age_at(later(monotonic_ms, store_ms)) >= REMEMBERED_FOR, "{monotonic_ms} {store_ms}");
        }
    }
}
