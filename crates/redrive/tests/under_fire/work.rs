//! Who brings runs, and who works on them.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::common::lot::Lot;
use crate::record::{Acknowledged, Record};

const LINES: usize = 20;

pub(crate) fn run_id(n: u64) -> String {
    format!("run-{n}")
}

pub(crate) fn payload(n: u64) -> String {
    format!(r#"{{"n": {n}.0e0,  "of":"{}"}}"#, run_id(n))
}

/// Every other run is queued, the rest are reported as failures, many in a call.
pub(crate) fn produce(mut caller: Caller, record: &Record, numbers: impl Iterator<Item = u64>) {
    let mut lines = Vec::new();
    for n in numbers {
        if n / 2 % 2 == 0 {
            let body =
                format!(r#"{{"mode":"enqueue","tenant":"acme","run_id":"{}","payload":{}}}"#, run_id(n), payload(n));
            let answer = caller.post("/v1/runs", &body);
            assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
            record.queued(n);
        } else {
            lines.push(n);
        }
        if lines.len() == LINES {
            report(&mut caller, record, &std::mem::take(&mut lines));
        }
    }
    report(&mut caller, record, &lines);
}

fn report(caller: &mut Caller, record: &Record, numbers: &[u64]) {
    let line = |n: &u64| {
        format!(
            r#"{{"tenant":"acme","run_id":"{}","attempt":1,"payload":{},"error":{{"message":"Request timed out","detail":"reported-{n}"}}}}"#,
            run_id(*n),
            payload(*n)
        )
    };
    let mut left = numbers.to_vec();
    while !left.is_empty() {
        let body = left.iter().map(line).collect::<Vec<_>>().join("\n");
        let answer = caller.post_lines("/v1/failures", &body);
        let statuses = answer.text.lines().map(|said| serde_json::from_str::<Value>(said).unwrap()["status"].clone());
        let said: Vec<(u64, Value)> = left.iter().copied().zip(statuses).collect();
        assert_eq!(said.len(), left.len(), "{}", answer.text);
        // A line that was refused for now is sent again; one that is there already is answered as before.
        left = said.iter().filter(|(_, status)| *status == 503).map(|(n, _)| *n).collect();
        for (n, status) in said.iter().filter(|(_, status)| *status != 503) {
            assert!(*status == 201 || *status == 200, "{}", answer.text);
            record.reported(*n, Acknowledged { attempt: 1, mark: format!("reported-{n}") });
        }
    }
}

/// Leases, and ends what it has leased: mostly well, now and then not, and now and then not at all.
pub(crate) fn work(mut caller: Caller, record: &Record, lot: &Lot, worker: u64, over: &AtomicBool) {
    let mut ended = 0_u64;
    while !over.load(Ordering::SeqCst) {
        let body = json!({"tenant": "acme", "queues": ["*"], "max": 1 + lot.below(10), "worker": format!("w{worker}"), "wait_ms": 200});
        // What a call without an answer was given, nobody hears of: it is missed, and comes again.
        let Some(answer) = caller.once("POST", "/v1/leases", "application/json", &body.to_string()) else { continue };
        assert_eq!(answer.status, 200, "{}", answer.text);
        for given in answer.json()["leases"].as_array().unwrap() {
            let (run, lease) = (given["run_id"].as_str().unwrap(), given["lease"].as_str().unwrap());
            record.granted(run, lease);
            ended += 1;
            end(&mut caller, record, lot, (run, lease), &format!("w{worker}-{ended}"));
        }
    }
}

fn end(caller: &mut Caller, record: &Record, lot: &Lot, (run, lease): (&str, &str), mark: &str) {
    match lot.below(50) {
        0 => record.quiet(),
        1..=5 => {
            let error = json!({"message": "Request timed out", "detail": mark});
            let body = json!({"tenant": "acme", "lease": lease, "error": error});
            let answer = caller.post(&format!("/v1/runs/{run}/fail"), &body.to_string());
            match answer.status {
                200 | 201 => {
                    let attempt = answer.json()["attempt"].as_u64().unwrap();
                    record.failed(run, Acknowledged { attempt, mark: mark.to_owned() });
                }
                _ => refused(record, &answer),
            }
        }
        _ => {
            let body = json!({"tenant": "acme", "lease": lease, "output": {"by": mark}});
            let answer = caller.post(&format!("/v1/runs/{run}/succeed"), &body.to_string());
            match answer.status {
                200 => record.succeeded(run, lease),
                _ => refused(record, &answer),
            }
        }
    }
}

/// The only reason not to take a worker's word: its lease ran out, and somebody has begun anew.
fn refused(record: &Record, answer: &crate::common::http::Answer) {
    assert_eq!(answer.short(), (409, "lease_lost".into()), "{}", answer.text);
    record.lost();
}
