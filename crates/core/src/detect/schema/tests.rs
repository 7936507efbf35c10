//! Schemas by example: what is refused, what an output breaks, and what ends in "can't tell".

use serde_json::{Map, Value, json};

use super::validate::{Validation, Validator};
use super::*;

fn found(schema: &Value, value: &Value) -> Validation {
    Validator::new(schema, &check(schema).unwrap()).at(value)
}

/// A schema, a value that fits, one that does not, and the expected message.
#[test]
fn each_keyword_accepts_and_rejects_with_a_message() {
    for (schema, good, bad, said) in [
        (json!({"type": "integer"}), json!(1.0), json!(1.5), "it is a number, and must be of type integer"),
        (
            json!({"type": ["string", "null"]}),
            json!(null),
            json!(1),
            "it is a number, and must be of type string or null",
        ),
        (json!({"enum": ["a", 1]}), json!(1.0), json!("b"), "it is none of the values it may have"),
        (json!({"const": {"a": 1}}), json!({"a": 1}), json!({}), "it is not the one value it may have"),
        (json!({"required": ["a"]}), json!({"a": null}), json!({}), "it lacks `a`"),
        (
            json!({"properties": {"a": {"type": "string"}}}),
            json!({"b": 1}),
            json!({"a": 1}),
            "/a is a number, and must be of type string",
        ),
        (
            json!({"properties": {"a": true}, "additionalProperties": false}),
            json!({"a": 1}),
            json!({"b": 1}),
            "it has `b`, which is not in the schema",
        ),
        (
            json!({"additionalProperties": {"type": "string"}}),
            json!({"a": "x"}),
            json!({"a": 1}),
            "/a is a number, and must be of type string",
        ),
        (
            json!({"patternProperties": {"^x_": {"type": "number"}}, "additionalProperties": false}),
            json!({"x_a": 1}),
            json!({"x_a": ""}),
            "/x_a is a string, and must be of type number",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"a": 1}),
            json!({"ab": 1}),
            "it has a field of a name it may not have, `ab`",
        ),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"b": 1}), json!({"a": 1}), "it has `a` and lacks `b`"),
        (json!({"dependentSchemas": {"a": {"required": ["c"]}}}), json!({"b": 1}), json!({"a": 1}), "it lacks `c`"),
        (json!({"minProperties": 1}), json!({"a": 1}), json!({}), "it has 0 fields, and must have at least 1"),
        (
            json!({"items": {"type": "number"}}),
            json!([1]),
            json!([1, "x"]),
            "/1 is a string, and must be of type number",
        ),
        (json!({"prefixItems": [true], "items": false}), json!([1]), json!([1, 2]), "/1 is not allowed"),
        (json!({"minItems": 1, "maxItems": 2}), json!([1]), json!([1, 2, 3]), "it has 3 items, and may have at most 2"),
        (json!({"uniqueItems": true}), json!([1, 2]), json!([{"a": 1}, {"a": 1}]), "it has an item twice"),
        (json!({"contains": {"const": 1}}), json!([0, 1]), json!([0]), "it has none of the items it must contain"),
        (
            json!({"contains": {"const": 1}, "maxContains": 1}),
            json!([1]),
            json!([1, 1]),
            "it has 2 of the items it must contain, and may have at most 1",
        ),
        (json!({"minLength": 2}), json!("éé"), json!("é"), "it has 1 characters, and must have at least 2"),
        (json!({"pattern": "^a+$"}), json!("aa"), json!("b"), "it does not match its pattern"),
        (json!({"exclusiveMinimum": 0}), json!(1), json!(0), "it is too small"),
        (json!({"maximum": 5}), json!(5), json!(5.1), "it is too large"),
        (json!({"multipleOf": 0.1}), json!(0.3), json!(0.35), "it is not a multiple of what it must be"),
        (json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), json!(2), json!(3), "it is too large"),
        (
            json!({"anyOf": [{"type": "null"}, {"required": ["a"]}]}),
            json!(null),
            json!({}),
            "it fits none of its alternatives",
        ),
        (
            json!({"oneOf": [{"minimum": 1}, {"maximum": 2}]}),
            json!(0),
            json!(1),
            "it fits 2 of its alternatives, and must fit one",
        ),
        (json!({"not": {"type": "string"}}), json!(1), json!("x"), "it is what it must not be"),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}),
            json!({"c": 1}),
            json!({"a": 1}),
            "it lacks `b`",
        ),
        (
            json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "number"}}}),
            json!(1),
            json!(""),
            "it is a string, and must be of type number",
        ),
    ] {
        assert_eq!(found(&schema, &good), Validation::Fits, "{schema} {good}");
        assert_eq!(found(&schema, &bad), Validation::Breach(said.into()), "{schema} {bad}");
    }
}

