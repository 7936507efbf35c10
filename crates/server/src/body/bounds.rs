//! Checks a body against the JSON Schema of its type before it is parsed: a small text must not become a large value.
//! It also refuses arrays where an object is required, which serde would accept.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{LazyLock, PoisonError, RwLock};

use redrive_core::text::decode_token;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::problem::HttpProblem;

/// The alternatives that a value may be.
#[derive(Debug, Default)]
pub(crate) struct Bounds(Vec<ValueShape>);

#[derive(Debug)]
enum ValueShape {
    Text {
        max_bytes: Option<usize>,
    },
    Number {
        min: Option<f64>,
        max: Option<f64>,
    },
    List {
        max_items: Option<usize>,
        items: Bounds,
    },
    Object(Box<Object>),
    /// `null`, `true` and `false`.
    Word,
    /// Checked by its parser, or bounded by the body alone.
    Anything,
}

#[derive(Debug, Default)]
struct Object {
    max_properties: Option<usize>,
    name_max_bytes: Option<usize>,
    fields: HashMap<String, Bounds, foldhash::fast::FixedState>,
    /// The bounds of each value of a map.
    others: Bounds,
}

/// The bounds of a type, computed once.
pub(crate) fn bounds_of<T: JsonSchema + 'static>() -> &'static Bounds {
    static KNOWN: LazyLock<RwLock<HashMap<TypeId, &'static Bounds>>> = LazyLock::new(RwLock::default);
    let of = TypeId::of::<T>();
    if let Some(known) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&of) {
        return known;
    }
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    let root = settings.into_generator().into_root_schema_for::<T>().to_value();
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    // Leaked once per body type, for the life of the process.
    known.entry(of).or_insert_with(|| Box::leak(Box::new(Bounds::of(&root, &root))))
}

impl Bounds {
    fn of(schema: &Value, root: &Value) -> Self {
        let Value::Object(schema) = schema else { return Self(vec![ValueShape::Anything]) };
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let found = root.pointer(target.trim_start_matches('#'));
            return found.map_or_else(|| Self(vec![ValueShape::Anything]), |found| Self::of(found, root));
        }
        let Some(kinds) = schema.get("type") else {
            let either = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(*key)?.as_array());
            return match either {
                Some(all) => Self::either(all.iter().map(|one| Self::of(one, root))),
                None => Self(vec![ValueShape::Anything]),
            };
        };
        let kinds = kinds.as_array().map_or_else(|| vec![kinds], |many| many.iter().collect());
        Self(kinds.iter().filter_map(|kind| Some(shape(kind.as_str()?, schema, root))).collect())
    }

    /// Merges alternatives that are objects into one with the fields of all, so each field keeps its bound.
    fn either(all: impl Iterator<Item = Self>) -> Self {
        let mut shapes: Vec<ValueShape> = Vec::new();
        for shape in all.flat_map(|bounds| bounds.0) {
            let merged = shapes.iter_mut().find_map(|known| match known {
                ValueShape::Object(known) => Some(known),
                ValueShape::Text { .. }
                | ValueShape::Number { .. }
                | ValueShape::List { .. }
                | ValueShape::Word
                | ValueShape::Anything => None,
            });
            match (shape, merged) {
                (ValueShape::Object(object), Some(known)) => {
                    for (name, bounds) in object.fields {
                        known.fields.entry(name).or_default().0.extend(bounds.0);
                    }
                }
                (shape, _) => shapes.push(shape),
            }
        }
        Self(shapes)
    }

    /// Names the first value beyond its bound. Malformed JSON is left to the parser.
    pub(crate) fn check(&self, text: &str) -> Result<(), Beyond> {
        let mut walk = BoundsWalk { text, at: 0, path: Vec::new() };
        match walk.value(self) {
            Err(WalkError::Beyond(beyond)) => Err(beyond),
            Ok(()) | Err(WalkError::Malformed) => Ok(()),
        }
    }
}

