//! The master key, and the data keys that it wraps.

use std::cell::RefCell;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::clock::{Dice as _, SystemDice};
use crate::codec::CodecError;
use crate::error::{Error, Result};

pub(super) const SALT_BYTES: usize = 16;
pub(super) const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
const MASTER_ID_BYTES: usize = 8;
const CANARY: &[u8] = b"redrive";
/// Salts are drawn from the system in blocks: a system call for each would cost as much as a small value's encryption.
const SALT_BLOCK: usize = 256 * SALT_BYTES;

/// What is wrong with a master key. It never repeats the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a master key is 32 bytes, as 64 hexadecimal digits or in base64")]
pub struct BadMasterKey;

/// Derives a key for each value, so that none is used twice.
struct Deriver(Prk);

impl Deriver {
    fn new(secret: &[u8; KEY_BYTES]) -> Self {
        Self(Prk::new_less_safe(HKDF_SHA256, secret))
    }

    fn key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let info = [salt];
        let derived = self.0.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(derived)))
    }

    fn encrypt(&self, salt: &[u8], data: &[u8], bytes: &mut [u8]) -> Result<[u8; TAG_BYTES]> {
        let tag = self.key(salt).and_then(|key| {
            key.seal_in_place_separate_tag(no_nonce(), Aad::from(data), bytes).ok()?.as_ref().try_into().ok()
        });
        tag.ok_or_else(|| Error::Unexpected("a value could not be encrypted".into()))
    }

    /// The length of what was decrypted; the tag follows it.
    fn decrypt(&self, salt: &[u8], data: &[u8], bytes: &mut [u8]) -> Option<usize> {
        Some(self.key(salt)?.open_in_place(no_nonce(), Aad::from(data), bytes).ok()?.len())
    }
}

/// Each key encrypts one value.
fn no_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

thread_local! {
    static SALTS: RefCell<(Vec<u8>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

pub(super) fn fresh_salt() -> [u8; SALT_BYTES] {
    SALTS.with_borrow_mut(|(block, used)| {
        if *used + SALT_BYTES > block.len() {
            block.resize(SALT_BLOCK, 0);
            SystemDice.fill(block);
            *used = 0;
        }
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&block[*used..*used + SALT_BYTES]);
        *used += SALT_BYTES;
        salt
    })
}

/// The key that wraps all data keys. It is in no store.
pub struct MasterKey {
    deriver: Deriver,
    id: String,
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl MasterKey {
    pub fn new(secret: &[u8; KEY_BYTES]) -> Self {
        let digest = Sha256::new().chain_update(b"redrive master key").chain_update(secret).finalize();
        let id = digest.iter().take(MASTER_ID_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Self { deriver: Deriver::new(secret), id }
    }

    /// From text: 32 bytes as hexadecimal digits or base64, with space around it.
    pub fn parse(text: &str) -> Result<Self, BadMasterKey> {
        let text = text.trim();
        let bytes = Zeroizing::new(from_hex(text).or_else(|| from_base64(text)).ok_or(BadMasterKey)?);
        let secret: Zeroizing<[u8; KEY_BYTES]> = Zeroizing::new(bytes.as_slice().try_into().map_err(|_| BadMasterKey)?);
        Ok(Self::new(&secret))
    }

    /// The start of a digest: tells keys apart and reveals nothing of them.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn wrap(&self, data: &[u8], secret: &[u8]) -> Result<Vec<u8>> {
        let salt = fresh_salt();
        let mut wrapped = [salt.as_slice(), secret].concat();
        let tag = self.deriver.encrypt(&salt, data, &mut wrapped[SALT_BYTES..])?;
        wrapped.extend_from_slice(&tag);
        Ok(wrapped)
    }

    fn unwrapped(&self, data: &[u8], wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (salt, secret) = wrapped.split_at_checked(SALT_BYTES)?;
        let mut secret = Zeroizing::new(secret.to_vec());
        let length = self.deriver.decrypt(salt, data, &mut secret)?;
        secret.truncate(length);
        Some(secret)
    }

    pub fn canary(&self) -> Result<Vec<u8>> {
        self.wrap(b"canary", CANARY)
    }

    pub fn opens_canary(&self, canary: &[u8]) -> bool {
        self.unwrapped(b"canary", canary).is_some_and(|opened| *opened == CANARY)
    }

    /// A random data key, and its form for the store.
    pub fn new_data_key(&self, tenant: i64) -> Result<(DataKey, WrappedKey)> {
        let (mut secret, mut id) = (Zeroizing::new([0_u8; KEY_BYTES]), [0; 8]);
        SystemDice.fill(&mut *secret);
        SystemDice.fill(&mut id);
        // Positive, so that it reads the same everywhere.
        let id = i64::from_le_bytes(id) & i64::MAX;
        let wrapped = self.wrap(&binding(id, tenant), &*secret)?;
        let wrapped = WrappedKey { id, tenant, wrapped, master: self.id.clone() };
        Ok((DataKey { id, tenant, deriver: Deriver::new(&secret) }, wrapped))
    }

    fn secret_of(&self, wrapped: &WrappedKey) -> Result<Zeroizing<Vec<u8>>> {
        let secret = self.unwrapped(&binding(wrapped.id, wrapped.tenant), &wrapped.wrapped);
        secret.ok_or(Error::Damaged(CodecError("a data key that the master key does not unwrap")))
    }

    pub fn open_key(&self, wrapped: &WrappedKey) -> Result<DataKey> {
        let secret = self.secret_of(wrapped)?;
        let secret: Zeroizing<[u8; KEY_BYTES]> = Zeroizing::new(
            secret.as_slice().try_into().map_err(|_| Error::Damaged(CodecError("a data key of another length")))?,
        );
        Ok(DataKey { id: wrapped.id, tenant: wrapped.tenant, deriver: Deriver::new(&secret) })
    }

    /// The same data key, wrapped by this master key instead of `old`.
    pub fn rewrap(&self, old: &Self, wrapped: &WrappedKey) -> Result<WrappedKey> {
        let secret = old.secret_of(wrapped)?;
        let wrapped_again = self.wrap(&binding(wrapped.id, wrapped.tenant), &secret)?;
        Ok(WrappedKey { wrapped: wrapped_again, master: self.id.clone(), ..wrapped.clone() })
    }
}

/// A wrapped key opens only as the key of its row.
fn binding(id: i64, tenant: i64) -> [u8; 16] {
    let mut data = [0; 16];
    data[..8].copy_from_slice(&id.to_le_bytes());
    data[8..].copy_from_slice(&tenant.to_le_bytes());
    data
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != KEY_BYTES * 2 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..KEY_BYTES).map(|at| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()).collect()
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].iter().find_map(|engine| engine.decode(text).ok())
}

