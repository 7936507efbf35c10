//! Bulk operations and migrations around a kill: each item moves once, the schema is the old or the new one.

use std::collections::BTreeMap;
use std::process::Stdio;

use crate::common::http::Http;
use crate::common::inside;
use crate::common::lot::{self, Lot};
use crate::support::{Server, database, folder, place, redrive, refusal, serve, wait_for};

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
/// second, or around any commit.
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

const TOGETHER_ROUNDS: usize = 10;
const STATEMENTS_MAX: usize = 500;
/// Adds a migration to a debug build: an upgrade for as long as there is only one schema.
const UPGRADE: (&str, &str) = ("REDRIVE_TEST_MIGRATION", "1");

#[test]
fn migration_killed_anywhere_leaves_old_or_new_schema() {
    let newest = {
        let folder = folder();
        upgraded(folder.path(), None).unwrap().kill();
        inside::version(folder.path())
    };
    // Objects of each version: the same number, however the store came to it.
    let mut seen = BTreeMap::from([(0, 0)]);
    for (deaths, nth) in (1..STATEMENTS_MAX).enumerate() {
        let folder = folder();
        if upgraded(folder.path(), Some(nth)).is_ok() {
            println!("{deaths} deaths");
            assert!(deaths > 10, "the point is passed after each statement");
            let versions: Vec<i64> = seen.into_keys().collect();
            assert_eq!(versions, (0..=newest).collect::<Vec<_>>(), "every version was left by some kill");
            return;
        }
        let version = inside::version(folder.path());
        let objects = inside::objects(folder.path());
        assert_eq!(objects, *seen.entry(version).or_insert(objects), "after {nth}: version {version}");
        let server = upgraded(folder.path(), None).unwrap();
        inside::check_with(folder.path(), UPGRADE);
        assert_eq!(inside::version(folder.path()), newest);
        server.kill();
    }
    panic!("no migration has so many statements");
}

/// A server whose binary knows one migration more, killed at a statement of its migrations.
fn upgraded(folder: &std::path::Path, kill_at: Option<usize>) -> Result<Server, String> {
    let mut command = serve(folder);
    command.env(UPGRADE.0, UPGRADE.1);
    if let Some(nth) = kill_at {
        command.env("REDRIVE_ABORT_AT", format!("mid_migration:{nth}"));
    }
    Server::of(&mut command)
}

#[test]
fn upgrade_keeps_runs_and_the_older_binary_refuses() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, &server.key.clone().unwrap());
    let report = r#"{"tenant":"acme","run_id":"r1","payload":1,"error":{"message":"boom","terminal":true}}"#;
    assert_eq!(http.post("/v1/failures", report).unwrap().status, 201);
    server.kill();
    let before = inside::version(folder.path());
    upgraded(folder.path(), None).unwrap().kill();
    assert_eq!(inside::version(folder.path()), before + 1);
    assert_eq!(inside::number(folder.path(), "SELECT count(*) FROM test_upgrade JOIN runs ON runs.id = run"), 1);
    assert!(Server::of(&mut serve(folder.path())).is_err());
}

#[test]
fn concurrent_starts_migrate_once_and_share_no_folder() {
    for _ in 0..TOGETHER_ROUNDS {
        let folder = folder();
        let both: Vec<_> = std::thread::scope(|threads| {
            let start = || threads.spawn(|| Server::of(&mut serve(folder.path())));
            let both = [start(), start()];
            both.map(|one| one.join().unwrap()).into_iter().collect()
        });
        // A database is made to be shared.
        let begun = if database(folder.path()).is_some() { 2 } else { 1 };
        assert_eq!(both.iter().filter(|one| one.is_ok()).count(), begun);
        inside::check(folder.path());
    }
}

#[test]
fn newer_store_is_refused_and_left_unchanged() {
    let folder = folder();
    Server::start(folder.path()).kill();
    inside::set_version(folder.path(), 99);
    let before = inside::objects(folder.path());
    let refused = serve(folder.path()).args(["--log", "off"]).stderr(Stdio::piped()).output().unwrap();
    let (code, complaint) = refusal(&refused);
    assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
    assert!(complaint.contains("newer"), "{complaint}");
    let mut visit = redrive();
    let visit = visit.current_dir(folder.path()).args(["keys", "list"]).args(place(folder.path())).output().unwrap();
    assert!(refusal(&visit).1.contains("newer"));
    assert_eq!((inside::version(folder.path()), inside::objects(folder.path())), (99, before));
}
