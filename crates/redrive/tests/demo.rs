//! The demo for a new user: a link, a page, dead letters, and a clean end.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should say where")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use support::{folder, json, redrive, refusal, wait_for};

struct Demo {
    child: Child,
    stdout: BufReader<ChildStdout>,
    greeting: String,
}

impl Demo {
    /// With a short history, in a folder of its own for temporary ones.
    fn start(temporary: &Path) -> Self {
        let mut child = redrive()
            .env("TMPDIR", temporary)
            .args(["demo", "--listen", "127.0.0.1:0", "--history-runs", "3000", "--speed", "20"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut greeting = String::new();
        while !greeting.contains("Ctrl-C") {
            assert_ne!(stdout.read_line(&mut greeting).unwrap(), 0, "it ended early: {greeting}");
        }
        Self { child, stdout, greeting }
    }

    fn word(&self, beginning: &str) -> String {
        let found = self.greeting.split_whitespace().find_map(|word| word.strip_prefix(beginning));
        found.expect(beginning).to_owned()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One answer, whole.
fn get(address: &str, path: &str, cookie: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn demo_link_works_and_demo_leaves_no_files() {
    let temporary = folder();
    let mut demo = Demo::start(temporary.path());
    let url = demo.word("REDRIVE_URL=");
    let key = demo.word("REDRIVE_KEY=");
    let address = url.strip_prefix("http://").unwrap();
    let link = format!("/login{}", demo.word(&format!("{url}/login")));

    let login = get(address, &link, "");
    assert!(login.starts_with("HTTP/1.1 303") && login.contains("HttpOnly; SameSite=Strict"), "{login}");
    let cookie = login.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next()).unwrap();
    assert!(get(address, &link, "").starts_with("HTTP/1.1 401"));
    let page = get(address, "/", cookie);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("need a person"), "{page}");
    assert!(!page.contains(&key));
    assert!(get(address, "/", "").starts_with("HTTP/1.1 401"));

    let cli =
        |args: &[&str]| json(&redrive().env("REDRIVE_URL", &url).env("REDRIVE_KEY", &key).args(args).output().unwrap());
    let dead = cli(&["runs", "list", "--state", "dead", "--json"]);
    assert!(dead["total"].as_u64().unwrap() >= 5, "{dead}");
    wait_for("the live fleet to recover a run", || {
        let stats = cli(&["stats", "--json"]);
        let hours = stats["hours"].as_array().unwrap();
        hours.last().is_some_and(|hour| hour["recovered"].as_u64() > Some(0)).then_some(())
    });

    demo.signal("-INT");
    let status = wait_for("the end of the demo", || demo.child.try_wait().unwrap());
    let mut rest = String::new();
    demo.stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(status.code(), Some(0), "{rest}");
    assert!(rest.contains("dead ") && rest.contains("recovered "), "{rest}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn demo_stopped_during_history_leaves_no_files() {
    let temporary = folder();
    let mut command = redrive();
    command.env("TMPDIR", temporary.path()).args(["demo", "--listen", "127.0.0.1:0", "--history-runs", "10000000"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    wait_for("the demo's store", || {
        let folder = std::fs::read_dir(temporary.path()).unwrap().flatten().next()?;
        folder.path().join("data/redrive.db").exists().then_some(())
    });
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let status = wait_for("the end of the demo", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn taken_listen_address_is_refused_at_once() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, complaint) = refusal(&redrive().args(["demo", "--listen", &address]).output().unwrap());
    assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
    assert!(complaint.contains(&address), "{complaint}");
}
