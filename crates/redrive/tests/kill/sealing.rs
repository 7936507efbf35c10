//! Rotation of keys around a kill: values stay readable, and none is left under an old key.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::http::Http;
use crate::common::lot::{self, Lot};
use crate::support::{Server, database, folder, json, place, redrive, serve, wait_for};

/// Enough for several pages of the pass.
const RUNS: usize = 3_000;
/// Each server does a page or two of about twenty before it dies.
const SERVER_KILLS: usize = 8;
const COMMAND_KILLS: usize = 12;
/// What `redrive secrets rotate-master` may get through before it dies.
const COMMAND_MAX_MS: u64 = 120;

fn encrypted(folder: &Path) {
    std::fs::write(folder.join("redrive.toml"), "[encryption]\nmaster_key_file = \"master.key\"\n").unwrap();
    std::fs::write(folder.join("master.key"), "1a".repeat(32)).unwrap();
}

fn report(server: &Server, key: &str, name: &str, runs: usize) {
    let line = |n: usize| {
        format!(
            r#"{{"tenant":"t{}","run_id":"{name}-{n}","payload":{{"text":"{name} {n}"}},"error":{{"message":"boom","terminal":true}}}}"#,
            n % 3
        )
    };
    let lines: Vec<String> = (0..runs).map(line).collect();
    assert_eq!(Http::new(&server.url, key).post_lines("/v1/failures", &lines).unwrap().status, 200);
}

fn readable(server: &Server, key: &str, name: &str, runs: impl Iterator<Item = usize>) {
    let mut http = Http::new(&server.url, key);
    for n in runs {
        let shown = http.get(&format!("/v1/runs/{name}-{n}?tenant=t{}", n % 3)).unwrap().json();
        assert_eq!(shown["payload"]["text"], format!("{name} {n}"), "{shown}");
    }
}

fn secrets(folder: &Path, args: &[&str]) -> Value {
    let output = redrive().current_dir(folder).arg("secrets").args(args).args(place(folder)).arg("--json").output();
    json(&output.unwrap())
}

fn status(folder: &Path) -> Value {
    secrets(folder, &["status"])
}

/// The servers wait for a minute before they touch what old transactions may still write.
fn let_the_grace_pass(folder: &Path) {
    let sql = "UPDATE tenant_keys SET retired_at = retired_at - 60000 WHERE retired_at IS NOT NULL";
    match database(folder) {
        Some(url) => drop(private_postgres::sql(&url, sql).unwrap()),
        None => {
            let conn = rusqlite::Connection::open(folder.join("data/redrive.db")).unwrap();
            conn.busy_timeout(Duration::from_secs(10)).unwrap();
            conn.execute_batch(sql).unwrap();
        }
    }
}

/// T4.
#[test]
fn a_rotation_killed_at_random_leaves_nothing_under_old_keys() {
    let lot = Lot::new(lot::seed());
    let folder = folder();
    encrypted(folder.path());
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    report(&server, &key, "before", RUNS);
    // The first pass, for what was stored before encryption, has nothing to do.
    wait_for("the first pass", || status(folder.path()).get("pass").is_none().then_some(()));
    let sealed = status(folder.path())["values"]["active"].as_u64().unwrap();
    assert_eq!(secrets(folder.path(), &["rotate-tenant", "--all"])["rotated"], 3);
    // Running servers use the new key at once.
    report(&server, &key, "after", 30);
    let mixed = status(folder.path());
    assert_eq!(mixed["values"]["retired"], sealed, "{mixed}");
    assert!(mixed["values"]["active"].as_u64().unwrap() >= 60 && mixed["values"]["clear"] == 0, "{mixed}");
    server.kill();
    let_the_grace_pass(folder.path());

    for kill in 0..SERVER_KILLS {
        let moment = format!("mid_reseal:{}", lot.below(2) + 2);
        if let Ok(server) = Server::of(serve(folder.path()).env("REDRIVE_ABORT_AT", &moment)) {
            assert!(!server.ended().0.success(), "it ended by itself");
        }
        let now = status(folder.path());
        assert!(now["values"]["retired"].as_u64().unwrap() > 0, "kill {kill} came too late: {now}");
        assert_eq!(now["retired_keys"], 3, "a key was deleted before its time: {now}");
    }

    let server = Server::start(folder.path());
    readable(&server, &key, "before", (0..RUNS).step_by(7));
    let done = wait_for("the end of the pass", || {
        let now = status(folder.path());
        (now["retired_keys"] == 0).then_some(now)
    });
    assert_eq!((&done["values"]["retired"], &done["values"]["clear"]), (&0.into(), &0.into()), "{done}");
    readable(&server, &key, "before", 0..RUNS);
    readable(&server, &key, "after", 0..30);
    println!("{RUNS} runs, {SERVER_KILLS} servers killed in a rotation, {sealed} values re-sealed");
}

#[test]
fn a_killed_rotation_of_the_master_key_is_whole_or_nothing() {
    let lot = Lot::new(lot::seed());
    let folder = folder();
    encrypted(folder.path());
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    report(&server, &key, "run", 300);
    let keys = ["1a".repeat(32), "2b".repeat(32)];
    let path = |name: &str| folder.path().join(name);
    let mut ids = vec![status(folder.path())["master_key_id"].as_str().unwrap().to_owned()];
    let (mut now, mut rotations) = (0, 0);
    for _ in 0..COMMAND_KILLS {
        std::fs::write(path("new.key"), &keys[1 - now]).unwrap();
        let mut command = redrive();
        command.current_dir(folder.path()).args(["secrets", "rotate-master", "--new-key-file", "new.key"]);
        let mut child = command.args(place(folder.path())).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(lot.below(COMMAND_MAX_MS)));
        let _ = child.kill();
        child.wait().unwrap();
        let id = status(folder.path())["master_key_id"].as_str().unwrap().to_owned();
        if ids.last() != Some(&id) {
            (now, rotations) = (1 - now, rotations + 1);
            ids.push(id);
            // The operator puts the new key in place.
            std::fs::write(path("master.key"), &keys[now]).unwrap();
        }
        // A running server reads it again when it makes a key for a new tenant.
        report(&server, &key, &format!("more{rotations}"), 3);
    }
    // A last one that nobody kills.
    std::fs::write(path("new.key"), &keys[1 - now]).unwrap();
    secrets(folder.path(), &["rotate-master", "--new-key-file", "new.key"]);
    std::fs::write(path("master.key"), &keys[1 - now]).unwrap();
    let late = r#"{"tenant":"new","run_id":"late","payload":1,"error":{"message":"boom","terminal":true}}"#;
    let mut http = Http::new(&server.url, &key);
    wait_for("a report of a new tenant", || (http.post("/v1/failures", late).unwrap().status < 300).then_some(()));
    server.kill();
    let server = Server::start(folder.path());
    readable(&server, &key, "run", 0..300);
    assert_eq!(Http::new(&server.url, &key).get("/v1/runs/late?tenant=new").unwrap().json()["payload"], 1);
    // With the old key it does not start.
    server.kill();
    std::fs::write(path("master.key"), &keys[now]).unwrap();
    let refused = serve(folder.path()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("the master key is not the store's"), "{said}");
    println!("{COMMAND_KILLS} rotations of the master key killed, {rotations} of them done before");
}
