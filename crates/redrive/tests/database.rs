//! A PostgreSQL store from the command line: several servers, doctor, clear refusals, copy and check.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that can't go on should say where, and one that can should say how far it went"
)]

mod support;

use std::ops::Range;
use std::path::Path;
use std::process::{Output, Stdio};

use private_postgres::Database;
use serde_json::Value;
use support::{Server, folder, json, redrive, refusal, text};

/// `REDRIVE_COPY_RUNS` says another number.
const RUNS_TO_COPY: usize = 3_000;
const LINES_A_CALL: usize = 3_000;
const SECRET: &str = "hunter2-canary";

fn serve(url: &str) -> Server {
    let mut command = redrive();
    command.args(["serve", "--listen", "127.0.0.1:0", "--database-url", url]).env("REDRIVE_GRACE_MS", "5000");
    Server::of(command.stdout(Stdio::piped()).stderr(Stdio::null())).unwrap()
}

/// What it says when it does not start: one line, and nothing secret in it.
fn refused(url: &str) -> String {
    let mut command = redrive();
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "off"]).env("REDRIVE_DATABASE_URL", url);
    let (code, said) = refusal(&command.output().unwrap());
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(!said.contains(SECRET), "{said}");
    said
}

/// Reports failures until there are `runs` of them.
fn fill(server: &Server, key: &str, runs: usize) {
    for first in (0..runs).step_by(LINES_A_CALL) {
        fill_piece(server, key, first..runs.min(first + LINES_A_CALL));
    }
}

fn fill_piece(server: &Server, key: &str, numbers: Range<usize>) {
    let runs = numbers.len();
    let lines: Vec<String> = numbers
        .map(|n| {
            format!(
                r#"{{"run_id":"run-{n}","tenant":"t{}","payload":{{"n":{n}}},"error":{{"message":"boom {n}"}}}}"#,
                n % 3
            )
        })
        .collect();
    let body = lines.join("\n");
    let mut stream = std::net::TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    let head = format!(
        "POST /v1/failures HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/x-ndjson\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.matches("\"status\":201").count() == runs, "{answer:.300}");
}

fn stop(server: Server) {
    server.signal("-TERM");
    assert!(server.ended().0.success());
}

/// Every page, with its cursors.
fn listed(server: &Server, key: &str) -> String {
    text(&server.cli(key, &["runs", "list", "--all", "--json"]))
}

#[test]
fn two_servers_on_one_database_accept_the_same_key() {
    let database = Database::fresh().unwrap();
    let (first, second) = std::thread::scope(|threads| {
        let other = threads.spawn(|| serve(database.url()));
        (serve(database.url()), other.join().unwrap())
    });
    let keys: Vec<String> = [&first, &second].into_iter().filter_map(|server| server.key.clone()).collect();
    assert_eq!(keys.len(), 1, "there is one first key between two that start together");
    let admin = keys[0].clone();
    let mut made = redrive();
    made.env("REDRIVE_DATABASE_URL", database.url()).args(["keys", "create", "--role", "operator", "--json"]);
    let key = json(&made.output().unwrap())["key"].as_str().unwrap().to_owned();
    fill(&first, &admin, 5);
    let seen = support::wait_for("the new key at the other server", || {
        let seen = second.cli(&key, &["runs", "list", "--all", "--json"]);
        seen.status.success().then_some(seen)
    });
    assert_eq!(json(&seen)["runs"].as_array().unwrap().len(), 5);
    let mut keys = redrive();
    let keys = text(&keys.args(["keys", "list", "--database-url", database.url()]).output().unwrap());
    assert!(keys.contains("operator") && keys.contains("admin"), "{keys}");
}

#[test]
fn unusable_database_is_refused_without_printing_the_password() {
    let database = Database::fresh().unwrap();
    let away = format!("postgres://postgres:{SECRET}@127.0.0.1:1/none");
    assert!(refused(&away).contains("database"));
    // It takes a connection, and never says a word.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://postgres:{SECRET}@{}/none", mute.local_addr().unwrap());
    assert!(refused(&url).contains("does not answer"));
    assert!(refused(&format!("{}_none", database.url())).contains("does not exist"));
    stop(serve(database.url()));
    let version = database.sql("SELECT version FROM schema_version").unwrap();
    database.sql("UPDATE schema_version SET version = 99").unwrap();
    assert!(refused(database.url()).contains("newer"));
    database.sql(&format!("UPDATE schema_version SET version = {version}")).unwrap();
    let name = database.url().rsplit('/').next().unwrap();
    database.sql(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).unwrap();
    assert!(refused(database.url()).contains("synchronous_commit=off"));
    database.sql(&format!("ALTER DATABASE {name} RESET synchronous_commit")).unwrap();
    database.sql("CREATE TABLE copying (name TEXT)").unwrap();
    assert!(refused(database.url()).contains("a copy into this store is not finished"));
}

