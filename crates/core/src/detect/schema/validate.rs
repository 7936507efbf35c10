//! Asking a schema about a value: the first breach, with its place. Every keyword asked is a step, and steps are counted,
//! so that a schema that multiplies itself ends in "can't tell" and not in a stopped server.

use std::collections::{HashMap, HashSet};

use regex_automata::meta::Regex;
use serde_json::{Map, Value};

const MOST_STEPS: usize = 1_000_000;
/// References may lead back to where they came from without getting anywhere.
const MOST_DEPTH: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Validation {
    Fits,
    Breach(String),
    TooMuchToTell,
}

/// Why validation ends early.
enum Halt {
    Breach(String),
    TooMuch,
}

type CheckResult = Result<(), Halt>;

pub(super) struct Validator<'a> {
    root: &'a Value,
    patterns: &'a HashMap<String, Regex>,
    steps_left: usize,
    depth: usize,
    path: Vec<String>,
}

impl<'a> Validator<'a> {
    pub(super) fn new(root: &'a Value, patterns: &'a HashMap<String, Regex>) -> Self {
        Self { root, patterns, steps_left: MOST_STEPS, depth: 0, path: Vec::new() }
    }

    pub(super) fn at(mut self, value: &Value) -> Validation {
        match self.ask(self.root, value) {
            Ok(()) => Validation::Fits,
            Err(Halt::Breach(breach)) => Validation::Breach(breach),
            Err(Halt::TooMuch) => Validation::TooMuchToTell,
        }
    }

