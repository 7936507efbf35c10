//! Secrets and untrusted text: keys and payloads never reach logs, errors or pages, and no text controls the terminal.

use std::fs::File;

use crate::common::http::Http;
use crate::common::{key_for, now};
use crate::support::{Server, folder, redrive, serve, text, wait_for};

const CANARY: &str = "canary-5f1c9e7a";

/// A report that carries the canary everywhere but in the words of the error, which people are meant to read.
fn report(run_id: &str, terminal: bool) -> String {
    format!(
        r#"{{"run_id":"{run_id}","payload":{{"secret":"{CANARY}"}},"headers":{{"authorization":"{CANARY}"}},
            "error":{{"message":"boom","detail":"{CANARY}","headers":{{"x":"{CANARY}"}},"terminal":{terminal}}},
            "response":{{"status":500,"headers":{{"set-cookie":"{CANARY}"}},"body":"{CANARY}"}},
            "partial_output":"{CANARY}","steps":[{{"name":"load","status":"committed","effect":false,"output":"{CANARY}"}}]}}"#
    )
}

#[test]
fn keys_and_payloads_stay_out_of_logs_errors_and_pages() {
    let folder = folder();
    let log = folder.path().join("log");
    let mut command = serve(folder.path());
    command.args(["--log", "trace"]).stderr(File::create(&log).unwrap());
    let server = Server::of(&mut command).unwrap();
    let admin = server.key.clone().unwrap();
    let worker = key_for(folder.path(), &server, "worker", "acme");
    let person = key_for(folder.path(), &server, "tenant", "acme");
    let mut said = String::new();

    let mut http = Http::new(&server.url, &worker);
    assert_eq!(http.post("/v1/failures", report("a", true)).unwrap().status, 201);
    for body in [
        report("a", false).replace("boom", "bang").replace(r#""run_id""#, r#""attempt":1,"run_id""#),
        report("a b", false),
        report("a", false).replace("partial_output", "unknown_field"),
        report("b", false).replace(r#""terminal":false"#, r#""terminal":"no""#),
        report("b", false)[..300].to_owned(),
    ] {
        let refused = http.post("/v1/failures", body).unwrap();
        assert!(refused.status >= 400, "{}", refused.text);
        said += &refused.text;
    }
    let started = http.post("/v1/runs", format!(r#"{{"run_id":"a","mode":"start","payload":"{CANARY}"}}"#)).unwrap();
    said += &started.text;
    let mut http = Http::new(&server.url, &person);
    for path in ["/v1/runs", "/v1/patterns", "/v1/health", "/v1/stats", "/v1/changes", "/v1/nothing", "/v1/keys"] {
        said += &http.get(path).unwrap().text;
    }
    let mut http = Http::new(&server.url, &admin);
    for path in ["/metrics", "/v1/keys", "/v1/tenants", "/v1/queues", "/healthz", "/readyz", "/openapi.json"] {
        said += &http.get(path).unwrap().text;
    }
    for wrong in [format!("{worker}x"), worker.replace("rdk_", "rdx_"), worker[..20].to_owned(), CANARY.to_owned()] {
        let refused = Http::new(&server.url, &wrong).get("/v1/limits").unwrap();
        assert_eq!(refused.short(), (401, "unauthorized".into()));
        said += &refused.text;
    }
    server.signal("-TERM");
    said += &server.ended().1;

    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("listening") && logged.contains("stopping"), "{logged}");
    for (what, secret) in
        [("payload", CANARY), ("admin", &admin[8..]), ("worker", &worker[8..]), ("tenant", &person[8..])]
    {
        let line = logged.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "a secret of {what} is in the log");
        assert!(!said.contains(secret), "a secret of {what} is in an answer");
    }
    let visible = redrive().current_dir(folder.path()).args(["keys", "list", "--data", "data", "--json"]).output();
    assert!(!text(&visible.unwrap()).contains(&worker[8..]));
    let kept = std::fs::read(folder.path().join("data/redrive.db")).unwrap();
    let holds = |secret: &str| kept.windows(secret.len()).any(|window| window == secret.as_bytes());
    assert!(!holds(&worker[8..]) && !holds(&admin[8..]), "only a hash is kept");
}

#[test]
fn revoked_key_is_refused_within_a_second() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = key_for(folder.path(), &server, "tenant", "acme");
    let id = crate::support::json(
        &redrive().current_dir(folder.path()).args(["keys", "list", "--data", "data", "--json"]).output().unwrap(),
    );
    let listed = id.as_array().or_else(|| id["keys"].as_array()).unwrap();
    let mine = listed.iter().find(|one| one["role"] == "tenant").unwrap()["id"].as_str().unwrap().to_owned();
    let mut http = Http::new(&server.url, &key);
    assert_eq!(http.get("/v1/limits").unwrap().status, 200);
    let revoke = redrive().current_dir(folder.path()).args(["keys", "revoke", "--data", "data", &mine]).output();
    text(&revoke.unwrap());
    let revoked = now();
    let after = |since: u64| now() > revoked.plus_ms(since);
    wait_for("well past the second", || {
        let late = after(1_000);
        let status = http.get("/v1/limits").unwrap().status;
        assert!(!late || status == 401, "sent more than a second after the revocation, and answered {status}");
        after(1_500).then_some(())
    });
}

#[test]
fn untrusted_text_never_controls_the_terminal() {
    let folder = folder();
    let server = Server::start(folder.path());
    let worker = key_for(folder.path(), &server, "worker", "acme");
    let person = key_for(folder.path(), &server, "tenant", "acme");
    let odd = r#""\u001b[2J\u001b]0;owned\u0007 <script>alert(1)</script> \u202egnp.exe \u0000 \u009b31m \r\nroot#""#;
    let body = format!(
        r#"{{"run_id":"a","agent":{odd},"customer":{odd},"model":{odd},"tool":{odd},"step":{odd},"payload":{odd},
            "links":{{"l":{odd}}},"error":{{"type":{odd},"message":{odd},"detail":{odd},"terminal":true}}}}"#
    );
    assert_eq!(Http::new(&server.url, &worker).post("/v1/failures", body).unwrap().status, 201);
    text(&server.cli(&person, &["runs", "note", "a", "seen \u{1b}[31m\u{202e}"]));
    // JSON in a pipe is the API's own; on a terminal it is escaped (see `out`).
    let commands: [&[&str]; 5] =
        [&["runs", "list"], &["runs", "show", "a"], &["patterns", "list"], &["health"], &["tenants", "list"]];
    for args in commands {
        let shown = text(&server.cli(&person, args));
        let harmful =
            |c: &char| c.is_control() && *c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert_eq!(shown.chars().find(harmful), None, "{args:?}: {shown:?}");
    }
    let shown = text(&server.cli(&person, &["runs", "show", "a"]));
    assert!(shown.contains("<script>alert(1)</script>"), "as text: {shown}");
    let refused = server.cli(&person, &["runs", "show", "\u{1b}[31m"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!said.contains('\u{1b}'), "{said:?}");
}
