//! ID tokens: the signature, then every claim that binds a token to this login. Signatures are checked by ring, which TLS
//! uses too; the JWT crates would bring a second crypto library.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_core::time::Timestamp;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

/// Clocks of two machines may differ by so much.
const LEEWAY_MS: i64 = 60_000;
const KEYS_MAX: usize = 100;
const P256_COORDINATE_BYTES: usize = 32;
const P384_COORDINATE_BYTES: usize = 48;

/// Why an ID token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    #[error("it is malformed")]
    Malformed,
    #[error("its signature algorithm is not supported")]
    Algorithm,
    #[error("no published key has its key id and algorithm")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("it is from another issuer")]
    Issuer,
    #[error("it is for another client")]
    Audience,
    #[error("it has expired or is not valid yet")]
    Time,
    #[error("it belongs to another login")]
    Nonce,
}

/// Published keys of an issuer (JWKS).
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Jwks {
    /// A key of a kind that is not known here does not spoil the others.
    keys: Vec<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a verifier has to understand: none here.
    crit: Option<serde_json::Value>,
}

/// One value or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum ClaimValues {
    One(String),
    Many(Vec<String>),
}

impl ClaimValues {
    pub(crate) fn as_slice(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// The claims about a person; in the ID token or from the user info endpoint.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct PersonClaims {
    pub(crate) email: Option<String>,
    /// Some providers send it as a text.
    pub(crate) email_verified: Option<serde_json::Value>,
    pub(crate) preferred_username: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) groups: Option<ClaimValues>,
}

#[derive(Debug, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: ClaimValues,
    azp: Option<String>,
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    nonce: Option<String>,
    #[serde(flatten)]
    person: PersonClaims,
}

/// What a token has to say for this login.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) now: Timestamp,
}

/// A verified token.
#[derive(Debug)]
pub(crate) struct IdToken {
    pub(crate) subject: String,
    pub(crate) expires_at: Timestamp,
    pub(crate) person: PersonClaims,
}

pub(crate) fn verify(token: &str, keys: &Jwks, expected: &Expected<'_>) -> Result<IdToken, BadToken> {
    let mut parts = token.split('.');
    let (Some(head), Some(body), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(BadToken::Malformed);
    };
    let header: Header = decoded(head)?;
    if header.crit.is_some() {
        return Err(BadToken::Malformed);
    }
    let signed = &token.as_bytes()[..head.len() + 1 + body.len()];
    check_signature(&header, keys, signed, &bytes(signature)?)?;
    check_claims(decoded(body)?, expected)
}

fn check_claims(claims: Claims, expected: &Expected<'_>) -> Result<IdToken, BadToken> {
    let Claims { iss, sub, aud, azp, exp, nbf, iat, nonce, person } = claims;
    if iss != expected.issuer {
        return Err(BadToken::Issuer);
    }
    let audience = aud.as_slice();
    // With several audiences the authorized party says who the token was made for.
    let for_us = audience.iter().any(|client| client == expected.client_id)
        && (audience.len() == 1 || azp.is_some())
        && azp.is_none_or(|party| party == expected.client_id);
    if !for_us {
        return Err(BadToken::Audience);
    }
    let now = expected.now.as_millis();
    let begun = [nbf, iat].into_iter().flatten().all(|at| millis(at) <= now.saturating_add(LEEWAY_MS));
    let expires_ms = millis(exp);
    if !begun || expires_ms <= now {
        return Err(BadToken::Time);
    }
    if nonce.as_deref() != Some(expected.nonce) {
        return Err(BadToken::Nonce);
    }
    if sub.is_empty() {
        return Err(BadToken::Malformed);
    }
    Ok(IdToken { subject: sub, expires_at: Timestamp::from_millis(expires_ms), person })
}

/// Seconds since 1970, which may have a fraction; what is out of range saturates.
fn millis(seconds: f64) -> i64 {
    (seconds * 1_000.0) as i64
}

