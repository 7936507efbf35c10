//! Evidence within bounds. What a failure says is never a reason to refuse it: what is too long is cut, and marked with its
//! length and hash.

use std::collections::BTreeMap;

use redrive_core::text::Text;
use redrive_core::time::ClientTime;
use redrive_core::wire::{PayloadOmitted, bounds};
use redrive_store::AttemptBody;

use super::digest::sha256_hex;

pub(super) fn cut(body: &mut AttemptBody) {
    let mut cutting = Cutting(BTreeMap::new());
    if let Some(error) = &mut body.error {
        cutting.text("error.type", error.error_type.as_mut(), bounds::ERROR_TYPE_CUT_BYTES);
        cutting.text("error.message", Some(&mut error.message), bounds::MESSAGE_CUT_BYTES);
        cutting.text("error.detail", error.detail.as_mut(), bounds::DETAIL_CUT_BYTES);
        cutting.headers("error.headers", &mut error.headers);
    }
    if let Some(response) = &mut body.response {
        cutting.text("response.body", response.body.as_mut(), bounds::RESPONSE_BODY_CUT_BYTES);
        cutting.headers("response.headers", &mut response.headers);
    }
    cutting.text("partial_output", body.partial_output.as_mut(), bounds::PARTIAL_OUTPUT_CUT_BYTES);
    for (field, time) in [("started_at", &mut body.started_at), ("ended_at", &mut body.ended_at)] {
        cutting.text(field, time.as_mut().map(ClientTime::text_mut), bounds::CLIENT_TIME_CUT_BYTES);
    }
    body.truncated = cutting.0;
}

/// What was cut so far, by field.
struct Cutting(BTreeMap<String, PayloadOmitted>);

impl Cutting {
    fn text(&mut self, field: &str, text: Option<&mut Text>, max_bytes: usize) {
        let Some(text) = text else { return };
        let Some(cut) = text.cut(max_bytes) else { return };
        let whole = std::mem::replace(text, cut);
        self.mark(field, whole.decode().as_bytes());
    }

    /// Headers past the bound are left out, the last in the order of their names; so are those with an endless name.
    fn headers(&mut self, field: &str, headers: &mut BTreeMap<String, Text>) {
        let fits = |name: &String| name.len() <= bounds::HEADER_NAME_MAX_BYTES;
        if headers.len() > bounds::HEADERS_MAX || !headers.keys().all(fits) {
            let all = serde_json::to_vec(headers).unwrap_or_default();
            let kept = std::mem::take(headers).into_iter().filter(|(name, _)| fits(name));
            headers.extend(kept.take(bounds::HEADERS_MAX));
            self.mark(field, &all);
        }
        for (name, value) in headers {
            self.text(&format!("{field}.{name}"), Some(value), bounds::HEADER_MAX_BYTES);
        }
    }

    fn mark(&mut self, field: &str, whole: &[u8]) {
        let omitted = PayloadOmitted { bytes: whole.len() as u64, sha256: sha256_hex(whole).as_str().into() };
        self.0.insert(field.to_owned(), omitted);
    }
}
