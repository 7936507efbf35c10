//! The story of the charge in doubt, and the reader of a page's commands and output.

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
    // The receipt contains nothing internal.
    let receipt = &said[said.find("Receipt for").unwrap()..];
    for ours in ["silent", "worker", "key-", "payments", "cut off", "ch_77"] {
        assert!(!receipt.contains(ours), "{ours} in:\n{receipt}");
    }
}

/// What happens next.
pub(crate) enum Scene {
    Stage(String),
    Command { line: String, prints: Vec<String> },
}

pub(crate) fn read(page: &str) -> Vec<Scene> {
    let mut scenes = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        if let Some(stage) = line.strip_prefix("<!-- stage: ").and_then(|rest| rest.strip_suffix(" -->")) {
            scenes.push(Scene::Stage(stage.to_owned()));
        } else if line.starts_with("```") {
            in_block = line == "```sh";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            scenes.push(Scene::Command { line: command.to_owned(), prints: Vec::new() });
        } else if in_block && let Some(Scene::Command { prints, .. }) = scenes.last_mut() {
            prints.push(line.to_owned());
        }
    }
    scenes
}

/// The words of a command; quotes hold several together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words
}

/// Whether what was printed is what is written, `…` standing for anything: in a line for a part of it, alone for lines.
pub(crate) fn is_as_written(printed: &str, written: &[String]) -> bool {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    lines_fit(&printed, written)
}

fn lines_fit(printed: &[&str], written: &[String]) -> bool {
    match written.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "…" => (0..=printed.len()).any(|at| lines_fit(&printed[at..], rest)),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, more)| fits(first, line) && lines_fit(more, rest))
        }
    }
}

fn fits(printed: &str, written: &str) -> bool {
    match written.split_once('…') {
        None => printed == written,
        Some((before, after)) => printed.strip_prefix(before).is_some_and(|rest| {
            let places = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            places.into_iter().any(|at| fits(&rest[at..], after))
        }),
    }
}

#[test]
fn what_is_written_has_to_be_printed() {
    let written = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(is_as_written("a 17 b\nx\ny\nend\n", &written("a … b\n…\nend")));
    assert!(!is_as_written("a 17 c\n", &written("a … b")));
    assert!(!is_as_written("a\nb\n", &written("a")));
    assert_eq!(words(r#"create --reason "two words" x"#), ["create", "--reason", "two words", "x"]);
}