fn check_signature(header: &Header, keys: &Jwks, signed: &[u8], signature: &[u8]) -> Result<(), BadToken> {
    let kind = match header.alg.as_str() {
        "RS256" | "RS384" | "RS512" | "PS256" => "RSA",
        "ES256" | "ES384" => "EC",
        "EdDSA" => "OKP",
        _ => return Err(BadToken::Algorithm),
    };
    let known = keys.keys.iter().take(KEYS_MAX).filter_map(|key| Jwk::deserialize(key).ok());
    let mut fitting = known.filter(|key| {
        key.kty == kind
            && key.usage.as_deref().is_none_or(|usage| usage == "sig")
            && key.alg.as_deref().is_none_or(|alg| alg == header.alg)
            && (header.kid.is_none() || key.kid == header.kid)
    });
    let key = fitting.next().ok_or(BadToken::UnknownKey)?;
    // Without a key id, only a single key is not ambiguous.
    if header.kid.is_none() && fitting.next().is_some() {
        return Err(BadToken::UnknownKey);
    }
    let verified = match header.alg.as_str() {
        "RS256" => rsa(&key)?.verify(&signature::RSA_PKCS1_2048_8192_SHA256, signed, signature),
        "RS384" => rsa(&key)?.verify(&signature::RSA_PKCS1_2048_8192_SHA384, signed, signature),
        "RS512" => rsa(&key)?.verify(&signature::RSA_PKCS1_2048_8192_SHA512, signed, signature),
        "PS256" => rsa(&key)?.verify(&signature::RSA_PSS_2048_8192_SHA256, signed, signature),
        "ES256" => {
            let point = point(&key, "P-256", P256_COORDINATE_BYTES)?;
            UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
        }
        "ES384" => {
            let point = point(&key, "P-384", P384_COORDINATE_BYTES)?;
            UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point).verify(signed, signature)
        }
        _ => {
            let x = field(key.crv.as_deref().filter(|curve| *curve == "Ed25519").and(key.x.as_ref()))?;
            UnparsedPublicKey::new(&signature::ED25519, x).verify(signed, signature)
        }
    };
    verified.map_err(|_| BadToken::Signature)
}

fn rsa(key: &Jwk) -> Result<RsaPublicKeyComponents<Vec<u8>>, BadToken> {
    // Some providers begin the modulus with a zero.
    let trimmed = |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    Ok(RsaPublicKeyComponents { n: trimmed(field(key.n.as_ref())?), e: trimmed(field(key.e.as_ref())?) })
}

/// The uncompressed point of an elliptic curve key.
fn point(key: &Jwk, curve: &str, coordinate_bytes: usize) -> Result<Vec<u8>, BadToken> {
    if key.crv.as_deref() != Some(curve) {
        return Err(BadToken::UnknownKey);
    }
    let (x, y) = (field(key.x.as_ref())?, field(key.y.as_ref())?);
    if x.len() != coordinate_bytes || y.len() != coordinate_bytes {
        return Err(BadToken::UnknownKey);
    }
    Ok([&[4], x.as_slice(), y.as_slice()].concat())
}

fn field(value: Option<&String>) -> Result<Vec<u8>, BadToken> {
    value.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or(BadToken::UnknownKey)
}

fn bytes(text: &str) -> Result<Vec<u8>, BadToken> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| BadToken::Malformed)
}

