//! `redrive audit` on the store of a real server: listed, verified, exported, cut and found.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should say where")]

mod support;

use std::path::Path;
use std::process::Output;

use support::{Server, folder, redrive, refusal, text, wait_for};

fn audit(folder: &Path, args: &[&str]) -> Output {
    redrive().current_dir(folder).arg("audit").args(args).args(["--data", "data"]).output().unwrap()
}

fn head_lines(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("data/audit-head.jsonl")).map_or(0, |text| text.lines().count())
}

#[test]
fn a_log_cut_beside_the_server_is_found() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    assert!(server.cli(&key, &["queues", "set", "mail", "--owner", "me"]).status.success());
    let made =
        redrive().current_dir(folder.path()).args(["keys", "create", "--role", "worker", "--data", "data"]).output();
    assert!(made.unwrap().status.success());
    let listed = text(&server.cli(&key, &["audit", "list", "--json"]));
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let told: Vec<(&str, &str)> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["action"].as_str().unwrap(), entry["actor"].as_str().unwrap().split(':').next().unwrap()))
        .collect();
    assert_eq!(told, [("key.create", "cli"), ("queue.put", "admin"), ("key.create", "engine")]);
    assert_eq!(listed["entries"][1]["from"], "127.0.0.1");
    assert!(text(&server.cli(&key, &["audit", "list", "--action", "queue.put"])).contains("queue:mail"));
    // The last one is written when the server ends.
    wait_for("a head outside the database", || (head_lines(folder.path()) > 0).then_some(()));
    server.signal("-TERM");
    assert!(server.ended().0.success());
    assert!(text(&audit(folder.path(), &["verify"])).starts_with("intact: 3 entries, head 3 "));

    let exported = text(&audit(folder.path(), &["export", "--to", "log.jsonl"]));
    assert!(exported.starts_with("exported 3 entries up to 3, sha256 "), "{exported}");
    let lines = std::fs::read_to_string(folder.path().join("log.jsonl")).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains(r#""event.action":"key.create""#)).count(), 2);
    assert!(!lines.contains("rdk_"), "{lines}");
    let (_, again) = refusal(&audit(folder.path(), &["export", "--to", "log.jsonl"]));
    assert!(again.contains("log.jsonl"), "{again}");

    let database = rusqlite::Connection::open(folder.path().join("data/redrive.db")).unwrap();
    database
        .execute_batch(
            "DELETE FROM audit WHERE seq > 2; UPDATE audit_marks SET seq = 2, at = (SELECT at FROM audit WHERE seq = 2),
                 hash = (SELECT hash FROM audit WHERE seq = 2) WHERE name = 'head'",
        )
        .unwrap();
    drop(database);
    let (code, said) = refusal(&audit(folder.path(), &["verify"]));
    assert_eq!(
        (code, said.contains("entry 3 is named by a head, and the log ends before it")),
        (Some(1), true),
        "{said}"
    );
}
