//! A payload as it came: a JSON token, bytes, or the word that it was too large to send.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::wire::{PayloadOmitted, RawJson};
use redrive_store::{Payload, PayloadKind, encode};

use super::digest::{digest, first_half, from_hex};
use crate::problem::{Problem, Result};

/// At most one of the three may be given.
pub(super) fn payload(
    json: Option<&RawJson>,
    base64: Option<&str>,
    omitted: Option<&PayloadOmitted>,
) -> Result<Payload> {
    match (json, base64, omitted) {
        (None, None, None) => Ok(of_bytes(PayloadKind::None, b"")),
        (Some(json), None, None) => Ok(of_bytes(PayloadKind::Json, json.get().as_bytes())),
        (None, Some(text), None) => {
            let bytes = STANDARD.decode(text).map_err(|_| Problem::invalid_field("payload_base64", "is not base64"))?;
            Ok(of_bytes(PayloadKind::Bytes, &bytes))
        }
        (None, None, Some(omitted)) => of_omitted(omitted),
        (Some(_), Some(_), _) => Err(twice("payload_base64")),
        (Some(_), None, Some(_)) | (None, Some(_), Some(_)) => Err(twice("payload_omitted")),
    }
}

fn of_bytes(kind: PayloadKind, bytes: &[u8]) -> Payload {
    Payload { kind, digest: digest(bytes), encoded: encode(bytes) }
}

/// Its hash is the digest it would have had, so that the same payload is known again when it comes.
fn of_omitted(omitted: &PayloadOmitted) -> Result<Payload> {
    let hash = from_hex(omitted.sha256.as_str())
        .ok_or_else(|| Problem::invalid_field("payload_omitted.sha256", "must be 64 hex digits"))?;
    Ok(Payload { kind: PayloadKind::Omitted, digest: first_half(&hash), encoded: encode(b"") })
}

fn twice(field: &str) -> Problem {
    Problem::invalid_field(field, "can't go with another payload: give one of payload, payload_base64, payload_omitted")
}

#[cfg(test)]
mod tests {
    use redrive_store::decode;

    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::from(serde_json::value::RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn a_payload_is_kept_byte_for_byte() {
        let token = r#"{"n":12345678901234567890.10,"z":"\u0000","half":"\ud800"}"#;
        let kept = payload(Some(&raw(token)), None, None).unwrap();
        assert_eq!((kept.kind, decode(&kept.encoded).unwrap().as_slice()), (PayloadKind::Json, token.as_bytes()));
        let kept = payload(None, Some("AP8="), None).unwrap();
        assert_eq!((kept.kind, decode(&kept.encoded).unwrap()), (PayloadKind::Bytes, vec![0, 255]));
        assert_eq!(payload(None, None, None).unwrap().kind, PayloadKind::None);
    }

    #[test]
    fn two_payloads_or_a_broken_one_are_refused_by_name() {
        let omitted = PayloadOmitted { bytes: 1, sha256: "beef".into() };
        let field = |refused: Result<Payload>| refused.unwrap_err().into_wire().more["field"].clone();
        assert_eq!(field(payload(Some(&raw("1")), Some("AA=="), None)), "payload_base64");
        assert_eq!(field(payload(Some(&raw("1")), None, Some(&omitted))), "payload_omitted");
        assert_eq!(field(payload(None, Some("not base64!"), None)), "payload_base64");
        assert_eq!(field(payload(None, None, Some(&omitted))), "payload_omitted.sha256");
    }
}
