//! A queue's JSON Schema for outputs, checked once when it is set. Validation can't hang: expressions are linear,
//! references stay inside the document, and steps are counted.

#[cfg(test)]
mod tests;
mod validate;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use validate::{Validation, Validator};

/// A JSON Schema (2020-12, or an older draft's same keywords) that has been checked. Cheap to clone.
#[derive(Clone)]
pub struct OutputSchema(Arc<CheckedSchema>);

struct CheckedSchema {
    source: Value,
    /// Every `pattern`, by its text.
    patterns: HashMap<String, Regex>,
}

/// Why a schema is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSchema(String);

impl OutputSchema {
    pub fn new(source: Value) -> Result<Self, BadSchema> {
        let patterns = check(&source)?;
        Ok(Self(Arc::new(CheckedSchema { source, patterns })))
    }

    /// Where an output breaks it. The output may be the value itself, or a text (plain, or the answer inside a model's
    /// response) that is that value in JSON.
    pub(crate) fn breach(&self, output: Option<&str>, said: Option<&str>) -> Option<String> {
        let Some(output) = output else { return Some("there is no output".into()) };
        // Text with half a surrogate pair, which our JSON values can't hold, is no breach.
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
        match Validator::new(&self.0.source, &self.0.patterns).at(value) {
            Validation::Fits | Validation::TooMuchToTell => None,
            Validation::Breach(breach) => Some(breach),
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

const MOST_BYTES: usize = 256 * 1024;
const MOST_DEPTH: usize = 64;
const MOST_PATTERN_BYTES: usize = 2_000;
const MOST_COMPILED_BYTES: usize = 256 * 1024;
const MOST_PATTERNS: usize = 200;
const MOST_NESTING: u32 = 40;

/// Each holds one schema.
const ONE: &[&str] = &["not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "items"];
/// Each holds a list of schemas.
const LISTS: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
/// Each holds schemas by name.
const MAPS: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const COUNTS: &[&str] =
    &["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"];
const NUMBERS: &[&str] = &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// Keywords that would be silently ignored are refused.
const UNKNOWN_TO_US: &[&str] =
    &["$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems", "dependencies", "additionalItems"];
const TYPES: &[&str] = &["null", "boolean", "object", "array", "number", "string", "integer"];

/// Refuses unsupported keywords, and compiles every expression.
fn check(source: &Value) -> Result<HashMap<String, Regex>, BadSchema> {
    let bytes = source.to_string().len();
    if bytes > MOST_BYTES {
        return Err(bad(format!("the schema has {bytes} bytes; {MOST_BYTES} are allowed")));
    }
    let mut checker = Checker { root: source, patterns: HashMap::new() };
    checker.schema(source, 0)?;
    Ok(checker.patterns)
}

fn bad(what: impl Into<String>) -> BadSchema {
    BadSchema(what.into())
}

struct Checker<'a> {
    root: &'a Value,
    patterns: HashMap<String, Regex>,
}

impl Checker<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Result<(), BadSchema> {
        if depth > MOST_DEPTH {
            return Err(bad(format!("the schema is more than {MOST_DEPTH} levels deep")));
        }
        let keywords = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(keywords) => keywords,
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(bad("a schema is an object, true or false"));
            }
        };
        self.own(keywords)?;
        for (name, value) in keywords {
            match value {
                one if ONE.contains(&name.as_str()) => self.schema(one, depth + 1)?,
                Value::Array(list) if LISTS.contains(&name.as_str()) => {
                    list.iter().try_for_each(|schema| self.schema(schema, depth + 1))?;
                }
                Value::Object(map) if MAPS.contains(&name.as_str()) => {
                    map.values().try_for_each(|schema| self.schema(schema, depth + 1))?;
                }
                _ if LISTS.contains(&name.as_str()) => return Err(bad(format!("`{name}` is a list of schemas"))),
                _ if MAPS.contains(&name.as_str()) => return Err(bad(format!("`{name}` is schemas by name"))),
                _ => {}
            }
        }
        Ok(())
    }

    /// Keywords that hold no schema.
    fn own(&mut self, keywords: &Map<String, Value>) -> Result<(), BadSchema> {
        for (name, value) in keywords {
            let fits = match name.as_str() {
                "$ref" => self.reference(value)?,
                "type" => match value {
                    Value::Array(types) => types.iter().all(is_type),
                    one => is_type(one),
                },
                "enum" => value.is_array(),
                "required" => is_texts(value),
                "dependentRequired" => value.as_object().is_some_and(|map| map.values().all(is_texts)),
                "uniqueItems" => value.is_boolean(),
                "pattern" => self.pattern(value.as_str())?,
                "patternProperties" => match value {
                    Value::Object(map) => {
                        map.keys().try_fold(true, |fits, key| self.pattern(Some(key)).map(|one| fits && one))?
                    }
                    _ => false,
                },
                count if COUNTS.contains(&count) => value.as_u64().is_some(),
                "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
                number if NUMBERS.contains(&number) => value.is_number(),
                unknown if UNKNOWN_TO_US.contains(&unknown) => {
                    return Err(bad(format!("`{unknown}` is a keyword that is not supported")));
                }
                _ => true,
            };
            if !fits {
                return Err(bad(format!("`{name}` has a value that it can't have")));
            }
        }
        Ok(())
    }

    fn reference(&self, value: &Value) -> Result<bool, BadSchema> {
        let Some(to) = value.as_str() else { return Ok(false) };
        let found = to.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        match found {
            Some(_) => Ok(true),
            None => Err(bad(format!("`$ref` goes to {to:?}: only places in the same schema (#/…) can be reached"))),
        }
    }

    fn pattern(&mut self, pattern: Option<&str>) -> Result<bool, BadSchema> {
        let Some(pattern) = pattern else { return Ok(false) };
        if pattern.len() > MOST_PATTERN_BYTES || self.patterns.len() >= MOST_PATTERNS {
            return Err(bad(format!(
                "more than {MOST_PATTERNS} patterns, or one longer than {MOST_PATTERN_BYTES} bytes"
            )));
        }
        let limits =
            Regex::config().nfa_size_limit(Some(MOST_COMPILED_BYTES)).onepass_size_limit(Some(MOST_COMPILED_BYTES));
        let nesting = syntax::Config::new().nest_limit(MOST_NESTING);
        let built = Regex::builder().configure(limits).syntax(nesting).build(pattern);
        let regex = built.map_err(|error| bad(format!("the pattern {pattern:?}: {}", one_line(&error.to_string()))))?;
        self.patterns.insert(pattern.to_owned(), regex);
        Ok(true)
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_type(value: &Value) -> bool {
    value.as_str().is_some_and(|word| TYPES.contains(&word))
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}
