//! Text from outside. JSON can express what UTF-8 cannot (a lone surrogate escape), and every text is returned exactly as
//! sent, so it is kept as its JSON token and decoded only for reading.

pub mod name;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

/// A JSON string, kept as the token it came in.
#[derive(Clone)]
pub struct Text(Box<RawValue>);

impl Text {
    /// The token with its quotes, byte for byte as sent.
    pub fn token(&self) -> &str {
        self.0.get()
    }

    /// Wraps a stored token; `None` if it is not a JSON string.
    pub fn from_token(token: String) -> Option<Self> {
        let raw = RawValue::from_string(token).ok()?;
        raw.get().starts_with('"').then_some(Self(raw))
    }

    /// The first `max_bytes` of the token's inside, never half an escape or half a character; `None` where all of it fits.
    pub fn cut(&self, max_bytes: usize) -> Option<Self> {
        let token = self.token();
        let inner = &token[1..token.len() - 1];
        if inner.len() <= max_bytes {
            return None;
        }
        let mut end = inner.floor_char_boundary(max_bytes);
        let mut at = 0;
        while let Some(found) = inner[at..end].find('\\') {
            let begin = at + found;
            let wide = if inner.as_bytes().get(begin + 1) == Some(&b'u') { pair_or_single(&inner[begin..]) } else { 2 };
            if begin + wide > end {
                end = begin;
                break;
            }
            at = begin + wide;
        }
        Self::from_token(format!("\"{}\"", &inner[..end]))
    }

    /// The text for reading: a lone surrogate becomes its escape in plain letters, `\ud800`.
    pub fn decode(&self) -> Cow<'_, str> {
        decode_token(self.token())
    }
}

/// Reads a JSON string token; what no `str` can hold is written as its escape.
pub fn decode_token(token: &str) -> Cow<'_, str> {
    let inner = token.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(token);
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    match serde_json::from_str::<String>(token) {
        Ok(text) => Cow::Owned(text),
        Err(_) => Cow::Owned(decode_with_lone_surrogates(inner)),
    }
}

/// Decodes each escape by itself: pairs are joined, lone surrogates stay as they are written.
fn decode_with_lone_surrogates(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let width = if rest.as_bytes().get(1) == Some(&b'u') { pair_or_single(rest) } else { 2 };
        let (escape, after) = rest.split_at(width.min(rest.len()));
        match serde_json::from_str::<String>(&format!("\"{escape}\"")) {
            Ok(text) => out.push_str(&text),
            Err(_) => out.push_str(escape),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// How many bytes the escape at the start of `rest` takes: 12 for a surrogate pair, otherwise 6.
fn pair_or_single(rest: &str) -> usize {
    const PAIR_BYTES: usize = 12;
    let unit = |range: std::ops::Range<usize>| rest.get(range).and_then(|hex| u16::from_str_radix(hex, 16).ok());
    let leads = unit(2..6).is_some_and(|u| (0xd800..0xdc00).contains(&u));
    let trails = rest.get(6..8) == Some("\\u") && unit(8..12).is_some_and(|u| (0xdc00..0xe000).contains(&u));
    if leads && trails { PAIR_BYTES } else { PAIR_BYTES / 2 }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let token = serde_json::Value::from(text).to_string();
        Self::from_token(token).unwrap_or_else(|| Self(RawValue::NULL.to_owned()))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.token() == other.token()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.token())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('"') { Ok(Self(raw)) } else { Err(de::Error::custom("expected a string")) }
    }
}

impl JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// A short text that is filtered and shown (an agent, a model, a customer): decoded, never the token.
///
/// What no `str` can hold stands in it as its escape: a lone surrogate is `\ud800`. Backslashes before something that
/// looks like one are doubled, so that a name which really has these six characters is another name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(Arc<str>);

pub const LABEL_MAX_BYTES: usize = 1_000;

