//! Request bodies: read within limits after authentication, then parsed strictly.

mod bounds;
mod json;

pub(crate) use json::{HeldJson, Json, JsonOrLines, OptionalJson, lines, parse, parse_free};

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::BodyExt as _;
use schemars::{Schema, SchemaGenerator};
use tokio::time::{Instant, timeout, timeout_at};

use crate::app::App;
use crate::budget::{BudgetShare, Holder};
use crate::limits::{ANONYMOUS_BODY_MAX_BYTES, BODY_PROGRESS_MIN_BYTES};
use crate::problem::{Code, HttpProblem, Result};

/// Makes a schema for the OpenAPI document.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A type that a handler takes as its body.
pub(crate) trait FromBody: Sized + Send + 'static {
    /// The accepted media types with their schemas; none if no body is read.
    fn media() -> Vec<(&'static str, SchemaOf)>;
    /// Whether a call without a body is refused.
    const REQUIRED: bool;

    /// `payer` pays for the body while it is in memory.
    fn read(
        app: &App,
        parts: &Parts,
        body: axum::body::Body,
        payer: Holder,
    ) -> impl Future<Output = Result<Self>> + Send;
}

/// No body; one that is sent is ignored.
#[derive(Debug)]
pub(crate) struct NoBody;

impl FromBody for NoBody {
    const REQUIRED: bool = false;

    fn media() -> Vec<(&'static str, SchemaOf)> {
        Vec::new()
    }

    async fn read(_: &App, _: &Parts, _: axum::body::Body, _: Holder) -> Result<Self> {
        Ok(Self)
    }
}

const BUSY_RETRY_AFTER_S: u32 = 1;
/// At most this much is allocated on the word of `Content-Length`.
const RESERVED_MAX_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Buffered {
    pub(crate) bytes: Bytes,
    /// Returns the bytes to the budget when dropped.
    pub(crate) held: BudgetShare,
}

impl Buffered {
    /// Callers without a key share a small budget of their own.
    pub(crate) async fn read(app: &App, headers: &HeaderMap, body: Body, payer: Holder) -> Result<Self> {
        let (budget, max_bytes) = match payer {
            Holder::Anonymous => (&app.anonymous_bytes, ANONYMOUS_BODY_MAX_BYTES.min(app.limits.body_max_bytes)),
            Holder::Tenant(_) | Holder::Key(_) => (&app.in_flight_bytes, app.limits.body_max_bytes),
        };
        let least = announced(headers, &body);
        if least > max_bytes as u64 {
            // Refused without reading it.
            return Err(too_large(max_bytes));
        }
        let buffer = Vec::with_capacity(
            usize::try_from(least).map_or(RESERVED_MAX_BYTES, |least| least.min(RESERVED_MAX_BYTES)),
        );
        let reading = BodyReader {
            buffer,
            held: budget.share(payer),
            max_bytes,
            stall: Duration::from_millis(app.limits.body_stall_ms),
        };
        match timeout(Duration::from_millis(app.limits.body_timeout_ms), reading.collect(body)).await {
            Ok(read) => read,
            Err(_) => Err(HttpProblem::plain(Code::SlowBody)),
        }
    }
}

/// The announced length of a body, or its lower bound.
fn announced(headers: &HeaderMap, body: &Body) -> u64 {
    let announced = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    announced.unwrap_or_else(|| body.size_hint().lower())
}

struct BodyReader {
    buffer: Vec<u8>,
    held: BudgetShare,
    max_bytes: usize,
    stall: Duration,
}

impl BodyReader {
    /// A body that stalls gives its share back long before its time is up: it has to end, or to bring a minimum of
    /// bytes, within each stall time.
    async fn collect(mut self, mut body: Body) -> Result<Buffered> {
        let mut progress_by = Instant::now() + self.stall;
        let mut progressed = 0;
        loop {
            let frame = match timeout_at(progress_by, body.frame()).await {
                Ok(Some(frame)) => frame.map_err(|_| HttpProblem::plain(Code::BadBody))?,
                Ok(None) => return Ok(Buffered { bytes: self.buffer.into(), held: self.held }),
                Err(_) => return Err(HttpProblem::plain(Code::SlowBody)),
            };
            let Ok(data) = frame.into_data() else { continue };
            if self.buffer.len() + data.len() > self.max_bytes {
                return Err(too_large(self.max_bytes));
            }
            let busy = |_| HttpProblem::plain(Code::Busy).retry_after_s(BUSY_RETRY_AFTER_S);
            self.held.grow(data.len()).map_err(busy)?;
            self.buffer.extend_from_slice(&data);
            progressed += data.len();
            if progressed >= BODY_PROGRESS_MIN_BYTES {
                progressed = 0;
                progress_by = Instant::now() + self.stall;
            }
        }
    }
}

fn too_large(limit_bytes: usize) -> HttpProblem {
    HttpProblem::plain(Code::BodyTooLarge).with("limit_bytes", limit_bytes)
}

const JSON: &str = "application/json";
/// What `curl -d` sends by default. The API takes no forms, and a form can't forge a key in a header, so it is parsed as
/// JSON.
const FORM: &str = "application/x-www-form-urlencoded";
const LINES: &str = "application/x-ndjson";

/// The media type without parameters, in lower case; none if the caller sent none.
fn media_type(headers: &HeaderMap) -> Result<Option<String>> {
    refuse_compressed(headers)?;
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(None) };
    let value = value.to_str().map_err(|_| HttpProblem::plain(Code::UnsupportedMediaType))?;
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Ok((!essence.is_empty()).then_some(essence))
}

/// Nothing is decompressed, so no body can be a decompression bomb.
fn refuse_compressed(headers: &HeaderMap) -> Result<()> {
    let plain = |v: &http::HeaderValue| v.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    let all_plain = headers.get_all(CONTENT_ENCODING).iter().all(plain);
    all_plain.then_some(()).ok_or_else(|| HttpProblem::plain(Code::UnsupportedEncoding))
}

fn demand_json(headers: &HeaderMap) -> Result<()> {
    match media_type(headers)?.as_deref() {
        None | Some(JSON | FORM) => Ok(()),
        Some(other) => Err(unsupported(other)),
    }
}

/// Names the type that was sent, because tools set one by default.
fn unsupported(media: &str) -> HttpProblem {
    let came = crate::problem::quoted(media);
    HttpProblem::new(Code::UnsupportedMediaType, format!("`{came}` is not supported: send `Content-Type: {JSON}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, http::HeaderValue::from_static(value))])
    }

    #[test]
    fn only_uncompressed_json_is_accepted() {
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
