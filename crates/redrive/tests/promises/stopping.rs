//! L8: told to stop under load, it gives no new leases, answers what it has, ends within its grace time, and nothing that
//! it acknowledged is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::http::Http;
use crate::common::lot::{self, Lot};
use crate::common::{failure, inside};
use crate::support::{Server, folder};

const ROUNDS: usize = 20;
const SENDERS: usize = 3;

#[derive(Default)]
struct Heard {
    reports: Vec<String>,
    /// Runs with the lease that was handed out.
    leases: Vec<(String, String)>,
}

#[test]
fn a_stop_under_load_loses_nothing_and_hands_nothing_more_out() {
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

/// Sends, enqueues and leases until the server is gone; it is told to stop after some answers.
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
