//! R4: a bulk replay of ten thousand, its server killed fifty times in the middle of its batches. Each item is moved
//! once, none is missed.

use crate::common::http::Http;
use crate::common::inside;
use crate::common::lot::{self, Lot};
use crate::support::{Server, folder, serve, wait_for};

const RUNS: usize = 10_000;
const KILLS: usize = 50;
/// A batch is 500 items: most deaths come in the middle of the first, some after it.
const ITEMS_MAX: u64 = 700;

#[test]
fn a_bulk_replay_killed_fifty_times_moves_each_item_once() {
    let lot = Lot::new(lot::seed());
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let mut http = Http::new(&server.url, &key);
    let lines: Vec<String> = (0..RUNS)
        .map(|n| {
            format!(
                r#"{{"tenant":"t{}","run_id":"run-{n}","payload":{n},"error":{{"message":"boom","terminal":true}}}}"#,
                n % 5
            )
        })
        .collect();
    assert_eq!(http.post_lines("/v1/failures", &lines).unwrap().status, 200);
    // Paused before the first batch: from here on every batch is one that a kill may meet.
    let made = http.post("/v1/operations", r#"{"action":"replay","filter":{"state":"dead"},"dry_run":true}"#).unwrap();
    assert_eq!((made.json()["matched"].as_u64(), made.json()["eligible"].as_u64()), (Some(10_000), Some(10_000)));
    // Killed at once: what was answered holds, and the next one goes on by itself.
    assert_eq!(http.post("/v1/operations/op-1/start", "").unwrap().short(), (200, "running".into()));
    server.kill();

    let (mut kills, mut before) = (1, moved(folder.path()));
    while kills < KILLS && before < RUNS as i64 {
        let point = lot.pick(&["mid_operation", "mid_operation", "before_commit", "after_commit"]);
        let left = u64::try_from(RUNS as i64 - before).unwrap();
        let nth = if *point == "mid_operation" { 1 + lot.below(ITEMS_MAX.min(left)) } else { 3 + lot.below(6) };
        // It may die before it even listens: its engine is at work as soon as it is up.
        if let Ok(server) = Server::of(serve(folder.path()).env("REDRIVE_ABORT_AT", format!("{point}:{nth}"))) {
            let (status, _) = server.ended();
            assert!(!status.success(), "it ended by itself: {status}");
        }
        kills += 1;
        let now = moved(folder.path());
        assert!(now >= before && now % 500 == 0, "{now} after {before}: half a batch was kept");
        before = now;
    }
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, &key);
    let done = wait_for("every item to have had its turn", || {
        let shown = http.get("/v1/operations/op-1").unwrap().json();
        (shown["moved"] == RUNS).then_some(shown)
    });
    assert_eq!((&done["skipped"], &done["failed"]), (&0.into(), &0.into()), "{done}");
    inside::check(folder.path());
    let replayed = inside::number(folder.path(), "SELECT count(*) FROM history WHERE event = 'replay'");
    let runs = inside::number(folder.path(), "SELECT count(DISTINCT run) FROM history WHERE event = 'replay'");
    let once = inside::number(folder.path(), "SELECT count(*) FROM runs WHERE replays = 1");
    assert_eq!((replayed, runs, once), (RUNS as i64, RUNS as i64, RUNS as i64));
    println!("{kills} kills, {RUNS} items, each moved once");
}

fn moved(folder: &std::path::Path) -> i64 {
    inside::number(folder, "SELECT moved FROM operations")
}
