use serde_json::{Value, json};

use super::*;
use crate::classify::Evidence;

fn rules(rules: Value) -> Result<UserRules, RuleError> {
    compile(serde_json::from_value(rules).expect("well-formed rules"))
}

fn run() -> RunFacts<'static> {
    RunFacts { tenant: "acme", queue: "invoices", agent: Some("biller"), ..RunFacts::default() }
}

fn first(set: &UserRules, evidence: &Evidence<'_>, payload: Option<&str>) -> Option<String> {
    set.first_match(evidence, &run(), payload).map(|r| r.name.clone())
}

#[test]
fn the_first_rule_whose_conditions_all_hold_wins() {
    let set = rules(json!([
        {"name": "other", "match": {"queue": "mail", "text": {"contains": "declined"}}, "reason": "bug"},
        {"name": "card", "match": {"queue": {"glob": "inv*"}, "text": {"regex": "(?i)card \\w+ declined"}}, "reason": "x:card_declined", "dead_letter": true},
        {"match": {"tenant": "acme"}},
    ]))
    .unwrap();
    let card = set.first_match(&Evidence::of("Card visa declined"), &run(), None).unwrap();
    assert_eq!((card.name.as_str(), card.dead_letter), ("user.card", true));
    assert_eq!(card.reason.as_ref().map(ToString::to_string).as_deref(), Some("x:card_declined"));
    assert_eq!(first(&set, &Evidence::of("other"), None).as_deref(), Some("user.3"));
}

#[test]
fn statuses_match_singly_or_in_a_range() {
    let set = rules(json!([{"match": {"status": {"from": 500, "to": 599}}}, {"match": {"status": 418}}])).unwrap();
    let on = |http_status| Evidence { http_status, ..Evidence::of("x") };
    assert_eq!(first(&set, &on(Some(503)), None).as_deref(), Some("user.1"));
    assert_eq!(first(&set, &on(Some(418)), None).as_deref(), Some("user.2"));
    assert_eq!(first(&set, &on(None), None), None);
}

#[test]
fn numbers_in_the_payload_are_compared() {
    let set =
        rules(json!([{"match": {"payload": [{"pointer": "/order/amount", "op": "gt", "value": 1000}]}}])).unwrap();
    let holds = |payload| first(&set, &Evidence::of("x"), payload).is_some();
    assert!(holds(Some(r#"{"order":{"amount":1000.5}}"#)));
    assert!(!holds(Some(r#"{"order":{"amount":1000}}"#)));
    assert!(!holds(Some(r#"{"order":{"amount":"2000"}}"#)));
    assert!(!holds(Some("not json")));
    assert!(!holds(None));
}

#[test]
fn invalid_user_rules_are_refused_when_compiled() {
    let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
    for (rule, part) in [
        (json!({"reason": "bug"}), "no condition"),
        (json!({"match": {"text": {"regex": "("}}}), "text"),
        (json!({"match": {"text": {"regex": deep}}}), "text"),
        (json!({"match": {"text": {"regex": "(\\w{1000}){1000}"}}}), "text"),
        (json!({"match": {"text": {"regex": "a".repeat(3000)}}}), "longer"),
        (json!({"name": "a b", "match": {"queue": "q"}}), "name"),
        (json!({"name": "1", "match": {"queue": "q"}}), "another rule"),
        (json!({"fingerprint": " ", "match": {"queue": "q"}}), "fingerprint"),
        (json!({"match": {"status": {"from": 9, "to": 3}}}), "empty"),
        (json!({"match": {"payload": [{"pointer": "amount"}]}}), "JSON pointer"),
        (json!({"match": {"payload": [{"pointer": "/amount", "op": "lt", "value": "x"}]}}), "numbers"),
    ] {
        let error = rules(json!([{"match": {"queue": "q"}}, rule])).unwrap_err();
        assert_eq!(error.index, 1);
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn user_rules_set_only_what_they_name() {
    let set = rules(json!([
        {"name": "a", "match": {"queue": "invoices", "text": "x"}, "reason": "bug", "fingerprint": "the usual"},
        {"name": "b", "match": {"queue": "invoices"}, "category": "permanent"},
    ]))
    .unwrap();
    let judged = |text: &'static str| {
        let rule = set.first_match(&Evidence::of(text), &run(), None).unwrap();
        (rule.decide(crate::classify::classify(&Evidence::of("Request timed out"))), rule.group())
    };
    let (bug, group) = judged("x");
    assert_eq!((bug.reason.as_str(), bug.category.as_str(), &*bug.rule), ("bug", "permanent", "user.a"));
    let group = group.unwrap();
    assert_eq!(
        (group.template.as_str(), group.clone()),
        ("the usual", crate::pattern::Fingerprint::named("the usual"))
    );
    assert_ne!(group.hash, crate::pattern::Fingerprint::named("another").hash);
    let (timeout, group) = judged("y");
    assert_eq!((timeout.reason.as_str(), timeout.category.as_str(), group), ("timeout", "permanent", None));
    assert_eq!(set.by_name("user.b").map(|rule| rule.name.as_str()), Some("user.b"));
}

#[test]
fn an_unknown_key_is_refused() {
    assert!(serde_json::from_value::<UserRule>(json!({"match": {"colour": "red"}})).is_err());
}

#[test]
fn backtracking_expressions_run_in_linear_time() {
    let set = rules(json!([{"match": {"text": {"regex": "^(a+)+$"}}}])).unwrap();
    let text = format!("{}b", "a".repeat(60_000));
    assert_eq!(first(&set, &Evidence::of(&text), None), None);
}
