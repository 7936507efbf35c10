//! The card that may have been charged: every `bash` block of the page is a part of one script, and every line of a
//! `text` block must be in what it printed.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Server, folder, new_key, wait_for};

/// The contents of all fenced blocks of that kind.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}");
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line == fence {
            found.push(lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n"));
        }
    }
    found
}

/// Whether a printed line is the one shown; `…` stands for anything.
fn is_like(printed: &str, shown: &str) -> bool {
    let mut rest = printed;
    shown.split('…').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

fn run(page: &str, server: &Server, folder: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_redrive")).parent().unwrap();
    let key = |role: &str| new_key(folder, &["--role", role, "--tenant", "acme"])["key"].as_str().unwrap().to_owned();
    let (worker, person) = (key("worker"), key("tenant"));
    wait_for("both keys", || server.cli(&person, &["runs", "list"]).status.success().then_some(()));
    let script = format!("set -euo pipefail\n{}", blocks(page, "bash").join("\n"));
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("PATH", format!("{}:{}", binary.display(), std::env::var("PATH").unwrap()))
        .env("REDRIVE_URL", &server.url)
        .env("REDRIVE_KEY", person)
        .env("WORKER_KEY", worker)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn the_card_that_may_have_been_charged() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/stories/charge.md"));
    let page = page.unwrap();
    let folder = folder();
    let server = Server::start(folder.path());
    let said = run(&page, &server, folder.path());
    let mut rest = said.lines();
    for shown in blocks(&page, "text").join("\n").lines() {
        assert!(rest.any(|printed| is_like(printed, shown)), "not printed, or not in its place: {shown}\n\n{said}");
    }
    // Nothing that is ours alone is told to a customer.
    let receipt = &said[said.find("Receipt for").unwrap()..];
    for ours in ["silent", "worker", "key-", "payments", "cut off", "ch_77"] {
        assert!(!receipt.contains(ours), "{ours} in:\n{receipt}");
    }
}
