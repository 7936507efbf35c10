//! Building blocks of requests: bodies with only their required fields set, payloads as base64, and unique ids.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::ids::{CallId, RunId, Uuid};
use redrive_core::text::Text;
use redrive_core::wire::{ErrorReport, FailureReport, LeasedRun, Mode, StartRequest};

use crate::client::{Error, Result};

/// A start of `run_id` with default fields; set those that matter.
pub fn start(run_id: RunId) -> StartRequest {
    StartRequest {
        run_id,
        tenant: None,
        queue: None,
        agent: None,
        task_type: None,
        payload: None,
        payload_base64: None,
        payload_omitted: None,
        content_type: None,
        headers: BTreeMap::new(),
        idempotency_key: None,
        order_key: None,
        environment: None,
        customer: None,
        severity: None,
        versions: BTreeMap::new(),
        model: None,
        provider: None,
        resumable: None,
        links: BTreeMap::new(),
        destination: None,
        mode: Mode::Start,
        start_id: None,
        lease_ms: None,
        idle_ms: None,
        deadline_ms: None,
        due_at: None,
    }
}

/// A failure of `run_id` with only its message; set the fields that matter.
pub fn failure(run_id: RunId, message: &str) -> FailureReport {
    FailureReport {
        run_id,
        tenant: None,
        queue: None,
        agent: None,
        task_type: None,
        payload: None,
        payload_base64: None,
        payload_omitted: None,
        content_type: None,
        headers: BTreeMap::new(),
        idempotency_key: None,
        order_key: None,
        environment: None,
        customer: None,
        severity: None,
        versions: BTreeMap::new(),
        model: None,
        provider: None,
        resumable: None,
        links: BTreeMap::new(),
        destination: None,
        attempt: None,
        tool: None,
        step: None,
        error: error_report(message),
        response: None,
        partial_output: None,
        finish_reason: None,
        usage: None,
        steps: Vec::new(),
        started_at: None,
        ended_at: None,
    }
}

pub(crate) fn error_report(message: &str) -> ErrorReport {
    ErrorReport {
        error_type: None,
        message: Text::from(message),
        detail: None,
        http_status: None,
        headers: BTreeMap::new(),
        reason: None,
        category: None,
        terminal: false,
    }
}

/// Encodes bytes for `payload_base64`.
///
/// ```
/// let mut start = redrive_client::start("task-42".parse().expect("an id"));
/// start.payload_base64 = Some(redrive_client::encode_payload(&[0, 159, 146, 150]));
/// ```
pub fn encode_payload(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The payload of a leased run as the bytes that were sent: the JSON token, or the decoded base64.
pub fn payload_of(leased: &LeasedRun) -> Result<Vec<u8>> {
    match (&leased.payload, &leased.payload_base64) {
        (Some(json), _) => Ok(json.get().as_bytes().to_vec()),
        (None, Some(text)) => STANDARD
            .decode(text)
            .map_err(|e| Error::Unexpected { url: "/v1/leases".into(), what: format!("no base64 ({e})") }),
        (None, None) => Ok(Vec::new()),
    }
}

/// The standard library seeds every hasher from the system's randomness.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub(crate) fn call_id() -> Result<CallId> {
    format!("{:016x}{:016x}", random(), random()).parse().map_err(|e| Error::Unusable(format!("a call's id: {e}")))
}

/// A UUID for a `request_id` or `start_id`, by which the server recognises a repeated call.
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

    #[test]
    fn no_two_calls_share_an_id() {
        let ids: std::collections::HashSet<CallId> = (0..1_000).map(|_| call_id().unwrap()).collect();
        assert_eq!(ids.len(), 1_000);
        let ids: std::collections::HashSet<Uuid> = (0..1_000).map(|_| request_id().unwrap()).collect();
        assert_eq!(ids.len(), 1_000);
    }
}