#[test]
fn the_doctor_looks_a_database_over() {
    let database = Database::fresh().unwrap();
    let doctor = || redrive().args(["doctor", "--json", "--database-url", database.url()]).output().unwrap();
    let (code, said) = refusal(&doctor());
    assert!(code == Some(2) && said.contains("no store in this database"), "{said}");
    let server = serve(database.url());
    let admin = server.key.clone().unwrap();
    assert!(server.cli(&admin, &["queues", "set", "default", "--owner", "me"]).status.success());
    let report: Value = serde_json::from_slice(&doctor().stdout).unwrap();
    let about = |what: &str| report["findings"].as_array().unwrap().iter().find(|f| f["about"] == what).cloned();
    for what in ["store", "durability", "integrity", "connections", "vacuum", "figures", "clock", "queues"] {
        assert_eq!(about(what).unwrap()["severity"], "fine", "{what}: {report}");
    }
    assert_eq!(report["status"], "fine");
    assert!(!report.to_string().contains("postgres@"), "{report}");
}

fn copy(from: &str, to: &str) -> std::process::Command {
    let mut command = redrive();
    command.args(["store", "copy", "--json", "--from", from, "--to", to]);
    command
}

fn check(args: &[&str]) -> Output {
    redrive().args(["store", "check", "--json"]).args(args).output().unwrap()
}

fn is_fine(args: &[&str]) {
    let checked = check(args);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// Killed half-way, a copy leaves a store that no server opens, and resumes when run again.
#[allow(clippy::disallowed_methods, reason = "how long it took is only told")]
fn killed_then_finished(from: &str, to: &str, runs: usize) -> Value {
    let began = std::time::Instant::now();
    // A piece is a thousand rows, of which a run has three, and is passed twice: before its commit and after it. Small tables
    // are a piece each.
    let half = format!("mid_copy:{}", (runs * 3 / 1_000 + 15) | 1);
    let killed = copy(from, to).env("REDRIVE_ABORT_AT", half).output().unwrap();
    assert!(!killed.status.success());
    let done = json(&copy(from, to).output().unwrap());
    assert_eq!(done["resumed"], true);
    println!("{} rows of {runs} runs copied in {:?}, killed once", done["rows"], began.elapsed());
    done
}

fn runs_to_copy() -> usize {
    std::env::var("REDRIVE_COPY_RUNS").map_or(RUNS_TO_COPY, |runs| runs.parse().expect("a number of runs"))
}

#[test]
fn interrupted_copies_to_and_from_postgresql_resume() {
    let places = folder();
    let (first, second) = (places.path().join("first/data"), places.path().join("second"));
    std::fs::create_dir_all(places.path().join("first")).unwrap();
    let server = Server::start(&places.path().join("first"));
    let admin = server.key.clone().unwrap();
    let runs = runs_to_copy();
    fill(&server, &admin, runs);
    let before = listed(&server, &admin);
    stop(server);
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    let database = Database::fresh().unwrap();
    let there = killed_then_finished(first, database.url(), runs);
    is_fine(&["--database-url", database.url()]);
    let server = serve(database.url());
    assert_eq!(listed(&server, &admin), before, "the same keys are good, and show the same");
    fill_more(&server, &admin);
    let after = listed(&server, &admin);
    let (code, said) = refusal(&copy(database.url(), second).output().unwrap());
    assert!(code == Some(1) && said.contains("is using this database"), "{said}");
    // As if it had been stopped long ago: a copy waits for the last sign of a server to be old.
    stop(server);
    database.sql("UPDATE stamps SET at = at - 60000").unwrap();
    let back = killed_then_finished(database.url(), second, runs);
    assert!(back["rows"].as_u64() > there["rows"].as_u64());
    is_fine(&["--data", second]);
    let server = Server::of(
        redrive()
            .args(["serve", "--listen", "127.0.0.1:0", "--data", second])
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    );
    assert_eq!(listed(&server.unwrap(), &admin), after);
}

fn fill_more(server: &Server, key: &str) {
    let report = server.cli(key, &["runs", "note", "run-1", "seen", "--tenant", "t1"]);
    assert!(report.status.success(), "{report:?}");
}

#[test]
fn store_check_finds_and_recounts_wrong_counters() {
    let database = Database::fresh().unwrap();
    let server = serve(database.url());
    let admin = server.key.clone().unwrap();
    fill(&server, &admin, 20);
    stop(server);
    let place = ["--database-url", database.url()];
    is_fine(&place);
    database
        .sql("INSERT INTO counter_deltas (state, tenant, queue, detail, n, reason) VALUES (0, 1, 1, 0, 7, 'x')")
        .unwrap();
    let found = check(&place);
    let said: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((found.status.code(), &said["status"]), (Some(1), &"attention".into()), "{said}");
    assert!(said.to_string().contains("store check --recount"), "{said}");
    is_fine(&[place[0], place[1], "--recount"]);
    is_fine(&place);
}

#[test]
fn a_check_of_a_folder_finds_them_too() {
    let folder = folder();
    let server = Server::start(folder.path());
    let admin = server.key.clone().unwrap();
    fill(&server, &admin, 20);
    stop(server);
    let data = folder.path().join("data");
    let place = ["--data", data.to_str().unwrap()];
    is_fine(&place);
    spoil(&data);
    assert_eq!(check(&place).status.code(), Some(1));
    is_fine(&[place[0], place[1], "--recount"]);
    is_fine(&place);
}

fn spoil(data: &Path) {
    let conn = rusqlite::Connection::open(data.join("redrive.db")).unwrap();
    assert_eq!(conn.execute("UPDATE totals SET n = n + 1", []).unwrap(), 1);
}
