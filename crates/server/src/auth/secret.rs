//! The secrets of keys: made here, shown once, kept only as a hash.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use redrive_store::{Dice, KeyRecord};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "rdk_";
const SECRET_BYTES: usize = 32;
const ID_BYTES: usize = 8;

/// A new secret and what the store keeps of it.
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

/// A new key with its secret. `tenant` none spans all; operators and admins always do.
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

/// Whether a text could be a key at all; what could not never reaches the store.
pub(super) fn is_well_formed(secret: &str) -> bool {
    let body = secret.strip_prefix(PREFIX).map(|rest| URL_SAFE_NO_PAD.decode(rest));
    matches!(body, Some(Ok(bytes)) if bytes.len() == SECRET_BYTES)
}

#[cfg(test)]
mod tests {
    use redrive_store::SeededDice;

    use super::*;

    #[test]
    fn a_secret_has_256_bits_and_its_hash_is_all_that_is_kept() {
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
}
