//! Names that nobody else makes: of one call of a tool, of one request.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use redrive_core::ids::{CallId, Uuid};

use crate::error::{Error, Result};

/// The standard library seeds every hasher from the system's randomness.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub(crate) fn call_id() -> Result<CallId> {
    format!("{:016x}{:016x}", random(), random()).parse().map_err(|e| Error::Unusable(format!("a call's id: {e}")))
}

/// A UUID for a `request_id` or a `start_id`: what is sent again under the same one is known again.
pub fn request_id() -> Result<Uuid> {
    let (high, low) = (random(), random());
    let text = format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 50),
        low & 0xffff_ffff_ffff,
    );
    text.parse().map_err(|e| Error::Unusable(format!("a request's id: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_calls_share_an_id() {
        let ids: std::collections::HashSet<CallId> = (0..1_000).map(|_| call_id().unwrap()).collect();
        assert_eq!(ids.len(), 1_000);
        let ids: std::collections::HashSet<Uuid> = (0..1_000).map(|_| request_id().unwrap()).collect();
        assert_eq!(ids.len(), 1_000);
    }
}
