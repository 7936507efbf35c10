//! The schema as settings carry it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::meta::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::check::check;
use super::validate::{Found, Look};

/// A JSON Schema (2020-12, or an older draft's same keywords) that has been checked. Cheap to clone.
#[derive(Clone)]
pub struct OutputSchema(Arc<Checked>);

struct Checked {
    source: Value,
    /// Every `pattern`, by its text.
    patterns: HashMap<String, Regex>,
}

/// What a schema must not be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSchema(pub(super) String);

impl OutputSchema {
    pub fn new(source: Value) -> Result<Self, BadSchema> {
        let patterns = check(&source)?;
        Ok(Self(Arc::new(Checked { source, patterns })))
    }

    /// Where an output breaks it. The output may be the value itself, or a text (plain, or the answer inside a model's
    /// response) that is that value in JSON.
    pub(crate) fn breach(&self, output: Option<&str>, said: Option<&str>) -> Option<String> {
        let Some(output) = output else { return Some("there is no output".into()) };
        // Text that no JSON value of ours can hold (half a surrogate pair) is nobody's breach.
        let value: Value = serde_json::from_str(output).ok()?;
        let as_it_is = self.look(&value)?;
        let Some(said) = said else { return Some(as_it_is) };
        match serde_json::from_str::<Value>(said) {
            Ok(inner) => self.look(&inner),
            Err(_) if inside_a_fence(said) => Some("the text has a fence or words around its JSON".into()),
            Err(_) if value.is_string() => Some("the text is not JSON".into()),
            Err(_) => Some(as_it_is),
        }
    }

    fn look(&self, value: &Value) -> Option<String> {
        match Look::new(&self.0.source, &self.0.patterns).at(value) {
            Found::Fits | Found::TooMuchToTell => None,
            Found::Breach(breach) => Some(breach),
        }
    }
}

fn inside_a_fence(said: &str) -> bool {
    let inner = said.find(['{', '[']).zip(said.rfind(['}', ']'])).filter(|(from, to)| from < to);
    inner.is_some_and(|(from, to)| serde_json::from_str::<Value>(&said[from..=to]).is_ok())
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source
    }
}

impl Eq for OutputSchema {}

impl std::fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.source.fmt(f)
    }
}

impl Serialize for OutputSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.source.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OutputSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for OutputSchema {
    fn schema_name() -> Cow<'static, str> {
        "OutputSchema".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["object", "boolean"], "x-bounded-by": "body_max_bytes" })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn breach(schema: Value, output: &str, said: Option<&str>) -> Option<String> {
        OutputSchema::new(schema).unwrap().breach(Some(output), said)
    }

    #[test]
    fn a_text_may_be_the_value_in_json_but_not_with_words_around_it() {
        let total = json!({"type": "object", "required": ["total"]});
        assert_eq!(breach(total.clone(), r#"{"total":1}"#, None), None);
        assert_eq!(breach(total.clone(), r#""{\"total\":1}""#, Some(r#"{"total":1}"#)), None);
        let fenced = "```json\n{\"total\":1}\n```";
        assert_eq!(
            breach(total.clone(), &json!(fenced).to_string(), Some(fenced)).unwrap(),
            "the text has a fence or words around its JSON"
        );
        assert_eq!(breach(total.clone(), r#""no""#, Some("no")).unwrap(), "the text is not JSON");
        assert_eq!(breach(json!({"type": "string"}), r#""any words""#, Some("any words")), None);
        assert!(OutputSchema::new(total).unwrap().breach(None, None).is_some());
    }

    #[test]
    fn what_cant_be_held_is_nobodys_breach() {
        assert_eq!(breach(json!({"type": "object"}), r#""\ud800""#, Some("\\ud800")), None);
    }
}
