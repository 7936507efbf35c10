//! D1, D2: whatever moment the server dies at, what it acknowledged is there byte for byte, nothing is half applied, and
//! what it did not acknowledge can be sent again and counts once.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::http::Http;
use crate::common::inside;
use crate::common::lot::{self, Lot};
use crate::senders::{Heard, Sent, send_until_gone};
use crate::support::{Server, folder, serve};

const KILLS: usize = 50;
const KILLS_A_POINT: usize = 5;
/// Servers started for them at most.
const STARTS_MAX: usize = 50;
/// The latest answer after which the kill comes.
const ANSWERS_MAX: usize = 60;

#[test]
fn what_was_acknowledged_is_there_after_fifty_kills_at_random_moments() {
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
fn a_death_before_the_commit_is_as_if_nothing_was_sent() {
    dies_at("before_commit");
}

#[test]
fn a_death_between_commit_and_answer_loses_nothing_and_doubles_nothing() {
    dies_at("after_commit");
}

#[test]
fn a_death_in_the_middle_of_a_batch_leaves_no_half_of_it() {
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
    // As text: what is kept exactly need not be what a parser takes.
    assert_eq!(shown.text.matches(r#""recorded_at":"#).count(), 1, "{}", shown.text);
}
