//! Reports around a kill: everything acknowledged is stored once, and nothing partially.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::http::Http;
use crate::common::lot::{self, Lot};
use crate::common::{failure, inside};
use crate::support::{Server, folder, serve};

const KILLS: usize = 50;
const KILLS_A_POINT: usize = 5;
/// Servers started for them at most.
const STARTS_MAX: usize = 50;
/// The latest answer after which the kill comes.
const ANSWERS_MAX: usize = 60;

#[test]
fn acknowledged_reports_survive_fifty_random_kills() {
    let lot = Lot::new(lot::seed());
    let folder = folder();
    let mut server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let mut all = Vec::new();
    for round in 0..KILLS {
        let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
        let after = 1 + lot.upto(ANSWERS_MAX);
        let heard = send_until_gone(&server.url, &key, &lot, round, |answers| {
            if answers == after {
                kill_process(pid, Signal::KILL).unwrap();
            }
        });
        server.kill();
        server = Server::start(folder.path());
        all.extend(came_through(folder.path(), &server, &key, heard));
    }
    // Not only what came last.
    let mut http = Http::new(&server.url, &key);
    all.iter().step_by(7).for_each(|sent| is_there(&mut http, sent));
    println!("{KILLS} kills, {} reports", all.len());
    let count = inside::number(folder.path(), "SELECT count(*) FROM runs");
    assert_eq!(count, i64::try_from(all.len()).unwrap());
}

#[test]
fn crash_before_commit_leaves_no_trace() {
    dies_at("before_commit");
}

#[test]
fn crash_between_commit_and_answer_loses_and_duplicates_nothing() {
    dies_at("after_commit");
}

#[test]
fn crash_mid_batch_leaves_no_partial_batch() {
    dies_at("mid_batch");
}

fn dies_at(point: &str) {
    let lot = Lot::new(lot::seed());
    let folder = folder();
    let first = Server::start(folder.path());
    let key = first.key.clone().unwrap();
    first.kill();
    let mut kills = 0;
    for round in 0..STARTS_MAX {
        let at = format!("{point}:{}", 10 + lot.upto(100));
        // The engine is at work before anybody is listened to: a slow start may come by its point that early. Nobody was
        // acknowledged anything then, and another one has to die under reports.
        let Ok(server) = Server::of(serve(folder.path()).env("REDRIVE_ABORT_AT", at)) else { continue };
        let heard = send_until_gone(&server.url, &key, &lot, round, |_| {});
        let (status, _) = server.ended();
        assert!(!status.success(), "it ended by itself: {status}");
        let server = Server::start(folder.path());
        came_through(folder.path(), &server, &key, heard);
        server.kill();
        kills += 1;
        if kills == KILLS_A_POINT {
            return;
        }
    }
    panic!("of {STARTS_MAX} only {kills} lived to hear a report");
}

/// After a restart: the file is whole, all that was acknowledged is there, the rest is sent again and is there once.
fn came_through(folder: &Path, server: &Server, key: &str, heard: Heard) -> Vec<Sent> {
    inside::check(folder);
    let mut http = Http::new(&server.url, key);
    for sent in &heard.acknowledged {
        is_there(&mut http, sent);
    }
    for sent in &heard.unheard {
        let again = http.post("/v1/failures", sent.body()).unwrap();
        assert!(matches!(again.status, 200 | 201), "{}", again.text);
        is_there(&mut http, sent);
    }
    inside::check(folder);
    heard.acknowledged.into_iter().chain(heard.unheard).collect()
}

fn is_there(http: &mut Http, sent: &Sent) {
    let shown = http.get(&format!("/v1/runs/{}?tenant=acme", sent.run_id)).unwrap();
    assert_eq!(shown.status, 200, "{} was acknowledged: {}", sent.run_id, shown.text);
    assert!(shown.text.contains(&format!(r#""payload":{}"#, sent.payload)), "another payload: {}", shown.text);
    // As text: stored bytes need not survive a parser.
    assert_eq!(shown.text.matches(r#""recorded_at":"#).count(), 1, "{}", shown.text);
}

const CLIENTS: usize = 4;
const LINES_MAX: usize = 20;
/// A server that lives on past this many reports was not killed: the test ends.
const SENT_MAX: usize = 20_000;

/// A report, and what was in it.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) run_id: String,
    pub(crate) payload: String,
}

impl Sent {
    pub(crate) fn body(&self) -> String {
        failure(&self.run_id, &self.payload)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) acknowledged: Vec<Sent>,
    /// Sent, and then the connection ended.
    pub(crate) unheard: Vec<Sent>,
}

/// Sends from several clients at once until the server is gone; `heard_one` is called with the count of answers.
pub(crate) fn send_until_gone(
    url: &str,
    key: &str,
    lot: &Lot,
    round: usize,
    heard_one: impl Fn(usize) + Sync,
) -> Heard {
    let count = AtomicUsize::new(0);
    let heard = std::thread::scope(|threads| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let lot = Lot::new(lot.below(u64::MAX));
                let (count, heard_one) = (&count, &heard_one);
                threads.spawn(move || {
                    let mut heard = Heard::default();
                    let mut http = Http::new(url, key);
                    for n in 0..SENT_MAX {
                        let name = format!("k{round}-{client}-{n}");
                        if !send(&mut http, &lot, &name, &mut heard) {
                            return heard;
                        }
                        heard_one(count.fetch_add(1, Ordering::SeqCst) + 1);
                    }
                    panic!("the server was never killed");
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<Heard>>()
    });
    Heard {
        acknowledged: heard.iter().flat_map(|heard| heard.acknowledged.clone()).collect(),
        unheard: heard.iter().flat_map(|heard| heard.unheard.clone()).collect(),
    }
}

/// One request; false when the server is gone.
fn send(http: &mut Http, lot: &Lot, name: &str, heard: &mut Heard) -> bool {
    let alone = lot.one_in(2);
    let lines = if alone { 1 } else { 1 + lot.upto(LINES_MAX) };
    let sent: Vec<Sent> =
        (0..lines).map(|line| Sent { run_id: format!("{name}.{line}"), payload: payload(lot) }).collect();
    let bodies: Vec<String> = sent.iter().map(Sent::body).collect();
    let answer = if alone { http.post("/v1/failures", &bodies[0]) } else { http.post_lines("/v1/failures", &bodies) };
    let Ok(answer) = answer else {
        heard.unheard.extend(sent);
        return false;
    };
    if alone {
        assert_eq!(answer.status, 201, "{}", answer.text);
    } else {
        let statuses: Vec<u64> = answer.text.lines().map(status).collect();
        assert_eq!(statuses, vec![201; lines], "{}", answer.text);
    }
    heard.acknowledged.extend(sent);
    true
}

fn status(line: &str) -> u64 {
    serde_json::from_str::<Value>(line).unwrap()["status"].as_u64().unwrap()
}

/// JSON that would not survive being parsed and written again.
fn payload(lot: &Lot) -> String {
    let fill = "x".repeat(lot.upto(3_000));
    let odd = *lot.pick(&["1.10e5", "12345678901234567890.10", r#""\u0000\ud800""#, "-0.0", "[ 1 , 2 ]"]);
    format!(r#"{{"odd":{odd},"fill":"{fill}", "n":{}}}"#, lot.below(u64::MAX))
}
