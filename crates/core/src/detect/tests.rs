//! Each detector on its own examples and their near misses, and all of them on successes that are honest.

use serde::Deserialize;

use super::*;
use crate::policy::{DetectLayer, Policy, PolicyLayer, RetryBy};
use crate::wire::{StepStatus, SucceedRequest};

/// A line of `examples.jsonl`: the detector that must object, or none.
#[derive(Deserialize)]
struct Example {
    about: String,
    detector: Option<Detector>,
    #[serde(default)]
    detect: Option<DetectLayer>,
    success: SucceedRequest,
}

fn objection(success: &SucceedRequest, detect: Option<DetectLayer>) -> Option<Objection> {
    let layer = PolicyLayer { detect, ..PolicyLayer::default() };
    layer.check().unwrap();
    let detectors = Policy::resolve(RetryBy::Worker, &[&layer]).detect;
    let observed = observe(&ReportedSuccess {
        output: success.output.as_ref().map(|output| output.get()),
        finish_reason: success.finish_reason.as_ref().map(|word| word.as_str()),
        usage: success.usage.as_ref(),
        steps: &success.steps,
        schema: detectors.output_schema.as_ref(),
    });
    let done = success.steps.iter().filter(|step| step.effect == Some(true) && step.status == StepStatus::Committed);
    let on_record = OnRecord { effects_done: u32::try_from(done.count()).unwrap(), ..OnRecord::default() };
    judge(&observed, &detectors, &on_record)
}

#[test]
fn detectors_find_their_examples_but_not_near_misses() {
    let mut hits = std::collections::BTreeMap::new();
    for line in include_str!("examples.jsonl").lines() {
        let Example { about, detector, detect, success } = serde_json::from_str(line).expect(line);
        let found = objection(&success, detect).map(|objection| objection.detector);
        assert_eq!(found, detector, "{about}: {line}");
        *hits.entry(detector).or_insert(0) += 1;
    }
    for detector in Detector::ALL {
        assert!(hits.get(&Some(*detector)).is_some_and(|n| *n >= 2), "{detector} has too few examples");
    }
}

#[test]
fn honest_successes_raise_no_objection() {
    let lines: Vec<&str> = include_str!("honest.jsonl").lines().collect();
    assert!(lines.len() >= 100, "{}", lines.len());
    for line in lines {
        let success: SucceedRequest = serde_json::from_str(line).expect(line);
        assert_eq!(objection(&success, None), None, "{line}");
    }
}

/// A verdict on other work is a checking agent's answer, and an error read from a log is no error of the run.
#[test]
fn verdicts_of_checking_agents_are_not_failures() {
    let lines: Vec<&str> = include_str!("verdicts.jsonl").lines().collect();
    assert!(lines.len() >= 200, "{}", lines.len());
    let objections: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            let success: SucceedRequest = serde_json::from_str(line).expect(line);
            objection(&success, None).map(|objection| format!("{}: {line}", objection.detector))
        })
        .collect();
    assert!(objections.is_empty(), "{} of {}:\n{}", objections.len(), lines.len(), objections.join("\n"));
}

#[test]
fn the_same_refused_output_again_is_a_loop() {
    let blank = observe(&ReportedSuccess { output: Some("\"\""), ..ReportedSuccess::default() });
    let fine = observe(&ReportedSuccess { output: Some("\"42\""), ..ReportedSuccess::default() });
    let detectors = crate::policy::Detectors::default();
    let with = |observed: &Observed, same_output_before| {
        let on_record = OnRecord { same_output_before, ..OnRecord::default() };
        judge(observed, &detectors, &on_record).map(|objection| objection.detector)
    };
    assert_eq!(with(&blank, 1), Some(Detector::EmptyOutput));
    assert_eq!(with(&blank, 2), Some(Detector::RepeatCallLoop));
    assert_eq!(with(&fine, 9), None);
}

proptest::proptest! {
    /// Observing any input neither fails nor takes long.
    #[test]
    fn observing_any_output_never_panics(token in r#"(\[|\{|"|\]|\}|,|:|[a-z]|\\u[0-9a-f]{4}|1|null|"role":"tool"|"content":|"choices":\[){0,60}"#) {
        let _ = observe(&ReportedSuccess { output: Some(&token), ..ReportedSuccess::default() });
    }
}
