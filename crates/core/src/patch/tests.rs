//! Patches by example, and the law that unpatched bytes stay.

use proptest::prelude::{Just, Strategy as _, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::Value;

use super::{PatchOperation, Why, WorkBudget, apply, apply_within, differences};

const ROOM: usize = 1 << 20;

fn patch(text: &str) -> Vec<PatchOperation> {
    serde_json::from_str(text).unwrap()
}

fn patched(payload: &str, operations: &str) -> Result<String, Why> {
    apply(payload, &patch(operations), ROOM).map_err(|bad| bad.why)
}

#[test]
fn unpatched_bytes_stay_as_they_were() {
    let payload = "{\n  \"n\": 12345678901234567890.10,\n  \"z\" : \"\\u0000\\ud800 \\/\",\n  \"model\": \"old\",\n  \"e\":1E+2\n}";
    let done = patched(payload, r#"[{"op":"replace","path":"/model","value":"new"}]"#).unwrap();
    assert_eq!(done, payload.replace("\"old\"", "\"new\""));
    let done = patched(payload, r#"[{"op":"remove","path":"/model"},{"op":"add","path":"/k","value":1.0}]"#).unwrap();
    assert_eq!(
        done,
        "{\n  \"n\": 12345678901234567890.10,\n  \"z\" : \"\\u0000\\ud800 \\/\",\n  \"e\":1E+2,\n  \"k\":1.0\n}"
    );
}

#[test]
fn each_operation_follows_the_rfc() {
    for (payload, operation, expected) in [
        (r#"{}"#, r#"{"op":"add","path":"/a","value":null}"#, r#"{"a":null}"#),
        (r#"{"a":1}"#, r#"{"op":"add","path":"/a","value":2}"#, r#"{"a":2}"#),
        (r#"{"a":1}"#, r#"{"op":"add","path":"/a~1b~0c","value":2}"#, r#"{"a":1,"a/b~c":2}"#),
        (r#"[1, 2]"#, r#"{"op":"add","path":"/1","value":9}"#, r#"[1, 9, 2]"#),
        (r#"[1, 2]"#, r#"{"op":"add","path":"/2","value":9}"#, r#"[1, 2, 9]"#),
        (r#"[1,2]"#, r#"{"op":"add","path":"/-","value":9}"#, r#"[1,2,9]"#),
        (r#"[]"#, r#"{"op":"add","path":"/0","value":9}"#, r#"[9]"#),
        (r#"[1,2,3]"#, r#"{"op":"remove","path":"/2"}"#, r#"[1,2]"#),
        (r#"[1]"#, r#"{"op":"remove","path":"/0"}"#, r#"[]"#),
        (r#"{"a":1,"a":2,"b":3}"#, r#"{"op":"remove","path":"/a"}"#, r#"{"b":3}"#),
        (r#"{"a":1,"a":2}"#, r#"{"op":"replace","path":"/a","value":3}"#, r#"{"a":1,"a":3}"#),
        (r#"{"a":{"b":[1]}}"#, r#"{"op":"move","from":"/a/b","path":"/c"}"#, r#"{"a":{},"c":[1]}"#),
        (r#"{"a":{"b":[1]}}"#, r#"{"op":"copy","from":"/a","path":"/a/b/0"}"#, r#"{"a":{"b":[{"b":[1]},1]}}"#),
        (r#"{"a":1}"#, r#"{"op":"replace","path":"","value":[true]}"#, r#"[true]"#),
        (r#"{"":{"":1}}"#, r#"{"op":"replace","path":"//","value":2}"#, r#"{"":{"":2}}"#),
        (r#"{"é\n":1}"#, r#"{"op":"replace","path":"/é\n","value":2}"#, r#"{"é\n":2}"#),
        (r#"{"a":[1.0,{"x":1,"y":"A"}]}"#, r#"{"op":"test","path":"/a","value":[10e-1,{"y":"A","x":1}]}"#, ""),
        ("7", r#"{"op":"test","path":"","value":7}"#, ""),
    ] {
        let expected = if expected.is_empty() { payload } else { expected };
        assert_eq!(patched(payload, &format!("[{operation}]")).as_deref(), Ok(expected), "{operation} on {payload}");
    }
}

#[test]
fn impossible_operations_are_refused_with_a_reason() {
    for (payload, operation, why) in [
        ("{}", r#"{"op":"remove","path":"/a"}"#, Why::NothingThere),
        ("{}", r#"{"op":"replace","path":"/a","value":1}"#, Why::NothingThere),
        ("{}", r#"{"op":"add","path":"/a/b","value":1}"#, Why::NothingThere),
        ("[1]", r#"{"op":"add","path":"/2","value":1}"#, Why::NothingThere),
        ("[1]", r#"{"op":"replace","path":"/00","value":1}"#, Why::NothingThere),
        ("[1]", r#"{"op":"remove","path":"/-"}"#, Why::NothingThere),
        ("{}", r#"{"op":"add","path":"a","value":1}"#, Why::BadPointer),
        ("{}", r#"{"op":"add","path":"/~2","value":1}"#, Why::BadPointer),
        ("{}", r#"{"op":"add","path":"/a"}"#, Why::ValueMissing),
        ("{}", r#"{"op":"move","path":"/a"}"#, Why::FromMissing),
        ("{}", r#"{"op":"copy","path":"/a","from":"x"}"#, Why::BadFrom),
        ("{}", r#"{"op":"remove","path":""}"#, Why::WholeDocument),
        (r#"{"a":{}}"#, r#"{"op":"move","from":"/a","path":"/a/b"}"#, Why::IntoItself),
        (r#"{"a":1}"#, r#"{"op":"test","path":"/a","value":1.000000000000000000001}"#, Why::TestFailed),
        (r#"{"a":1}"#, r#"{"op":"test","path":"/b","value":1}"#, Why::TestFailed),
    ] {
        assert_eq!(patched(payload, &format!("[{operation}]")), Err(why), "{operation} on {payload}");
    }
}

#[test]
fn patches_cannot_grow_a_payload_without_bound() {
    let doubling = vec![r#"{"op":"copy","from":"","path":"/-"}"#; 60].join(",");
    let bad = apply("[0]", &patch(&format!("[{doubling}]")), 10_000).unwrap_err();
    assert_eq!((bad.why, bad.operation < 60), (Why::TooLarge, true));
    let many = vec![r#"{"op":"test","path":"","value":1}"#; 1_001].join(",");
    assert_eq!(patched("1", &format!("[{many}]")), Err(Why::TooMany));
}

fn work_of(payload: &str, operations: &str, most: usize) -> (Result<String, Why>, usize) {
    let mut work = WorkBudget::of(most);
    let done = apply_within(payload, &patch(operations), usize::MAX, &mut work);
    (done.map_err(|bad| bad.why), most - work.left())
}

#[test]
fn a_deep_pointer_is_found_in_one_pass() {
    const DEEP: usize = 3_000;
    let payload = format!("{}1,{}2{}", "[".repeat(DEEP), "\"x\",".repeat(10_000), "]".repeat(DEEP));
    let path = format!("{}/1", "/0".repeat(DEEP - 1));
    let (done, work) = work_of(&payload, &format!(r#"[{{"op":"replace","path":"{path}","value":7}}]"#), usize::MAX);
    assert!(done.unwrap().contains("[1,7,\"x\""));
    assert_eq!(work, payload.len());
    let nested = format!("{}1{}", "{\"a\":".repeat(DEEP), "}".repeat(DEEP));
    let path = "/a".repeat(DEEP);
    let (done, work) = work_of(&nested, &format!(r#"[{{"op":"test","path":"{path}","value":1}}]"#), usize::MAX);
    assert_eq!((done.as_deref(), work), (Ok(nested.as_str()), nested.len()));
}

#[test]
fn too_costly_patches_are_refused() {
    let payload = format!(r#"{{"pad":"{}","n":1}}"#, "x".repeat(1_000));
    let test = r#"{"op":"test","path":"/n","value":1}"#;
    let most = payload.len() * 10;
    let patch = |times: usize| format!("[{}]", vec![test; times].join(","));
    assert!(work_of(&payload, &patch(10), most).0.is_ok());
    let (done, work) = work_of(&payload, &patch(11), most);
    assert_eq!((done, work), (Err(Why::TooCostly), most));
    // A comparison that has to be made at every level counts every level.
    let deep = |leaf: &str| format!("{}{leaf}{}", "[".repeat(100), "]".repeat(100));
    let test = format!(r#"[{{"op":"test","path":"","value":{}}}]"#, deep("2"));
    let (done, work) = work_of(&deep("1"), &test, usize::MAX);
    assert_eq!(done, Err(Why::TestFailed));
    assert!(work > 100 * 200, "{work}");
    assert_eq!(work_of(&deep("1"), &test, 10_000).0, Err(Why::TooCostly));
}

#[test]
fn many_operations_on_a_large_payload_are_bounded() {
    let payload = format!(r#"{{"pad":"{}","n":1}}"#, "x".repeat(3 << 20));
    let many = vec![r#"{"op":"test","path":"/n","value":1}"#; 1_000].join(",");
    assert_eq!(patched(&payload, &format!("[{many}]")), Err(Why::TooCostly));
}

#[test]
fn deep_payloads_do_not_overflow_the_stack() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let payload = format!(r#"{{"deep":{deep},"n":1}}"#);
    assert!(patched(&payload, r#"[{"op":"replace","path":"/n","value":2}]"#).unwrap().ends_with(r#""n":2}"#));
    assert_eq!(differences(&payload, &payload.replace("\"n\":1", "\"n\":2"), 10).len(), 1);
}

#[test]
fn differences_are_listed_by_pointer() {
    let (before, after) = (r#"{"a":1,"b":{"c":[1,2]},"gone":0}"#, r#"{"b":{"c":[1,3]},"a":1.0,"new/x":5}"#);
    let found = differences(before, after, 10);
    let listed: Vec<_> = found.iter().map(|d| (d.path.as_str(), d.before, d.after)).collect();
    assert_eq!(
        listed,
        [
            ("/a", Some("1"), Some("1.0")),
            ("/b/c/1", Some("2"), Some("3")),
            ("/gone", Some("0"), None),
            ("/new~1x", None, Some("5"))
        ]
    );
    assert_eq!(differences(before, after, 2).len(), 2);
    assert_eq!(differences("not json", "not json", 2), []);
    assert_eq!(differences("not json", "{}", 2).len(), 1);
}

fn json() -> impl proptest::strategy::Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        "[a-c/~\"\\\\ é]{0,4}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-c/~]{0,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// The differences of two payloads, done as a patch to one, give the other.
    #[test]
    fn differences_applied_as_a_patch_give_the_other(before in json(), after in json()) {
        let (before, after) = (before.to_string(), after.to_string());
        let mut operations: Vec<PatchOperation> = Vec::new();
        for difference in differences(&before, &after, usize::MAX) {
            let path = Value::from(difference.path.as_str());
            let value = difference.after.map_or_else(String::new, |after| format!(r#","value":{after}"#));
            let op = match (difference.before, difference.after) {
                (Some(_), Some(_)) => "replace",
                (None, _) => "add",
                (Some(_), None) => "remove",
            };
            let operation = serde_json::from_str(&format!(r#"{{"op":"{op}","path":{path}{value}}}"#)).unwrap();
            // Entries taken from the end of a list first: each keeps the index it was named by.
            if op == "remove" { operations.insert(0, operation) } else { operations.push(operation) }
        }
        let done = apply(&before, &operations, usize::MAX).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&done).unwrap(), serde_json::from_str::<Value>(&after).unwrap());
    }

    #[test]
    fn adding_and_removing_a_value_restores_the_text(before in json(), value in json()) {
        let text = serde_json::to_string_pretty(&before).unwrap();
        let put = format!(r#"[{{"op":"add","path":"/zzz","value":{value}}},{{"op":"remove","path":"/zzz"}}]"#);
        match apply(&text, &patch(&put), usize::MAX) {
            Ok(done) => prop_assert_eq!(done, text),
            Err(bad) => prop_assert!(!before.is_object() && bad.why == Why::NothingThere),
        }
    }
}