fn shape(kind: &str, schema: &Map<String, Value>, root: &Value) -> ValueShape {
    let size = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    match kind {
        "string" => ValueShape::Text { max_bytes: size("maxLength") },
        "integer" | "number" => ValueShape::Number {
            min: schema.get("minimum").and_then(Value::as_f64),
            max: schema.get("maximum").and_then(Value::as_f64),
        },
        "array" => ValueShape::List {
            max_items: size("maxItems"),
            items: schema.get("items").map_or_else(Bounds::default, |items| Bounds::of(items, root)),
        },
        "object" => ValueShape::Object(Box::new(object(schema, size("maxProperties"), root))),
        "null" | "boolean" => ValueShape::Word,
        _ => ValueShape::Anything,
    }
}

fn object(schema: &Map<String, Value>, max_properties: Option<usize>, root: &Value) -> Object {
    let of = |schema: &Value| Bounds::of(schema, root);
    let map = |key: &str| schema.get(key).and_then(Value::as_object);
    let name_max = schema.get("propertyNames").and_then(|names| names["maxLength"].as_u64());
    let by_pattern = map("patternProperties").into_iter().flat_map(Map::values);
    let values = by_pattern.chain(schema.get("additionalProperties").filter(|values| values.is_object()));
    Object {
        max_properties,
        name_max_bytes: name_max.and_then(|n| usize::try_from(n).ok()),
        fields: map("properties").into_iter().flatten().map(|(name, schema)| (name.clone(), of(schema))).collect(),
        others: Bounds(values.flat_map(|schema| of(schema).0).collect()),
    }
}

/// A value beyond its bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Beyond {
    field: String,
    must: String,
    /// `max` or `min`, and its value.
    bound: Option<(&'static str, f64)>,
}

impl Beyond {
    pub(crate) fn into_problem(self) -> HttpProblem {
        let field = if self.field.is_empty() { "body" } else { &self.field };
        let problem = HttpProblem::invalid_field(field, &self.must);
        match self.bound {
            Some((name, bound)) => problem.with(name, whole(bound)),
            None => problem,
        }
    }
}

/// 1000 rather than 1000.0.
#[expect(clippy::cast_possible_truncation, reason = "bounded just before")]
fn whole(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT { Value::from(number as i64) } else { Value::from(number) }
}

enum WalkError {
    Malformed,
    Beyond(Beyond),
}

type Walked = Result<(), WalkError>;

#[derive(Clone, Copy)]
enum FieldPart<'a> {
    /// A name as written, with quotes.
    Name(&'a str),
    Item(usize),
}

struct BoundsWalk<'a> {
    text: &'a str,
    at: usize,
    path: Vec<FieldPart<'a>>,
}

impl<'a> BoundsWalk<'a> {
    fn peek(&self) -> Result<u8, WalkError> {
        self.text.as_bytes().get(self.at).copied().ok_or(WalkError::Malformed)
    }

