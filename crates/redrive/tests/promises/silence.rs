//! L3, L4: a run that goes quiet gets its verdict by itself; a late success counts until a newer attempt has begun.

use crate::common::http::Http;
use crate::support::{Server, folder, wait_for};

fn start(http: &mut Http, run_id: &str) -> String {
    let body = format!(r#"{{"tenant":"acme","run_id":"{run_id}","mode":"start","lease_ms":500}}"#);
    http.post("/v1/runs", body).unwrap().json()["lease"].as_str().unwrap().to_owned()
}

fn becomes(http: &mut Http, run_id: &str, state: &str) -> serde_json::Value {
    wait_for(&format!("{run_id} to be {state}"), || {
        let shown = http.get(&format!("/v1/runs/{run_id}?tenant=acme")).unwrap().json();
        (shown["state"] == state).then_some(shown)
    })
}

fn end(http: &mut Http, run_id: &str, verb: &str, lease: &str, more: &str) -> crate::common::http::Answer {
    http.post(&format!("/v1/runs/{run_id}/{verb}?tenant=acme"), format!(r#"{{"lease":"{lease}"{more}}}"#)).unwrap()
}

#[test]
fn silence_gets_its_verdict_and_a_late_success_wins_until_somebody_begins_anew() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, server.key.as_ref().unwrap());

    let late = start(&mut http, "late");
    let replaced = start(&mut http, "replaced");
    for run_id in ["late", "replaced"] {
        let quiet = becomes(&mut http, run_id, "scheduled");
        assert_eq!((&quiet["reason"], quiet["attempts"].as_array().unwrap().len()), (&"silent".into(), 1));
    }
    let done = end(&mut http, "late", "succeed", &late, r#","output":7"#);
    assert_eq!((done.short(), done.json()["late"].clone()), ((200, "recovered".into()), true.into()));

    let replay = http.post("/v1/runs/replaced/replay?tenant=acme", r#"{"reason":"now"}"#).unwrap();
    assert_eq!(replay.status, 200, "{}", replay.text);
    let ask = r#"{"queues":["*"],"max":1,"wait_ms":5000,"lease_ms":60000}"#;
    let leased = http.post("/v1/leases", ask).unwrap().json()["leases"][0].clone();
    assert_eq!((&leased["run_id"], &leased["attempt"]), (&"replaced".into(), &2.into()));
    for (verb, more) in [("heartbeat", ""), ("succeed", ""), ("release", "")] {
        assert_eq!(end(&mut http, "replaced", verb, &replaced, more).short(), (409, "lease_lost".into()), "{verb}");
    }
    let step = r#","name":"s","key":"s","status":"committed""#;
    assert_eq!(end(&mut http, "replaced", "steps", &replaced, step).short(), (409, "lease_lost".into()));
    let failed = end(&mut http, "replaced", "fail", &replaced, r#","error":{"message":"it broke"}"#);
    assert_eq!((failed.short(), failed.json()["recorded"].clone()), ((409, "lease_lost".into()), true.into()));
    let newer = leased["lease"].as_str().unwrap();
    assert_eq!(end(&mut http, "replaced", "succeed", newer, "").short(), (200, "recovered".into()));
}

#[test]
fn a_heartbeat_in_time_keeps_the_run() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, server.key.as_ref().unwrap());
    let body = r#"{"tenant":"acme","run_id":"kept","mode":"start","lease_ms":5000}"#;
    let begun = http.post("/v1/runs", body).unwrap().json();
    let (lease, first) = (begun["lease"].as_str().unwrap(), begun["lease_expires_at"].as_str().unwrap().to_owned());
    let first = first.parse().unwrap();
    wait_for("the first lease to be over", || {
        assert_eq!(end(&mut http, "kept", "heartbeat", lease, "").status, 200);
        (crate::common::now() > first).then_some(())
    });
    assert_eq!(end(&mut http, "kept", "succeed", lease, "").short(), (200, "succeeded".into()));
}