/// A data key in memory.
pub struct DataKey {
    id: i64,
    tenant: i64,
    deriver: Deriver,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKey").field("id", &self.id).field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl DataKey {
    pub fn id(&self) -> i64 {
        self.id
    }

    pub fn tenant(&self) -> i64 {
        self.tenant
    }

    pub(super) fn encrypt(&self, salt: &[u8], data: &[u8], bytes: &mut [u8]) -> Result<[u8; TAG_BYTES]> {
        self.deriver.encrypt(salt, data, bytes)
    }

    pub(super) fn decrypt(&self, salt: &[u8], data: &[u8], bytes: &mut [u8]) -> Option<usize> {
        self.deriver.decrypt(salt, data, bytes)
    }
}

/// A data key as the store holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    pub id: i64,
    pub tenant: i64,
    pub wrapped: Vec<u8>,
    /// The id of the master key that wraps it.
    pub master: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_key_is_hex_or_base64() {
        let (hex, base64) = ("01".repeat(32), STANDARD.encode([1; 32]));
        let ids = [&hex, &hex.to_uppercase(), &base64, &format!("  {base64}\n")]
            .map(|text| MasterKey::parse(text).unwrap().id().to_owned());
        assert!(ids.iter().all(|id| *id == MasterKey::new(&[1; 32]).id()));
        for bad in ["", "01", &"zz".repeat(32), &STANDARD.encode([1; 31]), &"01".repeat(33)] {
            assert_eq!(MasterKey::parse(bad).unwrap_err(), BadMasterKey, "{bad}");
        }
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let master = MasterKey::new(&[1; 32]);
        let (key, wrapped) = master.new_data_key(3).unwrap();
        assert_eq!(format!("{master:?}"), format!("MasterKey {{ id: {:?}, .. }}", master.id()));
        assert_eq!(format!("{key:?}"), format!("DataKey {{ id: {}, tenant: 3, .. }}", wrapped.id));
    }

    #[test]
    fn a_rewrapped_key_is_the_same_key() {
        let (old, new) = (MasterKey::new(&[1; 32]), MasterKey::new(&[2; 32]));
        let (key, wrapped) = old.new_data_key(3).unwrap();
        let again = new.rewrap(&old, &wrapped).unwrap();
        assert_eq!((again.id, again.tenant, again.master.as_str()), (wrapped.id, 3, new.id()));
        let salt = fresh_salt();
        let mut bytes = *b"same";
        let tag = key.encrypt(&salt, b"", &mut bytes).unwrap();
        let mut sealed = [bytes.as_slice(), &tag].concat();
        let length = new.open_key(&again).unwrap().decrypt(&salt, b"", &mut sealed).unwrap();
        assert_eq!(&sealed[..length], b"same");
        assert!(old.open_key(&again).is_err() && new.open_key(&wrapped).is_err());
    }
}