    fn space(&mut self) {
        while matches!(self.text.as_bytes().get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn value(&mut self, bounds: &Bounds) -> Walked {
        self.space();
        let first = self.peek()?;
        let (begin, depth) = (self.at, self.path.len());
        let mut refused = None;
        for shape in &bounds.0 {
            let walked = match (first, shape) {
                (b'"', ValueShape::Text { max_bytes }) => self.text(*max_bytes),
                (b'-' | b'0'..=b'9', ValueShape::Number { min, max }) => self.number(*min, *max),
                (b'[', ValueShape::List { max_items, items }) => self.list(*max_items, items),
                (b'{', ValueShape::Object(object)) => self.object(object),
                (b'n' | b't' | b'f', ValueShape::Word) | (_, ValueShape::Anything) => self.skip(),
                _ => continue,
            };
            match walked {
                Err(WalkError::Beyond(beyond)) => refused = refused.or(Some(beyond)),
                Ok(()) | Err(WalkError::Malformed) => return walked,
            }
            self.at = begin;
            self.path.truncate(depth);
        }
        if let Some(beyond) = refused {
            return Err(WalkError::Beyond(beyond));
        }
        let object_due = bounds.0.iter().any(|shape| matches!(shape, ValueShape::Object(_)));
        if first == b'[' && object_due {
            return Err(WalkError::Beyond(self.beyond("must be an object, not an array".into(), None)));
        }
        self.skip()
    }

    fn beyond(&self, must: String, bound: Option<(&'static str, f64)>) -> Beyond {
        let mut field = String::new();
        for part in &self.path {
            let _ = match part {
                FieldPart::Name(name) if field.is_empty() => write!(field, "{}", decode_token(name)),
                FieldPart::Name(name) => write!(field, ".{}", decode_token(name)),
                FieldPart::Item(number) => write!(field, "[{number}]"),
            };
        }
        Beyond { field, must, bound }
    }

    #[expect(clippy::cast_precision_loss, reason = "bounds are far below 2^53")]
    fn at_most(&self, size: usize, max: Option<usize>, unit: &str) -> Walked {
        match max {
            Some(max) if size > max => {
                Err(WalkError::Beyond(self.beyond(format!("must be at most {max} {unit}"), Some(("max", max as f64)))))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The string that begins here, as written.
    fn token(&mut self) -> Result<&'a str, WalkError> {
        let begin = self.at;
        let bytes = self.text.as_bytes();
        let mut at = begin + 1;
        loop {
            let found = memchr::memchr2(b'"', b'\\', bytes.get(at..).ok_or(WalkError::Malformed)?)
                .ok_or(WalkError::Malformed)?;
            at += found;
            if bytes[at] == b'"' {
                break;
            }
            at += 2;
        }
        self.at = at + 1;
        Ok(&self.text[begin..self.at])
    }

    fn text(&mut self, max_bytes: Option<usize>) -> Walked {
        let token = self.token()?;
        self.at_most(length(token, max_bytes), max_bytes, "bytes")
    }

    fn number(&mut self, min: Option<f64>, max: Option<f64>) -> Walked {
        let begin = self.at;
        while matches!(self.text.as_bytes().get(self.at), Some(b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        let Ok(number) = self.text[begin..self.at].parse::<f64>() else { return Err(WalkError::Malformed) };
        let beyond = |must: String, bound| Err(WalkError::Beyond(self.beyond(must, Some(bound))));
        match (min, max) {
            (_, Some(max)) if number > max => beyond(format!("must be at most {}", whole(max)), ("max", max)),
            (Some(min), _) if number < min => beyond(format!("must be at least {}", whole(min)), ("min", min)),
            _ => Ok(()),
        }
    }

    fn list(&mut self, max_items: Option<usize>, items: &Bounds) -> Walked {
        self.at += 1;
        self.space();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(());
        }
        for number in 0.. {
            self.at_most(number + 1, max_items, "items")?;
            self.path.push(FieldPart::Item(number));
            self.value(items)?;
            self.path.pop();
            if self.ends(b']')? {
                break;
            }
        }
        Ok(())
    }

    fn object(&mut self, object: &Object) -> Walked {
        self.at += 1;
        self.space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        for number in 1.. {
            self.at_most(number, object.max_properties, "entries")?;
            self.space();
            if self.peek()? != b'"' {
                return Err(WalkError::Malformed);
            }
            let name = self.token()?;
            self.path.push(FieldPart::Name(name));
            self.at_most(length(name, object.name_max_bytes), object.name_max_bytes, "bytes in its name")?;
            self.space();
            if self.peek()? != b':' {
                return Err(WalkError::Malformed);
            }
            self.at += 1;
            self.value(object.fields.get(decode_token(name).as_ref()).unwrap_or(&object.others))?;
            self.path.pop();
            if self.ends(b'}')? {
                break;
            }
        }
        Ok(())
    }

    /// After an entry: whether it was the last.
    fn ends(&mut self, close: u8) -> Result<bool, WalkError> {
        self.space();
        let next = self.peek()?;
        self.at += 1;
        match next {
            b',' => Ok(false),
            _ if next == close => Ok(true),
            _ => Err(WalkError::Malformed),
        }
    }

    /// Skips a value of any depth without recursion.
    fn skip(&mut self) -> Walked {
        let mut depth = 0_usize;
        loop {
            self.space();
            match self.peek()? {
                b'"' => {
                    self.token()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1).ok_or(WalkError::Malformed)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => self.word()?,
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Walked {
        let begin = self.at;
        while matches!(self.text.as_bytes().get(self.at), Some(b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.')) {
            self.at += 1;
        }
        if self.at > begin { Ok(()) } else { Err(WalkError::Malformed) }
    }
}

/// The length of a text once unescaped; computed only if it could be too long.
fn length(token: &str, max_bytes: Option<usize>) -> usize {
    let written = token.len().saturating_sub(2);
    match max_bytes {
        Some(max) if written > max && token.contains('\\') => decode_token(token).len(),
        Some(_) | None => written,
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::wire::{FailureReport, LeaseRequest, OperationRequest, QueueSettings};

    use super::*;

    fn beyond<T: JsonSchema + 'static>(text: &str) -> Option<String> {
        bounds_of::<T>().check(text).err().map(|beyond| beyond.field)
    }

    #[test]
    fn a_value_beyond_its_bound_is_named() {
        let long = "x".repeat(1_001);
        assert_eq!(beyond::<LeaseRequest>(&format!(r#"{{"queues":["a","{long}"]}}"#)), Some("queues[1]".into()));
        let many = vec!["\"a\""; 1_001].join(",");
        assert_eq!(beyond::<LeaseRequest>(&format!(r#"{{"queues":["*"],"agents":[{many}]}}"#)), Some("agents".into()));
        let kind = "k".repeat(101);
        let report = format!(r#"{{"versions":{{"{kind}":"1"}}}}"#);
        assert_eq!(beyond::<FailureReport>(&report), Some(format!("versions.{kind}")));
        assert_eq!(beyond::<FailureReport>(r#"{"usage":{"cost_usd":1e300}}"#), Some("usage.cost_usd".into()));
        assert_eq!(beyond::<FailureReport>(r#"{"usage":{"cost_usd":-0.01}}"#), Some("usage.cost_usd".into()));
        assert_eq!(beyond::<OperationRequest>(r#"{"canary":{"size":1001}}"#), Some("canary.size".into()));
    }

    #[test]
    fn an_array_is_not_accepted_as_an_object() {
        assert_eq!(beyond::<QueueSettings>("[]"), Some(String::new()));
        assert_eq!(beyond::<QueueSettings>(r#"{"policy":[]}"#), Some("policy".into()));
        assert_eq!(beyond::<FailureReport>(r#"{"error":["m"]}"#), Some("error".into()));
        assert_eq!(beyond::<FailureReport>(r#"{"usage":[1,2,3]}"#), Some("usage".into()));
        assert_eq!(beyond::<FailureReport>(r#"{"steps":[["s"]]}"#), Some("steps[0]".into()));
        assert_eq!(beyond::<FailureReport>(r#"{"payload":[],"usage":null,"steps":[]}"#), None);
    }

    #[test]
    fn escaped_text_is_measured_unescaped() {
        let escaped = r"\u0061".repeat(1_000);
        assert_eq!(beyond::<FailureReport>(&format!(r#"{{"agent":"{escaped}"}}"#)), None);
        assert_eq!(beyond::<FailureReport>(&format!(r#"{{"agent":"{escaped}a"}}"#)), Some("agent".into()));
        assert_eq!(beyond::<FailureReport>(r#"{"\u0061gent":5}"#), None);
    }

    #[test]
    fn malformed_json_passes_the_bounds_check() {
        for text in ["", "{", "]", r#"{"agent""#, r#"{"agent":"#, r#"{"agent":"a"#, r#"{"payload":[}"#, "{1}", "nul"] {
            assert_eq!(beyond::<FailureReport>(text), None, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(beyond::<FailureReport>(&format!(r#"{{"payload":{deep}"#)), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_walk_panic(text in r#"[\[\]{}",:\\a0 u-]{0,60}"#) {
            let _ = bounds_of::<FailureReport>().check(&text);
        }

        #[test]
        fn within_its_bounds_any_json_passes(n in 1..1_000_u32, text in "[a-z\\\\\"é]{0,30}") {
            let body = serde_json::json!({ "run_id": text, "attempt": n, "payload": { "a": [n, { "b": text }] } });
            proptest::prop_assert_eq!(bounds_of::<FailureReport>().check(&body.to_string()), Ok(()));
        }
    }
}
