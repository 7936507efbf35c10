//! `redrive serve` from outside: first start, keys, a second server, shutdown.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should say where")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use support::{Server, folder, json, new_key, redrive, refusal, text, wait_for};

#[test]
fn first_start_prints_admin_key_once_in_a_private_folder() {
    let folder = folder();
    let first = Server::start(folder.path());
    let key = first.key.clone().expect("a key");
    assert_eq!(first.greeting.matches("rdk_").count(), 1);
    assert_eq!(json(&first.cli(&key, &["health", "--json"]))["dead"], 0);
    let mode = std::fs::metadata(folder.path().join("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    first.signal("-TERM");
    let (status, rest) = first.ended();
    assert!(status.success(), "{status}");
    assert!(!rest.contains("rdk_"));

    let second = Server::start(folder.path());
    assert_eq!(second.key, None);
    assert!(second.cli(&key, &["health"]).status.success());
    second.signal("-INT");
    assert!(second.ended().0.success());
}

#[test]
fn running_server_accepts_new_keys_and_refuses_revoked_ones() {
    let folder = folder();
    let server = Server::start(folder.path());
    let made = new_key(folder.path(), &["--role", "tenant", "--tenant", "acme"]);
    assert_eq!((&made["role"], &made["tenant"]), (&"tenant".into(), &"acme".into()));
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    wait_for("the new key to be accepted", || server.cli(key, &["runs", "list"]).status.success().then_some(()));

    let listed = redrive().current_dir(folder.path()).args(["keys", "list", "--data", "data"]).output().unwrap();
    assert!(text(&listed).contains(id) && !text(&listed).contains(key));
    let revoked = redrive().current_dir(folder.path()).args(["keys", "revoke", "--data", "data", id]).output().unwrap();
    assert_eq!(text(&revoked), format!("revoked {id}\n"));
    wait_for("the revoked key to be refused", || (!server.cli(key, &["runs", "list"]).status.success()).then_some(()));
    let (code, complaint) = refusal(&server.cli(key, &["runs", "list"]));
    assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
}

#[test]
fn a_second_server_on_the_same_folder_refuses() {
    let folder = folder();
    let _first = Server::start(folder.path());
    let args = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--log", "off"];
    let refused = || {
        let (code, complaint) = refusal(&redrive().current_dir(folder.path()).args(args).output().unwrap());
        assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
        assert!(complaint.contains("another redrive server is using data"), "{complaint}");
    };
    refused();
    std::fs::remove_file(folder.path().join("data/redrive.lock")).unwrap();
    refused();
}

#[test]
fn a_port_that_is_taken_refuses() {
    let (folder, other) = (folder(), folder());
    let first = Server::start(folder.path());
    let address = first.url.strip_prefix("http://").unwrap();
    let args = ["serve", "--listen", address, "--data", "data", "--log", "off"];
    let (code, complaint) = refusal(&redrive().current_dir(other.path()).args(args).output().unwrap());
    assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
    assert!(complaint.contains(address), "{complaint}");
}

#[test]
fn queues_of_the_configuration_are_there_and_can_be_read() {
    let folder = folder();
    let toml = "[queue.mail]\nowner = 'ops'\nmax_attempts = 2\n[tier.gold]\npreset = 'customer'\n[tenant.acme]\ntier = 'gold'\n";
    std::fs::write(folder.path().join("redrive.toml"), toml).unwrap();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let mail = json(&server.cli(&key, &["queues", "show", "mail", "--json"]));
    assert_eq!((&mail["settings"]["owner"], &mail["settings"]["policy"]["max_attempts"]), (&"ops".into(), &2.into()));
    assert!(text(&server.cli(&key, &["queues", "list"])).contains("mail"));

    let set = server.cli(&key, &["queues", "set", "notes", "--owner", "me", "--lease-ms", "1500", "--json"]);
    assert_eq!(json(&set)["settings"]["policy"]["lease_ms"], 1500);
    let again = server.cli(&key, &["queues", "set", "notes", "--retry-by", "caller", "--json"]);
    assert_eq!(json(&again)["settings"]["owner"], "me");
    assert_eq!(json(&again)["settings"]["retry_by"], "caller");
    assert_eq!(refusal(&server.cli(&key, &["queues", "set", "notes", "--lease-ms", "1"])).0, Some(2));
}

/// A request whose body does not come: work in hand that will not finish by itself.
fn stuck_request(server: &Server, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    let head = format!(
        "POST /v1/failures HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server asks for the body once it has begun to wait for it.
    let mut answer = [0; 25];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 100"), "{answer:?}");
    stream
}

#[test]
fn stop_waits_no_longer_than_the_grace_period() {
    let folder = folder();
    let server = Server::start_with(folder.path(), &["--body-timeout-ms", "3600000"]);
    let _stuck = stuck_request(&server, server.key.as_ref().unwrap());
    server.signal("-TERM");
    // The grace time is five seconds, the patience for an end is thirty.
    assert!(server.ended().0.success());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = folder();
    let server = Server::start_with(folder.path(), &["--body-timeout-ms", "3600000", "--grace-ms", "3600000"]);
    let _stuck = stuck_request(&server, server.key.as_ref().unwrap());
    server.signal("-TERM");
    server.signal("-INT");
    assert_eq!(server.ended().0.code(), Some(1));
}

/// A client that sends all of a large body before it looks gets the answer, not a reset.
#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().expect("a key");
    let large = vec![b'x'; 20 << 20];
    let head = |key: &str, bytes: usize| {
        format!(
            "POST /v1/failures HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {bytes}\r\n\r\n"
        )
    };
    for (key, status) in [("rdk_nobody", 401), (key.as_str(), 413)] {
        let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
        stream.write_all(head(key, large.len()).as_bytes()).unwrap();
        stream.write_all(&large).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}
