//! Clients that send reports until their server is gone, and remember what they were told.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::common::failure;
use crate::common::http::Http;
use crate::common::lot::Lot;

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
