//! The keys that a section may have, read off the type that takes them: names, kinds and descriptions are said once.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    /// integer, string, …, or the words it may be.
    pub(super) kind: String,
    pub(super) about: String,
}

/// The fields of `T`, by name.
pub(super) fn fields<T: JsonSchema>() -> Vec<Field> {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    let definitions = schema.get("$defs").cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get("properties") else { return Vec::new() };
    properties
        .iter()
        .map(|(name, property)| Field {
            name: name.clone(),
            kind: kind(property, &definitions),
            about: text(property, "description").unwrap_or_default(),
        })
        .collect()
}

fn kind(property: &Value, definitions: &Value) -> String {
    if let Some(name) = property.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        return kind(&definitions[name], definitions);
    }
    if let Some(Value::Array(options)) = property.get("anyOf").or_else(|| property.get("oneOf")) {
        let kinds: Vec<String> =
            options.iter().map(|option| kind(option, definitions)).filter(|k| !k.is_empty()).collect();
        return kinds.join(", ");
    }
    if let Some(word) = text(property, "const") {
        return format!("`{word}`");
    }
    if let Some(Value::Array(words)) = property.get("enum") {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    let kinds = match property.get("type") {
        Some(Value::Array(kinds)) => kinds.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect();
    match kinds.as_slice() {
        ["array"] => list(&property["items"], definitions),
        ["object"] => SECTION.into(),
        kinds => kinds.join(", "),
    }
}

/// What stands under a heading of its own.
pub(super) const SECTION: &str = "section";

fn list(items: &Value, definitions: &Value) -> String {
    match kind(items, definitions).as_str() {
        "integer" => "list of integers".into(),
        "string" => "list of strings".into(),
        SECTION | "" => "list".into(),
        words => format!("list of {words}"),
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(|text| text.replace('\n', " "))
}

/// The known name that `unknown` was most likely meant to be.
pub(super) fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (distance(unknown, name), name))
        .filter(|(far, name)| *far <= name.len() / 3 + 1)
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein's: how many letters to change, add or leave out.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.chars().enumerate() {
            let change = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use redrive_core::policy::PolicyLayer;

    use super::*;

    #[test]
    fn fields_have_their_kind_and_their_sentence() {
        let fields = fields::<PolicyLayer>();
        let of = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!(of("lease_ms").kind, "integer");
        assert_eq!(of("schedule_ms").kind, "list of integers");
        assert_eq!(of("preset").kind, "`standard`, `internal`, `external`, `customer`");
        assert!(of("lease_ms").about.starts_with("How long a lease lives"));
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_word_and_nonsense_finds_none() {
        let known = ["lease_ms", "idle_ms", "owner"];
        assert_eq!(nearest("leese_ms", known.into_iter()), Some("lease_ms"));
        assert_eq!(nearest("onwer", known.into_iter()), Some("owner"));
        assert_eq!(nearest("colour_scheme", known.into_iter()), None);
    }
}
