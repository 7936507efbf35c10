//! Commands that need no server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should say where")]

mod support;

use std::io::Write;
use std::process::Stdio;

use support::{folder, redrive, refusal, text};

#[test]
fn completions_are_there_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&redrive().args(["completions", shell]).output().unwrap());
        assert!(script.contains("redrive") && script.contains("queues"), "{shell}");
    }
}

#[test]
fn generated_files_are_the_same_whatever_the_environment() {
    for what in ["openapi", "transitions", "cli", "config", "errors"] {
        let plain = text(&redrive().args(["generate", what]).output().unwrap());
        let mut other = redrive();
        other.env("COLUMNS", "40").env("REDRIVE_URL", "http://elsewhere").env("REDRIVE_KEY", "rdk_secret");
        other.env("CLICOLOR_FORCE", "1").env("REDRIVE_DATA", "/srv").env_remove("NO_COLOR");
        let elsewhere = text(&other.args(["generate", what]).output().unwrap());
        assert!(plain.len() > 500, "{what}: {plain}");
        assert_eq!(plain, elsewhere, "{what}");
    }
}

#[test]
fn classify_asks_the_rules_of_the_configuration_first() {
    let folder = folder();
    let config = "[[rule]]\nname = 'mine'\nmatch.queue = 'mail'\nreason = 'x:mine'\nfingerprint = 'my group'\n";
    std::fs::write(folder.path().join("rules.toml"), config).unwrap();
    let lines = concat!(
        r#"{"id":1,"text":"Request timed out","queue":"mail","agent":5}"#,
        "\n",
        r#"{"id":2,"text":"Request timed out","queue":null}"#,
        "\n"
    );
    std::fs::write(folder.path().join("lines.jsonl"), lines).unwrap();
    let classify = |extra: &[&str]| {
        let args = ["classify", "lines.jsonl", "--config", "rules.toml"];
        redrive().current_dir(folder.path()).args(args).args(extra).output().unwrap()
    };
    let answers = text(&classify(&[]));
    let mut answers = answers.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ruled = answers.next().unwrap();
    assert_eq!(
        (&ruled["label"], &ruled["rule"], &ruled["template"]),
        (&"x:mine".into(), &"user.mine".into(), &"my group".into())
    );
    assert_eq!(answers.next().unwrap()["label"], "timeout");
    assert!(text(&classify(&["--explain"])).contains("rule user.mine comes first"));
    std::fs::write(folder.path().join("rules.toml"), format!("{config}[[rule]]\n")).unwrap();
    let (code, complaint) = refusal(&classify(&[]));
    assert_eq!(
        (code, complaint.as_str()),
        (Some(1), "redrive: rules.toml:6:1: it has no condition and would match every failure\n")
    );
}

#[test]
fn classify_answers_each_line_and_names_the_bad_ones() {
    let mut child =
        redrive().arg("classify").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = concat!(
        r#"{"id":"a","text":"Request timed out after 30 s","http_status":null,"error_type":"APITimeoutError","x":1}"#,
        "\nnonsense\n",
        r#"{"id":"b","text":"Request timed out after 45 s","error_type":"APITimeoutError"}"#,
        "\n",
    );
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answers: Vec<serde_json::Value> =
        String::from_utf8(output.stdout.clone()).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(
        (&answers[0]["id"], &answers[0]["label"], &answers[0]["category"]),
        (&"a".into(), &"timeout".into(), &"transient".into())
    );
    assert_eq!(answers[0]["group"], answers[1]["group"]);
    assert_eq!(answers[0].as_object().unwrap().len(), 6);
    let (code, complaint) = refusal(&output);
    assert_eq!(code, Some(1));
    assert!(complaint.starts_with("redrive: line 2: "), "{complaint}");
    assert_eq!(complaint.lines().count(), 1);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let shell = format!("'{}' generate cli | head -n 1", env!("CARGO_BIN_EXE_redrive"));
    let output = std::process::Command::new("bash").args(["-o", "pipefail", "-c", &shell]).output().unwrap();
    assert_eq!(text(&output), "# The command line\n");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_command_without_a_key_says_what_to_do() {
    let (code, complaint) = refusal(&redrive().args(["runs", "list"]).output().unwrap());
    assert_eq!(code, Some(2));
    assert!(complaint.contains("REDRIVE_KEY") && complaint.lines().count() == 1, "{complaint}");
}

#[test]
fn unreachable_server_is_reported_in_one_line() {
    let output = redrive().args(["runs", "list", "--url", "http://127.0.0.1:9", "--key", "k"]).output().unwrap();
    let (code, complaint) = refusal(&output);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("no answer from http://127.0.0.1:9") && complaint.lines().count() == 1, "{complaint}");
}

