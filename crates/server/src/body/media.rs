//! Which bodies are taken at all.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::problem::{Code, Problem, Result};

pub(super) const JSON: &str = "application/json";
/// What `curl -d` says of any body. Nothing here takes forms, and a key in a header can't be forged by one, so it is read
/// as the JSON that was meant.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";
pub(super) const LINES: &str = "application/x-ndjson";

/// The media type without its parameters, in small letters; none where the caller says none.
pub(super) fn media_type(headers: &HeaderMap) -> Result<Option<String>> {
    refuse_compressed(headers)?;
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(None) };
    let value = value.to_str().map_err(|_| Problem::plain(Code::UnsupportedMediaType))?;
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Ok((!essence.is_empty()).then_some(essence))
}

/// Nothing is ever decompressed, so that nothing can blow up.
fn refuse_compressed(headers: &HeaderMap) -> Result<()> {
    let plain = |v: &http::HeaderValue| v.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    let all_plain = headers.get_all(CONTENT_ENCODING).iter().all(plain);
    all_plain.then_some(()).ok_or_else(|| Problem::plain(Code::UnsupportedEncoding))
}

pub(super) fn demand_json(headers: &HeaderMap) -> Result<()> {
    match media_type(headers)?.as_deref() {
        None | Some(JSON | FORM) => Ok(()),
        Some(other) => Err(unsupported(other)),
    }
}

/// Says what came, since tools set types that nobody asked for.
pub(super) fn unsupported(media: &str) -> Problem {
    let came = crate::problem::quoted(media);
    Problem::new(Code::UnsupportedMediaType, format!("`{came}` is not taken here: send `Content-Type: {JSON}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, http::HeaderValue::from_static(value))])
    }

    #[test]
    fn only_json_as_it_is_gets_in() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "", FORM] {
            assert_eq!(demand_json(&headers(CONTENT_TYPE, good)), Ok(()), "{good}");
        }
        for bad in ["text/plain", "multipart/form-data", "application/jsonp"] {
            let problem = demand_json(&headers(CONTENT_TYPE, bad)).unwrap_err();
            assert_eq!(problem.code, Code::UnsupportedMediaType, "{bad}");
        }
        assert_eq!(demand_json(&headers(CONTENT_ENCODING, "identity")), Ok(()));
        let problem = demand_json(&headers(CONTENT_ENCODING, "gzip")).unwrap_err();
        assert_eq!(problem.code, Code::UnsupportedEncoding);
    }
}