fn decoded<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, BadToken> {
    serde_json::from_slice(&bytes(text)?).map_err(|_| BadToken::Malformed)
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
    use serde_json::{Value, json};

    use super::*;

    const NOW_S: i64 = 1_800_000_000;
    /// Made for this test.
    const RSA_KEY: &[u8] = include_bytes!("../../../tests/oidc/rsa.pk8");

    fn encoded(value: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(value)
    }

    fn rsa_key() -> RsaKeyPair {
        RsaKeyPair::from_pkcs8(RSA_KEY).unwrap()
    }

    fn ec_key() -> EcdsaKeyPair {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap()
    }

    fn rsa_jwk(key: &RsaKeyPair) -> Value {
        let parts = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
        json!({ "kty": "RSA", "kid": "r", "use": "sig", "alg": "RS256", "n": encoded(&parts.n), "e": encoded(&parts.e) })
    }

    fn ec_jwk(key: &EcdsaKeyPair) -> Value {
        let point = key.public_key().as_ref();
        json!({ "kty": "EC", "kid": "e", "crv": "P-256", "x": encoded(&point[1..33]), "y": encoded(&point[33..]) })
    }

    fn jwks(keys: &[Value]) -> Jwks {
        Jwks { keys: keys.to_vec() }
    }

    fn claims() -> Value {
        json!({
            "iss": "https://id.example", "sub": "ada", "aud": "desk", "exp": NOW_S + 3600, "iat": NOW_S,
            "nonce": "n-1", "email": "ada@example.com", "groups": ["sre"],
        })
    }

    fn with(changes: &Value) -> Value {
        let mut all = claims();
        for (name, value) in changes.as_object().unwrap() {
            all[name] = value.clone();
        }
        all
    }

    fn signed_by_rsa(header: &Value, body: &Value, key: &RsaKeyPair) -> String {
        let text = format!("{}.{}", encoded(header.to_string().as_bytes()), encoded(body.to_string().as_bytes()));
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
        format!("{text}.{}", encoded(&signature))
    }

    fn signed_by_ec(header: &Value, body: &Value, key: &EcdsaKeyPair) -> String {
        let text = format!("{}.{}", encoded(header.to_string().as_bytes()), encoded(body.to_string().as_bytes()));
        let signature = key.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", encoded(signature.as_ref()))
    }

    fn verified(token: &str, keys: &Jwks) -> Result<IdToken, BadToken> {
        let now = Timestamp::from_millis(NOW_S * 1_000);
        verify(token, keys, &Expected { issuer: "https://id.example", client_id: "desk", nonce: "n-1", now })
    }

    #[test]
    fn tokens_of_both_common_algorithms_are_verified() {
        let (rsa, ec) = (rsa_key(), ec_key());
        let keys = jwks(&[json!({ "kty": "oct", "k": "x" }), json!(7), rsa_jwk(&rsa), ec_jwk(&ec)]);
        for token in [
            signed_by_rsa(&json!({ "alg": "RS256", "kid": "r" }), &claims(), &rsa),
            signed_by_ec(&json!({ "alg": "ES256", "kid": "e" }), &claims(), &ec),
            signed_by_ec(&json!({ "alg": "ES256" }), &claims(), &ec),
        ] {
            let token = verified(&token, &keys).unwrap();
            assert_eq!((token.subject.as_str(), token.expires_at.as_millis()), ("ada", (NOW_S + 3600) * 1_000));
            assert_eq!(token.person.groups.unwrap().as_slice(), ["sre"]);
        }
    }

    #[test]
    fn a_forged_token_is_refused() {
        let (rsa, ec, other) = (rsa_key(), ec_key(), ec_key());
        let keys = jwks(&[rsa_jwk(&rsa), ec_jwk(&ec)]);
        let good = signed_by_ec(&json!({ "alg": "ES256", "kid": "e" }), &claims(), &ec);
        let (signed, signature) = good.rsplit_once('.').unwrap();
        let (head, _) = signed.split_once('.').unwrap();
        let admin = encoded(with(&json!({ "groups": ["root"] })).to_string().as_bytes());
        let none = encoded(br#"{"alg":"none"}"#);
        let hmac = encoded(br#"{"alg":"HS256","kid":"r"}"#);
        for (token, bad) in [
            (signed_by_ec(&json!({ "alg": "ES256", "kid": "e" }), &claims(), &other), BadToken::Signature),
            (format!("{head}.{admin}.{signature}"), BadToken::Signature),
            (format!("{signed}."), BadToken::Signature),
            (format!("{none}.{admin}."), BadToken::Algorithm),
            (format!("{hmac}.{admin}.{signature}"), BadToken::Algorithm),
            (signed_by_ec(&json!({ "alg": "RS256", "kid": "e" }), &claims(), &ec), BadToken::UnknownKey),
            (signed_by_ec(&json!({ "alg": "ES256", "kid": "r" }), &claims(), &ec), BadToken::UnknownKey),
            (signed_by_ec(&json!({ "alg": "ES256", "kid": "x" }), &claims(), &ec), BadToken::UnknownKey),
            (
                signed_by_ec(&json!({ "alg": "ES256", "kid": "e", "crit": ["b64"] }), &claims(), &ec),
                BadToken::Malformed,
            ),
            (signed.to_owned(), BadToken::Malformed),
            (format!("{good}.x"), BadToken::Malformed),
            (format!("{good}="), BadToken::Malformed),
            (String::new(), BadToken::Malformed),
        ] {
            assert_eq!(verified(&token, &keys).unwrap_err(), bad, "{token}");
        }
        let twice = jwks(&[ec_jwk(&ec), ec_jwk(&other)]);
        let unnamed = signed_by_ec(&json!({ "alg": "ES256" }), &claims(), &ec);
        assert_eq!(verified(&unnamed, &twice).unwrap_err(), BadToken::UnknownKey, "ambiguous");
    }

    #[test]
    fn every_claim_has_to_fit_this_login() {
        let ec = ec_key();
        let keys = jwks(&[ec_jwk(&ec)]);
        for (changes, result) in [
            (json!({}), None),
            (json!({ "aud": ["desk"] }), None),
            (json!({ "aud": ["desk", "other"], "azp": "desk" }), None),
            (json!({ "iat": NOW_S + 30, "exp": f64::from(1_800_000_001) + 0.5 }), None),
            (json!({ "iss": "https://id.example/" }), Some(BadToken::Issuer)),
            (json!({ "aud": "other" }), Some(BadToken::Audience)),
            (json!({ "aud": [] }), Some(BadToken::Audience)),
            (json!({ "aud": ["desk", "other"] }), Some(BadToken::Audience)),
            (json!({ "aud": ["desk"], "azp": "other" }), Some(BadToken::Audience)),
            (json!({ "exp": NOW_S }), Some(BadToken::Time)),
            (json!({ "nbf": NOW_S + 120 }), Some(BadToken::Time)),
            (json!({ "iat": NOW_S + 120 }), Some(BadToken::Time)),
            (json!({ "exp": "soon" }), Some(BadToken::Malformed)),
            (json!({ "exp": null }), Some(BadToken::Malformed)),
            (json!({ "nonce": "n-2" }), Some(BadToken::Nonce)),
            (json!({ "nonce": null }), Some(BadToken::Nonce)),
            (json!({ "sub": "" }), Some(BadToken::Malformed)),
        ] {
            let token = signed_by_ec(&json!({ "alg": "ES256", "kid": "e" }), &with(&changes), &ec);
            assert_eq!(verified(&token, &keys).err(), result, "{changes}");
        }
    }
}