#[test]
fn wrong_use_ends_with_two() {
    for args in [&["runs"][..], &["runs", "list", "--state", "gone"], &["keys", "create"], &["nonsense"]] {
        assert_eq!(redrive().args(args).output().unwrap().status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn keys_never_makes_a_store() {
    let folder = folder();
    let output = redrive().current_dir(folder.path()).args(["keys", "create", "--role", "worker"]).output().unwrap();
    let (code, complaint) = refusal(&output);
    assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn invalid_configuration_refuses_to_start_and_names_the_line() {
    let folder = folder();
    std::fs::write(folder.path().join("redrive.toml"), "[server]\nlisten = '127.0.0.1:0'\ngrace = 5\n").unwrap();
    let (code, complaint) = refusal(&redrive().current_dir(folder.path()).arg("serve").output().unwrap());
    assert_eq!(code, Some(1));
    assert_eq!(complaint, "redrive: redrive.toml:3:1: unknown key `grace` in [server]; did you mean `grace_ms`?\n");
    assert!(!folder.path().join("redrive-data").exists());
    let missing = redrive().current_dir(folder.path()).args(["serve", "--config", "no.toml"]).output().unwrap();
    assert!(refusal(&missing).1.starts_with("redrive: no.toml: "));
}

#[test]
fn preflight_says_whether_a_payload_fits_and_exits_accordingly() {
    let folder = folder();
    let ask = |payload: &str, args: &[&str]| {
        std::fs::write(folder.path().join("payload"), payload).unwrap();
        redrive().current_dir(folder.path()).args(["preflight", "payload"]).args(args).output().unwrap()
    };
    let chat = |words: usize| {
        let old = "old ".repeat(words);
        format!(
            r#"{{"model":"gpt-4o","messages":[{{"role":"user","content":"{old}"}},{{"role":"user","content":"now"}}]}}"#
        )
    };
    let fits = text(&ask(&chat(10), &[]));
    assert!(fits.starts_with("ok: About ") && fits.contains("/messages/0"), "{fits}");

    let too_long = ask(&chat(200_000), &["--json"]);
    assert_eq!(too_long.status.code(), Some(1), "what does not fit is not well");
    let answer: serde_json::Value = serde_json::from_slice(&too_long.stdout).unwrap();
    assert_eq!((&answer["verdict"], &answer["largest"]["pointer"]), (&"compress".into(), &"/messages/0".into()));

    let unknown = text(&ask("any text at all", &["--model", "house-model"]));
    assert!(unknown.starts_with("warn: ") && unknown.contains("are unknown"), "{unknown}");

    let config =
        "[[model]]\nname = 'house-model'\ncontext_tokens = 10\n[queue.jobs]\npayload = { messages = '/turns' }\n";
    std::fs::write(folder.path().join("c.toml"), config).unwrap();
    let words = "one ".repeat(20);
    let known = ask(&words, &["--model", "house-model", "--config", "c.toml", "--json"]);
    let known: serde_json::Value = serde_json::from_slice(&known.stdout).unwrap();
    assert_eq!((&known["verdict"], &known["budget"]["context_tokens"]), (&"split".into(), &10.into()));
    let turns = text(&ask(r#"{"turns":["one","two"]}"#, &["--queue", "jobs", "--config", "c.toml"]));
    assert!(turns.contains("/turns/0"), "{turns}");

    std::fs::write(folder.path().join("c.toml"), "[[model]]\nname = 'm'\ncontext_tokens = 0\n").unwrap();
    let (code, complaint) = refusal(&ask("x", &["--config", "c.toml"]));
    assert_eq!(code, Some(1));
    assert_eq!(complaint, "redrive: c.toml:3:18: model `m`: `context_tokens` must be from 1 to 1000000000\n");
}

#[test]
fn wrong_or_oversized_file_is_refused_in_one_line() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("folder")).unwrap();
    let large = std::fs::File::create(at("large")).unwrap();
    large.set_len(1 << 30).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let said = |args: &[&str]| {
        let (code, complaint) = refusal(&redrive().current_dir(folder.path()).args(args).output().unwrap());
        assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{args:?}: {complaint}");
        complaint.trim_end().to_owned()
    };
    for kind in ["/dev/zero", "pipe", "folder"] {
        let not_regular = format!("redrive: {kind}: not a regular file");
        assert_eq!(said(&["serve", "--log", "off", "--config", kind]), not_regular);
        assert_eq!(said(&["classify", "--config", kind]), not_regular);
        assert_eq!(said(&["preflight", "--model", "gpt-4o", kind]), not_regular);
        assert_eq!(said(&["runs", "plan", "r1", "--fix-file", kind]), not_regular);
        assert_eq!(said(&["runs", "plan", "r1", "--patch", kind]), not_regular);
    }
    assert_eq!(said(&["serve", "--log", "off", "--config", "large"]), "redrive: large: larger than 1 MiB");
    assert_eq!(said(&["preflight", "--model", "gpt-4o", "large"]), "redrive: large: larger than 64 MiB");
    assert_eq!(said(&["runs", "plan", "r1", "--fix-file", "large"]), "redrive: large: larger than 64 MiB");
    assert_eq!(said(&["classify", "/dev/zero"]), "redrive: line 1: larger than 64 MiB");
    std::fs::write(at("redrive.toml"), "[queue.mail]\noutput_schema_file = '/dev/zero'\n").unwrap();
    assert!(said(&["serve", "--log", "off"]).contains("/dev/zero: not a regular file"));
}

#[test]
fn a_pipe_in_a_spool_is_passed_over() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("spool")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(folder.path().join("spool/1.spool")).status().unwrap().success());
    let args = ["spool", "send", "--dir", "spool", "--key", "rdk_nobody"];
    let sent = redrive().current_dir(folder.path()).args(args).output().unwrap();
    assert_eq!(text(&sent), "0 reports sent, 0 files done\n1 file for another server\n");
}
