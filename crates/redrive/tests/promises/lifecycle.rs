//! Starting, running and stopping: what the server cannot work with makes it refuse to start, silent runs get a verdict
//! (L3, L4), a stop under load loses nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::http::Http;
use crate::common::lot::{self, Lot};
use crate::common::{failure, inside};
use crate::support::{Server, folder, refusal, serve, wait_for};

fn refuses(folder: &Path, args: &[&str], words: &str) {
    let output = serve(folder).args(args).args(["--log", "off"]).stderr(std::process::Stdio::piped()).output().unwrap();
    let (code, complaint) = refusal(&output);
    assert!(matches!(code, Some(1 | 2)), "{code:?}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains(words), "{words:?} is not in: {complaint}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("listening"));
}

#[test]
fn unreadable_configuration_refuses_to_start() {
    let folder = folder();
    refuses(folder.path(), &["--config", "nowhere.toml"], "nowhere.toml");
    std::fs::write(folder.path().join("odd.toml"), "[queue.mail]\nowner = 'ops'\nowmer = 'ops'\n").unwrap();
    refuses(folder.path(), &["--config", "odd.toml"], "owmer");
    refuses(folder.path(), &["--config", "odd.toml"], "3");
    std::fs::write(folder.path().join("odd.toml"), b"[queue.\xff]\n").unwrap();
    refuses(folder.path(), &["--config", "odd.toml"], "odd.toml");
    std::fs::write(folder.path().join("odd.toml"), "[defaults]\nmax_attempts = 0\n").unwrap();
    refuses(folder.path(), &["--config", "odd.toml"], "max_attempts");
}

#[test]
fn foreign_database_file_is_refused_and_left_unchanged() {
    let folder = folder();
    std::fs::write(folder.path().join("data"), "a file").unwrap();
    refuses(folder.path(), &[], "data");
    std::fs::remove_file(folder.path().join("data")).unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let garbage = "this is no database ".repeat(500);
    std::fs::write(folder.path().join("data/redrive.db"), &garbage).unwrap();
    refuses(folder.path(), &[], "database");
    assert!(std::fs::read_to_string(folder.path().join("data/redrive.db")).unwrap() == garbage);
}

#[test]
fn truncated_store_never_serves_less_than_it_held() {
    let folder = folder();
    let server = Server::start(folder.path());
    server.signal("-TERM");
    assert!(server.ended().0.success());
    let path = folder.path().join("data/redrive.db");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 3]).unwrap();
    refuses(folder.path(), &[], "malformed");
}

#[test]
fn invalid_limits_refuse_to_start() {
    let folder = folder();
    refuses(folder.path(), &["--in-flight-max-bytes", "10"], "in_flight_max_bytes");
    refuses(folder.path(), &["--body-timeout-ms", "0"], "body_timeout_ms");
}

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
fn late_success_wins_until_a_newer_attempt_begins() {
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
fn timely_heartbeat_keeps_the_lease() {
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

const ROUNDS: usize = 20;
const SENDERS: usize = 3;

#[derive(Default)]
struct Heard {
    reports: Vec<String>,
    /// Runs with the lease that was handed out.
    leases: Vec<(String, String)>,
}

#[test]
fn stop_under_load_loses_nothing_and_grants_no_leases() {
    let lot = Lot::new(lot::seed());
    let folder = folder();
    let mut server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    for round in 0..ROUNDS {
        let after = 1 + lot.upto(60);
        let heard = load(&server, &key, round, after);
        let (status, _) = server.ended();
        assert!(status.success(), "round {round}: {status}");
        server = Server::start(folder.path());
        let mut http = Http::new(&server.url, &key);
        for run_id in &heard.reports {
            assert_eq!(http.get(&format!("/v1/runs/{run_id}?tenant=acme")).unwrap().status, 200, "{run_id}");
        }
        for (run_id, lease) in &heard.leases {
            let path = format!("/v1/runs/{run_id}/heartbeat?tenant=acme");
            let alive = http.post(&path, format!(r#"{{"lease":"{lease}"}}"#)).unwrap();
            assert_eq!(alive.status, 200, "{run_id} was handed out: {}", alive.text);
        }
        inside::check(folder.path());
    }
}

/// Sends, enqueues and leases until the server is gone; it gets SIGTERM after some answers.
fn load(server: &Server, key: &str, round: usize, after: usize) -> Heard {
    let (answers, stopping) = (AtomicUsize::new(0), AtomicBool::new(false));
    let answered = || {
        if answers.fetch_add(1, Ordering::SeqCst) + 1 == after {
            server.signal("-TERM");
        }
    };
    std::thread::scope(|threads| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let (answered, url) = (&answered, &server.url);
                threads.spawn(move || reports(&mut Http::new(url, key), &format!("s{round}-{sender}"), answered))
            })
            .collect();
        let leases = leases(&mut Http::new(&server.url, key), &format!("e{round}"), &stopping, &answered);
        let reports = senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect();
        Heard { reports, leases }
    })
}

fn reports(http: &mut Http, name: &str, answered: &impl Fn()) -> Vec<String> {
    let mut heard = Vec::new();
    for n in 0.. {
        let run_id = format!("{name}-{n}");
        let Ok(answer) = http.post("/v1/failures", failure(&run_id, "1")) else { break };
        match answer.status {
            201 => heard.push(run_id),
            503 => assert_eq!(answer.short().1, "closing"),
            other => panic!("{other}: {}", answer.text),
        }
        answered();
    }
    heard
}

/// Enqueues a run, leases it, and so on. Once it was told that the server is closing, no lease may come.
fn leases(http: &mut Http, name: &str, stopping: &AtomicBool, answered: &impl Fn()) -> Vec<(String, String)> {
    let mut heard = Vec::new();
    for n in 0.. {
        let enqueue = format!(r#"{{"tenant":"acme","run_id":"{name}-{n}","queue":"{name}","mode":"enqueue"}}"#);
        let Ok(_) = http.post("/v1/runs", enqueue) else { break };
        let ask = format!(r#"{{"queues":["{name}"],"max":1,"wait_ms":200,"lease_ms":600000}}"#);
        let Ok(answer) = http.post("/v1/leases", ask) else { break };
        let given = answer.json()["leases"].as_array().cloned().unwrap_or_default();
        if answer.status == 503 {
            stopping.store(true, Ordering::SeqCst);
        }
        assert!(given.is_empty() || !stopping.load(Ordering::SeqCst), "a lease of a server that stops");
        for lease in given {
            heard.push((lease["run_id"].as_str().unwrap().to_owned(), lease["lease"].as_str().unwrap().to_owned()));
        }
        answered();
    }
    heard
}
