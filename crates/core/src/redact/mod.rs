//! Redaction: secrets are masked before a text is stored, logged, grouped or shown. A mark names what was there:
//! `[redacted:github_token]`. Redacting a text again changes nothing.

mod json;
mod shapes;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use json::{PARTS_MAX, RedactedJson, RedactedPart, Redactor, restore, shown_json};
pub use shapes::FoundSecret;

use crate::text::{Label, Text, map_escapes};
use shapes::MARK_START;

/// A masked secret can complete another one only so often: after this many rounds nothing is left to find.
const ROUNDS_MAX: usize = 8;

/// The mark of a masked value.
pub fn mark(kind: &str) -> String {
    format!("{MARK_START}{kind}]")
}

/// Whether a text holds a mark.
pub fn has_mark(text: &str) -> bool {
    text.contains(MARK_START)
}

/// The well-known secrets of a text, in order.
pub fn secrets(text: &str) -> Vec<FoundSecret> {
    shapes::find(text)
}

/// The text with its well-known secrets masked.
pub fn mask(text: &str) -> Cow<'_, str> {
    let mut masked = Cow::Borrowed(text);
    for _ in 0..ROUNDS_MAX {
        let found = shapes::find(&masked);
        if found.is_empty() {
            break;
        }
        masked =
            Cow::Owned(replaced(&masked, found.iter().map(|secret| (secret.span.start, secret.span.end, secret.kind))));
    }
    masked
}

fn replaced<'a>(text: &str, marks: impl Iterator<Item = (usize, usize, &'a str)>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (start, end, kind) in marks {
        out.push_str(text.get(done..start).unwrap_or_default());
        out.push_str(&mark(kind));
        done = end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// The same for a text from outside; none where nothing changes. What is not masked keeps its bytes.
pub fn mask_text(text: &Text) -> Option<Text> {
    let masked = mask_token(text.token())?;
    Text::from_token(masked)
}

/// The same for the token of a JSON string.
fn mask_token(token: &str) -> Option<String> {
    let inner = token.get(1..token.len().checked_sub(1)?)?;
    if !inner.contains('\\') {
        return match mask(inner) {
            Cow::Borrowed(_) => None,
            Cow::Owned(masked) => Some(format!("\"{masked}\"")),
        };
    }
    // These escapes can spell an anchor; the others cannot.
    if !inner.contains("\\u") && !inner.contains("\\/") && !shapes::has_anchor(inner) {
        return None;
    }
    let mut masked: Option<String> = None;
    for _ in 0..ROUNDS_MAX {
        let current = masked.as_deref().unwrap_or(inner);
        let (decoded, escapes) = map_escapes(current);
        let found = shapes::find(&decoded);
        if found.is_empty() {
            break;
        }
        let spans =
            found.iter().map(|secret| (escapes.at(secret.span.start), escapes.at(secret.span.end), secret.kind));
        masked = Some(replaced(current, spans));
    }
    masked.map(|inner| format!("\"{inner}\""))
}

/// A name with its well-known secrets masked; none where nothing changes.
pub fn mask_label(label: &Label) -> Option<Label> {
    match mask(label.as_str()) {
        Cow::Borrowed(_) => None,
        Cow::Owned(masked) => Some(Label::from(masked.as_str())),
    }
}

/// Masks the values of headers that carry credentials, and well-known secrets in the others. Answers with the names of the
/// masked ones and their kinds.
pub fn mask_headers(headers: &mut BTreeMap<String, Text>) -> Vec<(String, String)> {
    let mut masked = Vec::new();
    for (name, value) in headers {
        let kind = shapes::secret_header(name).or_else(|| shapes::assigned_to(name, &value.decode()));
        match kind {
            Some(kind) if !value.token().starts_with("\"[redacted:") => {
                *value = Text::from(mark(kind).as_str());
                masked.push((name.clone(), kind.to_owned()));
            }
            Some(_) => {}
            None => {
                if let Some(text) = mask_text(value) {
                    *value = text;
                    masked.push((name.clone(), "secret".to_owned()));
                }
            }
        }
    }
    masked
}

#[cfg(test)]
mod tests;