#[test]
fn a_failed_alternative_does_not_change_later_paths() {
    let schema =
        json!({"anyOf": [{"properties": {"a": {"properties": {"b": false}}}}, true], "properties": {"c": false}});
    let value = json!({"a": {"b": 1}, "c": 1});
    assert_eq!(found(&schema, &value), Validation::Breach("/c is not allowed".into()));
    let other = json!({"properties": {"c": {"anyOf": [{"properties": {"d": false}}, {"maxProperties": 0}]}}});
    assert_eq!(found(&other, &json!({"c": {"d": 1}})), Validation::Breach("/c fits none of its alternatives".into()));
}

#[test]
fn recursive_and_exponential_schemas_terminate() {
    assert_eq!(found(&json!({"$ref": "#"}), &json!(1)), Validation::TooMuchToTell);
    let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
    assert_eq!(found(&tree, &json!({"left": {"right": {}}, "right": {}})), Validation::Fits);
    // Each level asks the next one twice, and all of it comes to nothing in the end.
    let levels: Map<String, Value> = (0..60)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/l{}", n + 1)});
            (format!("l{n}"), json!({"anyOf": [{"allOf": [next, false]}, {"allOf": [next, false]}]}))
        })
        .chain([("l60".to_owned(), json!(true))])
        .collect();
    let bomb = json!({"$ref": "#/$defs/l0", "$defs": levels});
    assert_eq!(found(&bomb, &json!(1)), Validation::TooMuchToTell);
}

fn breach(schema: Value, output: &str, said: Option<&str>) -> Option<String> {
    OutputSchema::new(schema).unwrap().breach(Some(output), said)
}

#[test]
fn a_text_may_be_json_but_not_inside_a_fence() {
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
fn lone_surrogates_are_no_breach() {
    assert_eq!(breach(json!({"type": "object"}), r#""\ud800""#, Some("\\ud800")), None);
}

#[test]
fn unsupported_schemas_are_refused_when_set() {
    let deep = (0..100).fold(json!(true), |inner, _| json!({ "not": inner }));
    for (schema, said) in [
        (json!("schemas/x.json"), "a schema is an object"),
        (json!({"type": "txt"}), "`type`"),
        (json!({"$ref": "https://example.com/x.json"}), "only places in the same schema"),
        (json!({"$ref": "#/$defs/none"}), "only places in the same schema"),
        (json!({"pattern": "("}), "the pattern"),
        (json!({"pattern": "(\\w{1000}){1000}"}), "the pattern"),
        (json!({"patternProperties": {"(": true}}), "the pattern"),
        (json!({"unevaluatedProperties": false}), "not supported"),
        (json!({"anyOf": {}}), "`anyOf` is a list"),
        (json!({"properties": []}), "`properties`"),
        (json!({"properties": {"a": 3}}), "a schema is an object"),
        (json!({"multipleOf": 0}), "`multipleOf`"),
        (json!({"minLength": -1}), "`minLength`"),
        (deep, "levels deep"),
        (json!({"description": "x".repeat(MOST_BYTES)}), "bytes"),
    ] {
        let message = check(&schema).expect_err(&schema.to_string()).to_string();
        assert!(message.contains(said), "{message}");
    }
}
