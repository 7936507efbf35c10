//! Reported payloads, and the digests that recognise equal content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::wire::{PayloadOmitted, RawJson};
use redrive_engine::{Digest, Payload, PayloadKind, encode};
use sha2::{Digest as _, Sha256};

use crate::problem::{HttpProblem, Result};

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
            let bytes =
                STANDARD.decode(text).map_err(|_| HttpProblem::invalid_field("payload_base64", "is not base64"))?;
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

/// Its hash is the digest that the payload itself would have, so both are recognised as equal.
fn of_omitted(omitted: &PayloadOmitted) -> Result<Payload> {
    let hash = from_hex(omitted.sha256.as_str())
        .ok_or_else(|| HttpProblem::invalid_field("payload_omitted.sha256", "must be 64 hex digits"))?;
    Ok(Payload { kind: PayloadKind::Omitted, digest: first_half(&hash), encoded: encode(b"") })
}

fn twice(field: &str) -> HttpProblem {
    HttpProblem::invalid_field(
        field,
        "can't be combined with another payload: send one of payload, payload_base64, payload_omitted",
    )
}

pub(crate) fn digest(bytes: &[u8]) -> Digest {
    let whole: [u8; 32] = Sha256::digest(bytes).into();
    first_half(&whole)
}

pub(super) fn first_half(whole: &[u8; 32]) -> Digest {
    let mut half = Digest::default();
    half.iter_mut().zip(whole).for_each(|(to, from)| *to = *from);
    half
}

pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// 64 hex digits, or nothing.
pub(super) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut whole = [0; 32];
    for (byte, pair) in whole.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use redrive_engine::decode;

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

    #[test]
    fn a_hex_hash_equals_the_digest_of_its_content() {
        let written = sha256_hex(b"payload");
        assert_eq!(first_half(&from_hex(&written).unwrap()), digest(b"payload"));
        assert_eq!(from_hex("zz"), None);
        assert_eq!(from_hex(&"é".repeat(32)), None);
    }
}
