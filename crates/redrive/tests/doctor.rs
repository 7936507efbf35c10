//! `redrive doctor` on healthy, neglected, damaged and missing stores.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should say where")]

mod support;

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{Server, folder, redrive, refusal};

fn doctor(folder: &Path, args: &[&str]) -> Output {
    redrive().current_dir(folder).args(["doctor", "--data", "data"]).args(args).output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What was found about something, with how bad it is.
fn about(report: &Value, what: &str) -> Vec<(String, String)> {
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["about"] == what);
    findings.map(|finding| (text(&finding["severity"]).to_owned(), text(&finding["seen"]).to_owned())).collect()
}

/// Whether there is nothing to act on, but for what tells of the machine: another process may fill its disk. The exit code and the
/// report's status have to agree with the findings.
fn is_well(output: &Output, report: &Value) -> bool {
    let to_act_on: Vec<&Value> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| !["fine", "advice"].contains(&text(&it["severity"])))
        .collect();
    let expected = if to_act_on.is_empty() { (Some(0), "fine") } else { (Some(1), "attention") };
    assert_eq!((output.status.code(), text(&report["status"])), expected, "{report}");
    to_act_on.iter().all(|it| ["disk", "fsync"].contains(&text(&it["about"])))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// A store that a server has used.
fn used(folder: &Path, queue: &str) {
    let server = Server::start(folder);
    let key = server.key.clone().unwrap();
    let set = server.cli(&key, &["queues", "set", queue, "--owner", "me"]);
    assert!(set.status.success(), "{set:?}");
    let lines =
        r#"{"run_id":"a","tenant":"acme","queue":"mail","error":{"message":"Invalid API key","http_status":401}}"#;
    let mut stream = std::net::TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    let head = format!(
        "POST /v1/failures HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{lines}",
        lines.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    server.signal("-TERM");
    assert!(server.ended().0.success());
}

#[test]
fn healthy_store_is_fine_and_eternal_key_is_advice() {
    let folder = folder();
    used(folder.path(), "mail");
    let output = doctor(folder.path(), &["--json", "--deep"]);
    let report = report(&output);
    assert!(is_well(&output, &report), "{report}");
    assert_eq!(about(&report, "integrity"), [("fine".to_owned(), "integrity_check is ok".to_owned())]);
    assert_eq!(about(&report, "keys")[0].0, "advice");
    for what in ["store", "durability", "folder", "clock", "configuration", "queues"] {
        assert_eq!(about(&report, what)[0].0, "fine", "{what}: {report}");
    }
    assert_eq!((about(&report, "fsync").len(), about(&report, "disk").len()), (1, 1));
    let names = std::fs::read_dir(folder.path().join("data")).unwrap().flatten();
    assert!(!names.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().contains("doctor")));
}

#[test]
fn a_queue_without_owner_and_a_broken_configuration_need_action() {
    let folder = folder();
    used(folder.path(), "other");
    std::fs::write(folder.path().join("redrive.toml"), "[serve]\nlisten = 3\n").unwrap();
    let output = doctor(folder.path(), &[]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("queue mail has no owner") && text.contains("redrive queues set mail --owner"), "{text}");
    assert!(text.contains("action  configuration"), "{text}");
}

#[test]
fn it_looks_while_a_server_is_running() {
    let folder = folder();
    let _server = Server::start(folder.path());
    let output = doctor(folder.path(), &["--json"]);
    let report = report(&output);
    assert!(is_well(&output, &report), "{report}");
}

#[test]
fn damage_inside_the_file_is_a_danger() {
    let folder = folder();
    used(folder.path(), "mail");
    let path = folder.path().join("data/redrive.db");
    let bytes = std::fs::metadata(&path).unwrap().len();
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Past the schema's first pages, which have to be read to look at all.
    file.seek(SeekFrom::Start(bytes / 2)).unwrap();
    file.write_all(&vec![0xa5; usize::try_from(bytes / 2).unwrap()]).unwrap();
    drop(file);
    let output = doctor(folder.path(), &["--json"]);
    match output.status.code() {
        Some(1) => assert_eq!(about(&report(&output), "integrity")[0].0, "danger"),
        // So much of it may be gone that nothing can be read.
        code => assert_eq!(code, Some(2), "{output:?}"),
    }
}

#[test]
fn run_missing_from_its_index_is_a_danger() {
    let folder = folder();
    used(folder.path(), "mail");
    let conn = rusqlite::Connection::open(folder.path().join("data/redrive.db")).unwrap();
    assert_eq!(conn.execute("DELETE FROM run_names_new", []).unwrap(), 1);
    drop(conn);
    let said = ("danger".to_owned(), "runs that can't be found by their names: 1".to_owned());
    assert_eq!(about(&report(&doctor(folder.path(), &["--json", "--deep"])), "integrity"), [said]);
}

#[test]
fn what_is_no_store_can_not_be_looked_at() {
    let folder = folder();
    let (code, complaint) = refusal(&doctor(folder.path(), &[]));
    assert_eq!((code, complaint.lines().count()), (Some(2), 1), "{complaint}");
    assert!(complaint.contains("no store in"), "{complaint}");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/redrive.db"), "this is a letter, not a database".repeat(200)).unwrap();
    let (code, complaint) = refusal(&doctor(folder.path(), &["--json"]));
    assert_eq!((code, complaint.lines().count()), (Some(2), 1), "{complaint}");
}
