//! Payloads that are not JSON travel as base64; these two turn them over.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::wire::LeasedRun;

use crate::error::{Error, Result};

/// Bytes as a `payload_base64` holds them.
///
/// ```
/// let mut start = redrive_client::start("task-42".parse().expect("an id"));
/// start.payload_base64 = Some(redrive_client::encode_payload(&[0, 159, 146, 150]));
/// ```
pub fn encode_payload(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// What a leased run carries, as the bytes that were sent: a JSON payload's token, or what its base64 stands for.
pub fn payload_of(leased: &LeasedRun) -> Result<Vec<u8>> {
    match (&leased.payload, &leased.payload_base64) {
        (Some(json), _) => Ok(json.get().as_bytes().to_vec()),
        (None, Some(text)) => STANDARD
            .decode(text)
            .map_err(|e| Error::Unexpected { url: "/v1/leases".into(), what: format!("no base64 ({e})") }),
        (None, None) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leased(payload: &str) -> LeasedRun {
        let text = format!(
            r#"{{"run_id":"a","tenant":"t","queue":"q","agent":null,"model":null,"attempt":1,"revision":1,"replay":false,
                "lease":"l","lease_expires_at":"2026-01-01T00:00:00Z",{payload}"content_type":null,"headers":{{}},
                "idempotency_key":null,"changes":[],"steps":[],"trace":null}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_payload_comes_back_as_the_bytes_that_were_sent() {
        assert_eq!(payload_of(&leased(r#""payload":{"n": 1.10},"#)).unwrap(), br#"{"n": 1.10}"#);
        let bytes = [0, 159, 146, 150];
        let sent = format!(r#""payload_base64":"{}","#, encode_payload(&bytes));
        assert_eq!(payload_of(&leased(&sent)).unwrap(), bytes);
        assert_eq!(payload_of(&leased("")).unwrap(), b"");
        assert!(payload_of(&leased(r#""payload_base64":"?","#)).is_err());
    }
}
