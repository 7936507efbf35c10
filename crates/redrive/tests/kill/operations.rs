//! R4: a bulk replay of ten thousand, its server killed fifty times in the middle of its batches. Each item is moved
//! once, none is missed.

use crate::common::http::Http;
use crate::common::inside;
use crate::common::lot::{self, Lot};
use crate::support::{Server, folder, serve, wait_for};

const RUNS: usize = 10_000;
const KILLS: usize = 50;
/// Items of one batch, which is one commit.
const BATCH: i64 = 500;
/// Commits that a server may get through before it dies; each of them a batch at most.
const COMMITS_MAX: u64 = 3;

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
    while kills < KILLS {
        // It may die before it even listens: its engine is at work as soon as it is up.
        if let Ok(server) = Server::of(serve(folder.path()).env("REDRIVE_ABORT_AT", moment(&lot, before))) {
            let (status, _) = server.ended();
            assert!(!status.success(), "it ended by itself: {status}");
        }
        kills += 1;
        let now = moved(folder.path());
        assert!(now >= before && now % BATCH == 0, "{now} after {before}: half a batch was kept");
        assert!(now < RUNS as i64, "all had moved before the last kill");
        before = now;
    }
    assert_eq!(kills, KILLS);
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

/// When the next server dies, so that items are still waiting then: in the middle of its first batch, in the middle of its
/// second, or around a commit, whoever's that is.
fn moment(lot: &Lot, moved: i64) -> String {
    let batch = BATCH.unsigned_abs();
    // The last batch is left for the one that lives.
    let spare = u64::try_from((RUNS as i64 - moved) / BATCH - 1).unwrap();
    match lot.below(4) {
        0 if spare > COMMITS_MAX => format!("before_commit:{}", 1 + lot.below(COMMITS_MAX)),
        1 if spare > COMMITS_MAX => format!("after_commit:{}", 1 + lot.below(COMMITS_MAX)),
        2 if spare > 0 => format!("mid_operation:{}", batch + 1 + lot.below(batch)),
        _ => format!("mid_operation:{}", 1 + lot.below(batch)),
    }
}

fn moved(folder: &std::path::Path) -> i64 {
    inside::number(folder, "SELECT moved FROM operations")
}
