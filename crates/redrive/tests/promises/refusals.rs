//! What it can't work with makes it refuse to start: one clear line, a code that is not zero, never half a server.

use std::path::Path;

use crate::support::{Server, folder, refusal, serve};

fn refuses(folder: &Path, args: &[&str], words: &str) {
    let output = serve(folder).args(args).args(["--log", "off"]).stderr(std::process::Stdio::piped()).output().unwrap();
    let (code, complaint) = refusal(&output);
    assert!(matches!(code, Some(1 | 2)), "{code:?}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains(words), "{words:?} is not in: {complaint}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("listening"));
}

#[test]
fn a_configuration_that_can_not_be_read_refuses() {
    let folder = folder();
    refuses(folder.path(), &["--config", "nowhere.toml"], "nowhere.toml");
    std::fs::write(folder.path().join("odd.toml"), "[queue.mail]\nowner = 'ops'\nowmer = 'ops'\n").unwrap();
    refuses(folder.path(), &["--config", "odd.toml"], "owmer");
    refuses(folder.path(), &["--config", "odd.toml"], "3");
    std::fs::write(folder.path().join("odd.toml"), b"[queue.\xff]\n").unwrap();
    refuses(folder.path(), &["--config", "odd.toml"], "odd.toml");
    std::fs::write(folder.path().join("odd.toml"), "[defaults]\nmax_attempts = 0\n").unwrap();
    refuses(folder.path(), &["--config", "odd.toml"], "max_attempts");
}

#[test]
fn a_store_that_is_none_refuses_and_is_left_as_it_was() {
    let folder = folder();
    std::fs::write(folder.path().join("data"), "a file").unwrap();
    refuses(folder.path(), &[], "data");
    std::fs::remove_file(folder.path().join("data")).unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let garbage = "this is no database ".repeat(500);
    std::fs::write(folder.path().join("data/redrive.db"), &garbage).unwrap();
    refuses(folder.path(), &[], "database");
    assert!(std::fs::read_to_string(folder.path().join("data/redrive.db")).unwrap() == garbage);
}

#[test]
fn a_store_that_was_cut_short_refuses_or_says_what_is_wrong_and_never_serves_less() {
    let folder = folder();
    let server = Server::start(folder.path());
    server.signal("-TERM");
    assert!(server.ended().0.success());
    let path = folder.path().join("data/redrive.db");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 3]).unwrap();
    refuses(folder.path(), &[], "malformed");
}

#[test]
fn limits_that_make_no_sense_refuse() {
    let folder = folder();
    refuses(folder.path(), &["--in-flight-max-bytes", "10"], "in_flight_max_bytes");
    refuses(folder.path(), &["--body-timeout-ms", "0"], "body_timeout_ms");
}