impl Label {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        let cut = text.floor_char_boundary(LABEL_MAX_BYTES);
        Self(text[..cut].into())
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Label {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.0.contains('\\') {
            return serializer.serialize_str(&self.0);
        }
        let units = name::units_of_label(&self.0);
        match name::text_of(&units) {
            Some(text) => serializer.serialize_str(&text),
            None => name::token_of(&units).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        let decoded = match text.token().contains('\\') {
            true => Cow::Owned(name::label_of(&name::units_of_token(text.token()))),
            false => text.decode(),
        };
        if decoded.len() > LABEL_MAX_BYTES {
            return Err(de::Error::custom(format_args!("longer than {LABEL_MAX_BYTES} bytes")));
        }
        Ok(Self(decoded.into()))
    }
}

impl JsonSchema for Label {
    fn schema_name() -> Cow<'static, str> {
        "Label".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": LABEL_MAX_BYTES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_exact_token() {
        let sent = r#""nul \u0000, half \ud83d, pair \ud83d\ude00, slash \/""#;
        let text: Text = serde_json::from_str(sent).unwrap();
        assert_eq!(serde_json::to_string(&text).unwrap(), sent);
        assert_eq!(text.decode(), "nul \0, half \\ud83d, pair 😀, slash /");
    }

    #[test]
    fn a_lone_surrogate_before_a_pair_stays_separate() {
        assert_eq!(decode_token(r#""\ud83d\ud83d\ude00\ude00""#), "\\ud83d😀\\ude00");
    }

    #[test]
    fn texts_are_cut_between_characters_and_escapes() {
        let cut = |token: &str, max| Text::from_token(token.into()).unwrap().cut(max).map(|t| t.token().to_owned());
        assert_eq!(cut(r#""abc""#, 3), None);
        assert_eq!(cut(r#""abcd""#, 3).unwrap(), r#""abc""#);
        assert_eq!(cut(r#""aéb""#, 2).unwrap(), r#""a""#);
        assert_eq!(cut(r#""a\nb""#, 2).unwrap(), r#""a""#);
        assert_eq!(cut(r#""a\\b""#, 3).unwrap(), r#""a\\""#);
        assert_eq!(cut(r#""\ud83d\ude00b""#, 6).unwrap().len(), 2);
        assert_eq!(cut(r#""\ud83d\ude00b""#, 12).unwrap(), r#""\ud83d\ude00""#);
    }

    #[test]
    fn numbers_are_not_texts() {
        assert!(serde_json::from_str::<Text>("12").is_err());
        assert_eq!(Text::from_token("12".into()), None);
    }

    #[test]
    fn labels_are_decoded_and_bounded() {
        assert_eq!(serde_json::from_str::<Label>(r#""\u0041\ud800""#).unwrap().as_str(), "A\\ud800");
        assert_eq!(serde_json::from_str::<Label>(r#""\uD800""#).unwrap().as_str(), "\\ud800");
        assert!(serde_json::from_str::<Label>(&format!("\"{}\"", "x".repeat(1_001))).is_err());
    }

    #[test]
    fn names_that_differ_are_kept_apart_and_given_back() {
        let tokens = [
            r#""\ud800""#,
            r#""\\ud800""#,
            r#""\\\ud800""#,
            r#""\\\\ud800""#,
            r#""\\\\\ud800""#,
            r#""\\\\\\ud800""#,
            r#""\ud800\udbff""#,
            r#""\\ud800\udbff""#,
            r#""a\\b""#,
            r#""\\uD800""#,
            r#""\\u0041""#,
            r#""\ud83d\\ude00""#,
        ];
        let labels: Vec<Label> = tokens.iter().map(|token| serde_json::from_str(token).unwrap()).collect();
        let apart: std::collections::BTreeSet<&Label> = labels.iter().collect();
        assert_eq!(apart.len(), tokens.len(), "{labels:?}");
        let shown: Vec<String> = labels.iter().map(|label| serde_json::to_string(label).unwrap()).collect();
        assert_eq!(shown, tokens);
        assert_eq!(labels[0].as_str(), r"\ud800", "shown as it is escaped");
    }

    proptest::proptest! {
        #[test]
        fn a_label_is_given_back_as_the_name_it_was(token in r#""(\\u(d[89a-f]|00)[0-9a-f]{2}|\\\\|ud[89]00|[a-c8])*""#) {
            let label: Label = serde_json::from_str(&token).unwrap();
            let again = serde_json::to_string(&label).unwrap();
            proptest::prop_assert_eq!(name::units_of_token(&again), name::units_of_token(&token));
            proptest::prop_assert_eq!(serde_json::from_str::<Label>(&again).unwrap(), label);
        }

        #[test]
        fn any_text_round_trips(text in ".*") {
            let kept = Text::from(text.as_str());
            proptest::prop_assert_eq!(kept.decode(), text);
        }

        #[test]
        fn decoding_any_token_never_panics(token in r#""(\\u[0-9a-f]{4}|\\n|[a-z é])*""#) {
            let _ = decode_token(&token);
        }
    }
}
