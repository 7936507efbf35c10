//! Runs by command line and SDK: report, list, show, triage.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should say where")]

mod support;

use std::path::Path;
use std::time::Duration;

use redrive_client::core::ids::RunId;
use redrive_client::core::run::StateName;
use redrive_client::core::time::Timestamp;
use redrive_client::wire::{FailureReport, LeaseRequest};
use redrive_client::{Client, StartOutcome, failure, start};
use support::{Follower, Server, folder, json, new_key, refusal, text, wait_for};

struct House {
    server: Server,
    worker: Client,
    person: String,
}

fn house(folder: &Path) -> House {
    let server = Server::start(folder);
    let key = |role: &str| new_key(folder, &["--role", role, "--tenant", "acme"])["key"].as_str().unwrap().to_owned();
    let (worker, person) = (key("worker"), key("tenant"));
    wait_for("both keys", || server.cli(&person, &["runs", "list"]).status.success().then_some(()));
    let worker = Client::new(&server.url, &worker).unwrap();
    House { server, worker, person }
}

impl House {
    fn cli(&self, args: &[&str]) -> std::process::Output {
        self.server.cli(&self.person, args)
    }

    /// By the server's own clock, which is the one that leases run by.
    fn wait_until_the_server_is_older_by(&self, ms: u64) {
        let now = || -> Timestamp { json(&self.cli(&["health", "--json"]))["now"].as_str().unwrap().parse().unwrap() };
        let until = now().plus_ms(ms);
        wait_for("time to pass", || (now() >= until).then_some(()));
    }

    fn state(&self, run_id: &str) -> String {
        json(&self.cli(&["runs", "show", run_id, "--json"]))["state"].as_str().unwrap().to_owned()
    }
}

fn id(run_id: &str) -> RunId {
    run_id.parse().unwrap()
}

