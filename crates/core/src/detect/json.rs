//! JSON objects read in place as keys and raw tokens; texts are decoded on access. Lone surrogates, which serde can't hold in
//! a `str`, are no obstacle this way.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::text::decode_token;

/// An object's fields in their order.
pub(super) struct JsonObject<'a>(Vec<(ObjectKey<'a>, &'a RawValue)>);

impl<'a> JsonObject<'a> {
    pub(super) fn read(token: &'a str) -> Option<Self> {
        token.starts_with('{').then(|| serde_json::from_str(token).ok()).flatten()
    }

    /// A field; `null` counts as not there.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key.0 == name).map(|(_, value)| value.get()).filter(|token| *token != "null")
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key.0 == name)
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(key, value)| (key.0.as_ref(), value.get()))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.0.as_ref())
    }

    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text)
    }

    /// The first of several names that holds a text.
    pub(super) fn text_of(&self, names: &[&str]) -> Option<Cow<'a, str>> {
        names.iter().find_map(|name| self.text(name))
    }

    pub(super) fn object(&self, name: &str) -> Option<JsonObject<'a>> {
        self.get(name).and_then(JsonObject::read)
    }

    pub(super) fn list(&self, name: &str) -> Option<Vec<&'a str>> {
        self.get(name).and_then(list)
    }

    pub(super) fn is(&self, name: &str, token: &str) -> bool {
        self.get(name) == Some(token)
    }

    pub(super) fn says(&self, name: &str, word: &str) -> bool {
        self.text(name).is_some_and(|said| said == word)
    }
}

/// A JSON string's text.
pub(super) fn text(token: &str) -> Option<Cow<'_, str>> {
    token.starts_with('"').then(|| decode_token(token))
}

/// An array's tokens.
pub(super) fn list(token: &str) -> Option<Vec<&str>> {
    if !token.starts_with('[') {
        return None;
    }
    let items: Vec<&RawValue> = serde_json::from_str(token).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

struct ObjectKey<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for ObjectKey<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = ObjectKey<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<ObjectKey<'de>, E> {
                Ok(ObjectKey(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<ObjectKey<'de>, E> {
                Ok(ObjectKey(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = JsonObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<JsonObject<'de>, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(JsonObject(fields))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_hide_no_neighbouring_fields() {
        let object = JsonObject::read(r#"{"a":"\ud800","b\u0041":[1, "x"],"c":null}"#).unwrap();
        assert_eq!(object.text("a").as_deref(), Some("\\ud800"));
        assert_eq!(object.list("bA"), Some(vec!["1", "\"x\""]));
        assert_eq!((object.get("c"), object.has("c")), (None, true));
    }
}
