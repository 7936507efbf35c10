//! Backup and restore with the real binary: under ingest, killed in the middle, damaged, and released.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on should say where")]

mod common;
mod support;

use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::failure;
use common::http::Http;
use serde_json::{Value, json};
use support::{Server, folder, redrive, wait_for};

fn backup(folder: &Path, to: &str, abort_at: Option<&str>) -> Output {
    let mut command = redrive();
    command.current_dir(folder).args(["store", "backup", "--data", "data", "--to", to, "--json"]);
    command.envs(abort_at.map(|at| ("REDRIVE_ABORT_AT", at))).output().unwrap()
}

fn restore(folder: &Path, from: &str, data: &str) -> Output {
    redrive().current_dir(folder).args(["store", "restore", "--from", from, "--data", data, "--json"]).output().unwrap()
}

/// About 2 KB that do not compress.
fn payload(n: usize) -> String {
    let mut x = n as u64 + 1;
    let words = (0..128).map(|_| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{x:016x}")
    });
    json!({ "n": words.collect::<String>() }).to_string()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn backup_under_ingest_survives_a_kill_and_loses_nothing() {
    let (folder, target) = (folder(), support::folder());
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let (taken, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (before, manifest) = std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut client = Http::new(&server.url, &key);
            while !over.load(Ordering::Relaxed) {
                let n = taken.load(Ordering::Relaxed);
                let lines: Vec<String> = (n..n + 50).map(|n| failure(&format!("r{n}"), &payload(n))).collect();
                assert_eq!(client.post_lines("/v1/failures", &lines).unwrap().status, 200);
                taken.store(n + 50, Ordering::Relaxed);
            }
        });
        wait_for("some pages", || (taken.load(Ordering::Relaxed) >= 1_000).then_some(()));
        for point in ["mid_backup:1", "backup_copied:1", "backup_manifest:1"] {
            let killed = backup(folder.path(), "once.db", Some(point));
            assert!(!killed.status.success(), "{point}");
            assert!(!folder.path().join("once.db").exists(), "{point}: nothing looks like a backup");
            let refused = restore(folder.path(), "once.db", "other/data");
            assert!(!refused.status.success() && !folder.path().join("other/data/redrive.db").exists(), "{point}");
        }
        let before = taken.load(Ordering::Relaxed);
        let made = backup(folder.path(), "once.db", None);
        assert!(made.status.success(), "{}", said(&made));
        over.store(true, Ordering::Relaxed);
        (before, serde_json::from_slice::<Value>(&made.stdout).unwrap())
    });
    let after = taken.load(Ordering::Relaxed) as u64;
    let runs = manifest["rows"]["runs"].as_u64().unwrap();
    assert!((before as u64..=after).contains(&runs), "{before} <= {runs} <= {after}");
    assert_eq!(names(folder.path()).iter().filter(|name| name.contains("partial")).count(), 0);
    let from = folder.path().join("once.db");
    let restored = restore(target.path(), from.to_str().unwrap(), "data");
    assert!(restored.status.success(), "{}", said(&restored));
    let restored_server = Server::start(target.path());
    let mut client = Http::new(&restored_server.url, &key);
    for n in [0, before / 2, before - 1] {
        assert_eq!(client.get(&format!("/v1/runs/r{n}?tenant=acme")).unwrap().status, 200, "r{n}");
    }
    let checked =
        redrive().current_dir(target.path()).args(["store", "check", "--data", "data", "--json"]).output().unwrap();
    let findings: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let about =
        |what: &str| findings["findings"].as_array().unwrap().iter().find(|it| it["about"] == what).unwrap().clone();
    assert_eq!((&about("integrity")["severity"], &about("counters")["severity"]), (&json!("fine"), &json!("fine")));
}

#[test]
fn restored_server_is_frozen_until_an_operator_releases_it() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let mut client = Http::new(&server.url, &key);
    let enqueue = r#"{"tenant":"acme","run_id":"r1","mode":"enqueue","payload":{"n":1}}"#;
    assert_eq!(client.post("/v1/runs", enqueue).unwrap().status, 201);
    let made = backup(folder.path(), "backups/", None);
    assert!(made.status.success(), "{}", said(&made));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let from = made["path"].as_str().unwrap().to_owned();
    server.kill();

    let over = restore(folder.path(), &from, "data");
    assert!(!over.status.success() && said(&over).contains("restore into a folder without a store"), "{}", said(&over));
    let damaged = folder.path().join("damaged.db");
    let mut bytes = std::fs::read(folder.path().join(&from)).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    std::fs::copy(folder.path().join(format!("{from}.json")), folder.path().join("damaged.db.json")).unwrap();
    let refused = restore(folder.path(), "damaged.db", "new/data");
    assert!(!refused.status.success() && said(&refused).contains("SHA-256"), "{}", said(&refused));

    let target = support::folder();
    let absolute = folder.path().join(&from);
    let restored = restore(target.path(), absolute.to_str().unwrap(), "data");
    assert!(restored.status.success(), "{}", said(&restored));
    let server = Server::start(target.path());
    let mut client = Http::new(&server.url, &key);
    let lease = r#"{"queues":["*"],"max":10}"#;
    let frozen = client.post("/v1/leases", lease).unwrap().json();
    assert_eq!((frozen["leases"].as_array().unwrap().len(), frozen["frozen"]["backup_at"].is_string()), (0, true));
    let health = client.get("/v1/health").unwrap().json();
    assert_eq!((&health["status"], health["frozen"]["restored_at"].is_string()), (&json!("attention"), true));
    let told = server.cli(&key, &["store", "release", "--reason", " "]);
    assert!(!told.status.success(), "a reason is asked for");
    let told = server.cli(&key, &["store", "release", "--reason", "compared with the bank"]);
    assert!(told.status.success(), "{}", said(&told));
    let leased = client.post("/v1/leases", lease).unwrap().json();
    assert_eq!((leased["leases"][0]["run_id"].as_str(), &leased["frozen"]), (Some("r1"), &Value::Null));
    assert_eq!(client.get("/v1/health").unwrap().json()["frozen"], Value::Null);
}

#[test]
fn a_backup_setting_is_refused_for_a_database() {
    let folder = folder();
    std::fs::write(folder.path().join("redrive.toml"), "[backup]\nto = \"backups\"\n").unwrap();
    let mut command = redrive();
    command.current_dir(folder.path()).args(["serve", "--database-url", "postgres://nobody@127.0.0.1:1/none"]);
    let refused = command.output().unwrap();
    assert!(!refused.status.success() && said(&refused).contains("pg_dump"), "{}", said(&refused));
}