fn refused_key(run_id: &str, message: &str) -> FailureReport {
    let mut report = failure(id(run_id), message);
    report.queue = Some("mail".parse().unwrap());
    report.error.http_status = Some(401);
    report.error.error_type = Some("AuthenticationError".into());
    report.payload = Some(serde_json::value::RawValue::from_string(r#"{"n":12345678901234567890.10}"#.into()).unwrap());
    report
}

#[tokio::test]
async fn a_dead_letter_is_read_replayed_leased_and_recovered() {
    let folder = folder();
    let house = house(folder.path());
    let answer = house.worker.report(&refused_key("task-1", "Invalid API key provided")).await.unwrap();
    assert_eq!(answer.state, StateName::Dead);

    let list = text(&house.cli(&["runs", "list", "--state", "dead"]));
    assert!(list.contains("task-1") && list.contains("auth_failed") && list.starts_with("RUN"), "{list}");
    assert_eq!(text(&house.cli(&["runs", "list", "--state", "review"])), "no runs\n");
    let page = text(&house.cli(&["runs", "show", "task-1"]));
    for part in
        ["dead (permanent)", "Advised:", "ATTEMPTS", "HTTP 401", "12345678901234567890.10", "runs replay task-1"]
    {
        assert!(page.contains(part), "{part} is not in:\n{page}");
    }

    let replayed = text(&house.cli(&["runs", "replay", "task-1", "--reason", "the key was rotated"]));
    assert_eq!(replayed, "task-1  scheduled\n");
    let due = LeaseRequest {
        tenant: None,
        queues: vec!["mail".into()],
        agents: None,
        versions: Default::default(),
        max: Some(1),
        wait_ms: Some(5_000),
        lease_ms: Some(5_000),
        worker: Some("w1".into()),
        request_id: None,
    };
    let leased = house.worker.lease(&due).await.unwrap().leases.remove(0);
    assert_eq!(leased.payload.as_ref().unwrap().get(), r#"{"n":12345678901234567890.10}"#);
    let done = house.worker.take(&leased, 5_000).succeed(&serde_json::json!({"sent": true})).await.unwrap();
    assert_eq!(done.state, StateName::Recovered);
    let page = text(&house.cli(&["runs", "show", "task-1"]));
    assert!(page.contains("the key was rotated") && page.contains("recovered"), "{page}");
}

#[tokio::test]
async fn verbs_take_several_runs_and_each_is_answered_alone() {
    let folder = folder();
    let house = house(folder.path());
    for run_id in ["a", "b", "c"] {
        house.worker.report(&refused_key(run_id, "Invalid API key provided")).await.unwrap();
    }
    assert_eq!(text(&house.cli(&["runs", "note", "a", "looked at it"])), "a  dead\n");
    assert_eq!(
        text(&house.cli(&["runs", "resolve", "a", "b", "--reason", "done by hand"])),
        "a  resolved\nb  resolved\n"
    );
    let mixed = house.cli(&["runs", "discard", "nobody", "c"]);
    let (code, complaint) = refusal(&mixed);
    assert_eq!(code, Some(1));
    assert!(complaint.starts_with("redrive: nobody: ") && complaint.contains("not_found"), "{complaint}");
    assert_eq!(house.state("c"), "discarded");
    let refused = refusal(&house.cli(&["runs", "replay", "c", "--reason", "again"])).1;
    assert_eq!(refused.lines().count(), 1, "{refused}");
}

#[tokio::test]
async fn a_batch_is_answered_report_by_report() {
    let folder = folder();
    let house = house(folder.path());
    let mut stranger = failure(id("b"), "x");
    stranger.tenant = Some("other".parse().unwrap());
    let reports = [failure(id("a"), "Request timed out"), stranger, failure(id("c"), "Request timed out")];
    let answers = house.worker.report_many(&reports).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap().state, StateName::Scheduled);
    assert_eq!(answers[1].as_ref().unwrap_err().code, "wrong_tenant");
    assert_eq!(answers[2].as_ref().unwrap().run_id, id("c"));
    let page = json(&house.cli(&["runs", "list", "--json", "--limit", "1", "--sort", "received", "--count"]));
    assert_eq!((page["runs"].as_array().unwrap().len(), &page["total"]), (1, &2.into()));
    assert_eq!(text(&house.cli(&["runs", "list", "--all"])).lines().count(), 3);
}

#[tokio::test]
async fn hostile_text_reaches_the_terminal_only_escaped() {
    let folder = folder();
    let house = house(folder.path());
    let hostile = "\u{1b}[2J\u{202e}gnp.exe\r\nsecond \u{0} line\u{7}";
    let mut report = refused_key("evil", hostile);
    report.agent = Some("\u{1b}]0;owned\u{7}".into());
    house.worker.report(&report).await.unwrap();
    // No program takes a NUL as an argument.
    text(&house.cli(&["runs", "note", "evil", &hostile.replace('\0', "")]));
    for args in [&["runs", "list"][..], &["runs", "show", "evil", "--full"], &["patterns", "list"]] {
        let shown = text(&house.cli(args));
        let unsafe_one = shown.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(unsafe_one, None, "{args:?}:\n{shown}");
    }
}

#[tokio::test]
async fn tail_prints_what_moves() {
    let folder = folder();
    let house = house(folder.path());
    let args = ["runs", "tail", "--every-ms", "100", "--json", "--state", "dead,resolved"];
    let tail = Follower::start(house.server.command(&house.person, &args));
    let mut line = None;
    // It begins with what moves after its first look: something new happens until it has looked.
    for n in 0..300 {
        house.worker.report(&refused_key(&format!("t-{n}"), "Invalid API key provided")).await.unwrap();
        line = tail.lines.recv_timeout(Duration::from_millis(100)).ok();
        if line.is_some() {
            break;
        }
    }
    let change: serde_json::Value = serde_json::from_str(&line.expect("a line")).unwrap();
    assert_eq!((&change["state"], &change["queue"]), (&"dead".into(), &"mail".into()));
}

// Two threads: this one waits while the heartbeats go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handle_keeps_its_lease_and_runs_an_effect_once() {
    let folder = folder();
    let house = house(folder.path());
    let mut request = start(id("job"));
    request.lease_ms = Some(1_500);
    request.resumable = Some(true);
    let run = house.worker.begin(request.clone()).await.unwrap().expect_begun().unwrap();
    let first = run.effect("pay", "job:pay", async { Ok::<_, std::io::Error>(41) }).await.unwrap();
    house.wait_until_the_server_is_older_by(2 * 1_500);
    assert!(!run.is_lost(), "heartbeats keep it");
    let failed = run.fail("connection reset by peer").await.unwrap();
    assert_eq!((first, failed.state), (41, StateName::Scheduled));

    assert!(house.cli(&["runs", "replay", "job", "--reason", "now"]).status.success());
    request.lease_ms = None;
    let run = house.worker.begin(request).await.unwrap().expect_begun().unwrap();
    let again = run.effect("pay", "job:pay", async { Ok::<_, std::io::Error>(99) }).await.unwrap();
    assert_eq!((again, run.attempt()), (41, 2));
    assert!(house.cli(&["runs", "cancel", "job", "--reason", "stop"]).status.success());
    let over = run.step("more", None, false, redrive_client::wire::StepStatus::Committed).await.unwrap_err();
    assert!(over.lease_is_over(), "{over}");
    assert_eq!(house.state("job"), "dead");
    let dead = house.worker.begin(start(id("job"))).await.unwrap_err();
    assert!(dead.code().is_some(), "{dead}");
    let done = house.worker.begin(start(id("done"))).await.unwrap().expect_begun().unwrap();
    done.succeed(&"ok").await.unwrap();
    assert!(matches!(house.worker.begin(start(id("done"))).await.unwrap(), StartOutcome::Closed(_)));
}

#[tokio::test]
async fn figures_are_readable() {
    let folder = folder();
    let house = house(folder.path());
    house.worker.report(&refused_key("task-1", "Invalid API key provided")).await.unwrap();
    let admin = house.server.key.clone().unwrap();
    assert!(text(&house.server.cli(&admin, &["tenants", "list"])).contains("acme"));
    let health = text(&house.cli(&["tenants", "health", "acme"]));
    assert!(health.starts_with("dead                           1\n"), "{health}");
    assert!(text(&house.cli(&["health"])).contains("dead 1"));
    assert!(text(&house.cli(&["stats", "--since", "2h"])).contains("auth_failed"));
    let patterns = json(&house.cli(&["patterns", "list", "--json"]));
    let pattern = patterns["patterns"][0]["id"].as_str().unwrap();
    assert!(text(&house.cli(&["patterns", "show", pattern])).contains("Invalid API key provided"));
    assert!(text(&house.cli(&["runs", "list", "--pattern", pattern])).contains("task-1"));
}

#[tokio::test]
async fn a_cause_is_taken_up_fixed_and_comes_back() {
    let folder = folder();
    let house = house(folder.path());
    let broken = async |run_id: &str, message: &str, worker: &str| {
        let mut report = refused_key(run_id, message);
        report.versions.insert("worker".into(), worker.into());
        house.worker.report(&report).await.unwrap().pattern.id
    };
    let pattern = broken("task-1", "Invalid API key provided", "v1").await;
    let told = text(&house.cli(&["patterns", "acknowledge", &pattern, "--reason", "on it"]));
    assert!(told.starts_with(&format!("{pattern}  acknowledged  1 open, 1 failures  ")), "{told}");
    text(&house.cli(&["patterns", "assign", &pattern, "ops"]));
    text(&house.cli(&["patterns", "note", &pattern, "the vault was sealed"]));
    text(&house.cli(&["patterns", "resolve", &pattern, "--in-version", "worker=v2"]));
    broken("task-2", "Invalid API key provided", "v1").await;
    assert!(text(&house.cli(&["patterns", "list", "--state", "resolved"])).contains(&pattern));
    broken("task-3", "Invalid API key provided", "v2").await;
    let page = text(&house.cli(&["patterns", "show", &pattern]));
    for part in ["regression", "owner        ops", "in worker=v2", "the vault was sealed", "run task-3", "█"] {
        assert!(page.contains(part), "{part} is not in:\n{page}");
    }
    text(&house.cli(&["patterns", "mute", &pattern, "--until", "8h"]));
    assert!(text(&house.cli(&["patterns", "list"])).contains("muted"));

    let other = broken("task-4", "the ledger is closed for the month", "v2").await;
    let merged = json(&house.cli(&["patterns", "merge", &pattern, &other, "--json"]));
    assert_eq!((merged["id"].as_str(), &merged["count"]), (Some(other.as_str()), &4.into()));
    let (code, complaint) = refusal(&house.cli(&["patterns", "mute", &pattern]));
    assert!(code == Some(1) && complaint.contains(&other), "{complaint}");
    text(&house.cli(&["patterns", "unmerge", &pattern]));
    assert_eq!(json(&house.cli(&["patterns", "show", &other, "--json"]))["count"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sent_payload_is_shown_with_its_changes() {
    let folder = folder();
    let house = house(folder.path());
    let mut report = failure(id("a"), "the tool said no \u{1b}[31m");
    report.error.reason = Some("tool_error".parse().unwrap());
    let payload = r#"{"messages":[{"role":"user","content":"Do it."}]}"#;
    report.payload = Some(serde_json::value::RawValue::from_string(payload.into()).unwrap());
    house.worker.report(&report).await.unwrap();
    text(&house.cli(&["runs", "replay", "a"]));
    let call = LeaseRequest { queues: vec!["*".into()], ..serde_json::from_str(r#"{"queues":[]}"#).unwrap() };
    let leased = house.worker.lease(&call).await.unwrap().leases;
    assert!(leased[0].changes[0].applied);

    let plain = text(&house.cli(&["runs", "show", "a", "--attempt", "1", "--diff"]));
    assert_eq!(plain, "attempt 1 of a, revision 1: the payload went out as it is\n");
    let shown = text(&house.cli(&["runs", "show", "a", "--attempt", "2", "--diff"]));
    assert!(shown.starts_with("attempt 2 of a, revision 1: the payload was changed\n  add_last_error"), "{shown}");
    assert!(shown.contains("+ /messages/1: ") && !shown.contains('\u{1b}'), "{shown}");
    let (code, _) = refusal(&house.cli(&["runs", "show", "a", "--attempt", "9"]));
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn what_a_person_decides_is_decided_by_command_line() {
    let folder = folder();
    let house = house(folder.path());
    for run in ["task-1", "task-2"] {
        house.worker.report(&refused_key(run, "Invalid API key provided")).await.unwrap();
    }
    let told = |args: &[&str]| text(&house.cli(args));
    assert_eq!(told(&["runs", "review", "task-1", "--reason", "odd"]), "task-1  review\n");
    let page = told(&["runs", "show", "task-1"]);
    assert!(page.contains("IN REVIEW") && page.contains("redrive runs approve task-1"), "{page}");
    let hash = json(&house.cli(&["runs", "plan", "task-1", "--json"]))["hash"].as_str().unwrap().to_owned();
    let (code, own) = refusal(&house.cli(&["runs", "approve", "task-1", "--plan-hash", &hash]));
    assert!(code == Some(1) && own.contains("own_request"), "{own}");
    assert_eq!(told(&["runs", "reject", "task-1"]), "task-1  dead\n");
    assert_eq!(told(&["runs", "defer", "task-1", "--until", "8h"]), "task-1  dead\n");
    assert!(!told(&["runs", "list"]).contains("task-1"));
    assert_eq!(told(&["runs", "assign", "task-1", "--to", "mia"]), "task-1  dead\n");
    assert!(told(&["runs", "list", "--assigned-to", "mia", "--state", "dead"]).contains("task-1"));
    assert_eq!(told(&["runs", "reassign", "task-1", "--agent", "other"]), "task-1  dead\n");
    let alike = told(&["runs", "duplicates", "task-1"]);
    assert!(alike.contains("task-2") && alike.contains("payload and failure"), "{alike}");
    assert_eq!(told(&["runs", "merge", "task-1", "--into", "task-2"]), "task-1  merged\n");
    assert_eq!(told(&["runs", "unmerge", "task-1"]), "task-1  dead\n");
    let fix = folder.path().join("fix.json");
    std::fs::write(&fix, r#"{"n":1.50}"#).unwrap();
    let fix = fix.to_str().unwrap();
    assert_eq!(
        told(&["runs", "replay", "task-1", "--fix-file", fix, "--instruction", "slowly", "--model", "larger"]),
        "task-1  scheduled\n"
    );
    let diff = told(&["runs", "show", "task-1", "--revision", "2", "--diff"]);
    assert!(diff.contains("- 12345678901234567890.10") && diff.contains("+ 1.50"), "{diff}");
    let (code, usage) = refusal(&house.cli(&["runs", "reassign", "task-1"]));
    assert!(code == Some(2) && usage.contains("--agent"), "{usage}");
}