    fn ask(&mut self, schema: &'a Value, value: &Value) -> CheckResult {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => return self.breach("is not allowed"),
            _ => return Ok(()),
        };
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(Halt::TooMuch);
        }
        self.step(1)?;
        self.any_value(keywords, value)?;
        match value {
            Value::String(text) => self.text(keywords, text)?,
            Value::Number(number) => self.number(keywords, number.as_f64().unwrap_or(0.0))?,
            Value::Array(items) => self.array(keywords, items)?,
            Value::Object(fields) => self.object(keywords, fields)?,
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(keywords, value)?;
        self.depth -= 1;
        Ok(())
    }

    fn step(&mut self, steps: usize) -> CheckResult {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(Halt::TooMuch)?;
        Ok(())
    }

    fn breach<T>(&self, what: impl std::fmt::Display) -> Result<T, Halt> {
        let place = if self.path.is_empty() { "it".to_owned() } else { format!("/{}", self.path.join("/")) };
        Err(Halt::Breach(format!("{place} {what}")))
    }

    fn within(&mut self, name: impl Into<String>, schema: &'a Value, value: &Value) -> CheckResult {
        self.path.push(name.into());
        self.ask(schema, value)?;
        self.path.pop();
        Ok(())
    }

    /// Whether a value fits, where a breach is an answer and not the end.
    fn fits(&mut self, schema: &'a Value, value: &Value) -> Result<bool, Halt> {
        let (depth, path) = (self.depth, self.path.len());
        match self.ask(schema, value) {
            Ok(()) => Ok(true),
            Err(Halt::Breach(_)) => {
                self.depth = depth;
                self.path.truncate(path);
                Ok(false)
            }
            Err(Halt::TooMuch) => Err(Halt::TooMuch),
        }
    }

    fn any_value(&mut self, keywords: &'a Map<String, Value>, value: &Value) -> CheckResult {
        match keywords.get("type") {
            Some(Value::String(word)) if !is_a(value, word) => {
                return self.breach(format_args!("is {}, and must be of type {word}", kind(value)));
            }
            Some(Value::Array(words)) if !words.iter().filter_map(Value::as_str).any(|word| is_a(value, word)) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                return self.breach(format_args!("is {}, and must be of type {}", kind(value), words.join(" or ")));
            }
            Some(_) | None => {}
        }
        if let Some(Value::Array(allowed)) = keywords.get("enum") {
            self.step(allowed.len())?;
            if !allowed.iter().any(|one| equal(one, value)) {
                return self.breach("is none of the values it may have");
            }
        }
        if keywords.get("const").is_some_and(|only| !equal(only, value)) {
            return self.breach("is not the one value it may have");
        }
        Ok(())
    }

    fn text(&mut self, keywords: &Map<String, Value>, text: &str) -> CheckResult {
        if keywords.contains_key("minLength") || keywords.contains_key("maxLength") {
            self.counted(keywords, text.chars().count(), "minLength", "maxLength", "characters")?;
        }
        let pattern = keywords.get("pattern").and_then(Value::as_str);
        match pattern.and_then(|pattern| self.patterns.get(pattern)) {
            Some(regex) if !regex.is_match(text) => self.breach("does not match its pattern"),
            Some(_) | None => Ok(()),
        }
    }

    fn counted(&self, keywords: &Map<String, Value>, n: usize, min: &str, max: &str, what: &str) -> CheckResult {
        let bound = |name| keywords.get(name).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok());
        match (bound(min), bound(max)) {
            (Some(min), _) if n < min => self.breach(format_args!("has {n} {what}, and must have at least {min}")),
            (_, Some(max)) if n > max => self.breach(format_args!("has {n} {what}, and may have at most {max}")),
            _ => Ok(()),
        }
    }

    fn number(&mut self, keywords: &Map<String, Value>, number: f64) -> CheckResult {
        let bound = |name: &str| keywords.get(name).and_then(Value::as_f64);
        if bound("minimum").is_some_and(|min| number < min)
            || bound("exclusiveMinimum").is_some_and(|min| number <= min)
        {
            return self.breach("is too small");
        }
        if bound("maximum").is_some_and(|max| number > max)
            || bound("exclusiveMaximum").is_some_and(|max| number >= max)
        {
            return self.breach("is too large");
        }
        // 0.3 is a multiple of 0.1 to everybody but the machine.
        let off = |of: f64| (number / of - (number / of).round()).abs() > 1e-9;
        if bound("multipleOf").is_some_and(off) { self.breach("is not a multiple of what it must be") } else { Ok(()) }
    }

    fn array(&mut self, keywords: &'a Map<String, Value>, items: &[Value]) -> CheckResult {
        self.counted(keywords, items.len(), "minItems", "maxItems", "items")?;
        let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (at, (schema, item)) in first.iter().zip(items).enumerate() {
            self.within(at.to_string(), schema, item)?;
        }
        if let Some(rest) = keywords.get("items") {
            for (at, item) in items.iter().enumerate().skip(first.len()) {
                self.within(at.to_string(), rest, item)?;
            }
        }
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            self.step(items.len())?;
            let mut seen = HashSet::new();
            if !items.iter().all(|item| seen.insert(item.to_string())) {
                return self.breach("has an item twice");
            }
        }
        let Some(schema) = keywords.get("contains") else { return Ok(()) };
        let mut found = 0;
        for item in items {
            found += usize::from(self.fits(schema, item)?);
        }
        if !keywords.contains_key("minContains") && found == 0 {
            return self.breach("has none of the items it must contain");
        }
        self.counted(keywords, found, "minContains", "maxContains", "of the items it must contain")
    }

    fn object(&mut self, keywords: &'a Map<String, Value>, fields: &Map<String, Value>) -> CheckResult {
        self.counted(keywords, fields.len(), "minProperties", "maxProperties", "fields")?;
        for name in texts(keywords.get("required")) {
            if !fields.contains_key(name) {
                return self.breach(format_args!("lacks `{name}`"));
            }
        }
        if let Some(Value::Object(needs)) = keywords.get("dependentRequired") {
            for (name, also) in needs.iter().filter(|(name, _)| fields.contains_key(*name)) {
                if let Some(missing) = texts(Some(also)).find(|also| !fields.contains_key(*also)) {
                    return self.breach(format_args!("has `{name}` and lacks `{missing}`"));
                }
            }
        }
        for (name, value) in fields {
            self.field(keywords, name, value)?;
        }
        let Some(Value::Object(by_name)) = keywords.get("dependentSchemas") else { return Ok(()) };
        let whole = Value::Object(fields.clone());
        for (_, schema) in by_name.iter().filter(|(name, _)| fields.contains_key(*name)) {
            self.ask(schema, &whole)?;
        }
        Ok(())
    }

    fn field(&mut self, keywords: &'a Map<String, Value>, name: &str, value: &Value) -> CheckResult {
        let mut known = false;
        if let Some(schema) = keywords.get("properties").and_then(|properties| properties.get(name)) {
            known = true;
            self.within(name, schema, value)?;
        }
        if let Some(Value::Object(by_pattern)) = keywords.get("patternProperties") {
            for (pattern, schema) in by_pattern {
                self.step(1)?;
                if self.patterns.get(pattern).is_some_and(|regex| regex.is_match(name)) {
                    known = true;
                    self.within(name, schema, value)?;
                }
            }
        }
        if let Some(names) = keywords.get("propertyNames")
            && !self.fits(names, &Value::from(name))?
        {
            return self.breach(format_args!("has a field of a name it may not have, `{name}`"));
        }
        match keywords.get("additionalProperties") {
            Some(Value::Bool(false)) if !known => self.breach(format_args!("has `{name}`, which is not in the schema")),
            Some(schema) if !known => self.within(name, schema, value),
            Some(_) | None => Ok(()),
        }
    }

    fn combined(&mut self, keywords: &'a Map<String, Value>, value: &Value) -> CheckResult {
        if let Some(to) = keywords.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'))
            && let Some(schema) = self.root.pointer(to)
        {
            self.ask(schema, value)?;
        }
        for schema in list(keywords.get("allOf")) {
            self.ask(schema, value)?;
        }
        if let Some(any) = keywords.get("anyOf") {
            let mut fits = false;
            for schema in list(Some(any)) {
                fits = fits || self.fits(schema, value)?;
            }
            if !fits {
                return self.breach("fits none of its alternatives");
            }
        }
        if let Some(one) = keywords.get("oneOf") {
            let mut fitting = 0;
            for schema in list(Some(one)) {
                fitting += usize::from(self.fits(schema, value)?);
            }
            if fitting != 1 {
                return self.breach(format_args!("fits {fitting} of its alternatives, and must fit one"));
            }
        }
        if let Some(not) = keywords.get("not")
            && self.fits(not, value)?
        {
            return self.breach("is what it must not be");
        }
        if let Some(condition) = keywords.get("if") {
            let branch = if self.fits(condition, value)? { "then" } else { "else" };
            if let Some(schema) = keywords.get(branch) {
                self.ask(schema, value)?;
            }
        }
        Ok(())
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    list(value).iter().filter_map(Value::as_str)
}

fn is_a(value: &Value, word: &str) -> bool {
    match value {
        Value::Null => word == "null",
        Value::Bool(_) => word == "boolean",
        Value::String(_) => word == "string",
        Value::Array(_) => word == "array",
        Value::Object(_) => word == "object",
        Value::Number(number) => {
            word == "number" || word == "integer" && number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
        Value::Number(_) => "a number",
    }
}

/// 1 and 1.0 are the same number.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}
