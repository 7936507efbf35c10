//! Frozen servers and databases, clocks that are set, outages: live attempts survive, and time away spends no attempt.

use std::path::Path;
use std::process::Command;

use redrive_core::time::Timestamp;
use serde_json::Value;

use crate::common::http::Http;
use crate::common::inside::{self, number};
use crate::common::{now, wait_until};
use crate::support::{Server, database, folder, serve, wait_for};

const ATTEMPTS: usize = 30;
const LEASE_MS: u64 = 2_000;
/// Longer than a lease, and than the gap after which nobody counts as being there.
const FROZEN_MS: u64 = 6_000;
const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;

struct Attempt {
    run_id: String,
    lease: String,
}

/// Attempts under way, every second of them with an effect that is open.
fn begin(http: &mut Http, count: usize) -> Vec<Attempt> {
    let one = |n| {
        let run_id = format!("alive{n}");
        let body = format!(r#"{{"tenant":"acme","run_id":"{run_id}","mode":"start","lease_ms":{LEASE_MS}}}"#);
        let lease = http.post("/v1/runs", body).unwrap().json()["lease"].as_str().unwrap().to_owned();
        if n % 2 == 0 {
            let step = format!(r#"{{"lease":"{lease}","name":"charge","effect":true,"status":"started"}}"#);
            let said = http.post(&format!("/v1/runs/{run_id}/steps?tenant=acme"), step).unwrap();
            assert_eq!(said.status, 200, "{}", said.text);
        }
        Attempt { run_id, lease }
    };
    (0..count).map(one).collect()
}

/// Every worker is heard once more, as soon as anybody listens.
fn all_beat(http: &mut Http, attempts: &[Attempt]) {
    for Attempt { run_id, lease } in attempts {
        let path = format!("/v1/runs/{run_id}/heartbeat?tenant=acme");
        let body = format!(r#"{{"lease":"{lease}"}}"#);
        // A connection may have gone with the freeze, and a database that comes back is away a little longer.
        let said = wait_for("an answer to a heartbeat", || {
            http.post(&path, &body).ok().filter(|said| said.status != 503 && said.status != 500)
        });
        assert_eq!(said.status, 200, "{run_id}: {}", said.text);
    }
}

fn shown(http: &mut Http, run_id: &str) -> Value {
    http.get(&format!("/v1/runs/{run_id}?tenant=acme")).unwrap().json()
}

/// A run that goes silent now still gets a verdict.
fn silence_is_found(http: &mut Http, run_id: &str) {
    let body =
        format!(r#"{{"tenant":"acme","run_id":"{run_id}","mode":"start","lease_ms":500,"deadline_ms":864000000}}"#);
    assert_eq!(http.post("/v1/runs", body).unwrap().status, 201);
    let quiet = wait_for("a verdict on silence", || {
        let shown = shown(http, run_id);
        (shown["state"] != "running").then_some(shown)
    });
    assert_eq!((&quiet["state"], &quiet["reason"]), (&"scheduled".into(), &"silent".into()), "{quiet}");
}

fn signal(name: &str, pids: &str) {
    let sent = Command::new("kill").arg(name).args(pids.split_whitespace()).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_frozen_server_ends_no_live_attempt() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, server.key.as_ref().unwrap());
    let attempts = begin(&mut http, ATTEMPTS);
    for _ in 0..3 {
        server.signal("-STOP");
        wait_until("all leases to have run out", now().plus_ms(FROZEN_MS));
        server.signal("-CONT");
        all_beat(&mut http, &attempts);
    }
    silence_is_found(&mut http, "quiet");
    inside::check(folder.path());
}

/// Of which the database is the only thing that comes back.
fn with_a_database_of_its_own(folder: &Path) -> Option<(private_postgres::Server, private_postgres::Database)> {
    // Where the suite is about PostgreSQL.
    private_postgres::is_meant(module_path!()).then(|| {
        let postgres = private_postgres::Server::start().unwrap();
        let database = private_postgres::Database::on(postgres.url()).unwrap();
        std::fs::write(folder.join("database"), database.url()).unwrap();
        (postgres, database)
    })
}

#[test]
fn a_database_that_was_away_ends_no_live_attempt() {
    let folder = folder();
    let Some((postgres, _database)) = with_a_database_of_its_own(folder.path()) else { return };
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, server.key.as_ref().unwrap());
    let attempts = begin(&mut http, ATTEMPTS);
    postgres.stop("immediate").unwrap();
    wait_until("all leases to have run out", now().plus_ms(FROZEN_MS));
    postgres.run().unwrap();
    all_beat(&mut http, &attempts);
    silence_is_found(&mut http, "quiet");
}

#[test]
fn a_frozen_database_ends_no_live_attempt() {
    let folder = folder();
    let server = Server::start(folder.path());
    let Some(url) = database(folder.path()) else { return };
    let mut http = Http::new(&server.url, server.key.as_ref().unwrap());
    let attempts = begin(&mut http, ATTEMPTS);
    let theirs = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let pids = private_postgres::sql(&url, theirs).unwrap();
    signal("-STOP", &pids);
    wait_until("all leases to have run out", now().plus_ms(FROZEN_MS));
    signal("-CONT", &pids);
    all_beat(&mut http, &attempts);
    silence_is_found(&mut http, "quiet");
}

#[test]
fn one_frozen_replica_ends_no_attempt_that_beats_elsewhere() {
    let folder = folder();
    let frozen = Server::start(folder.path());
    if database(folder.path()).is_none() {
        return;
    }
    let key = frozen.key.clone().unwrap();
    let attempts = begin(&mut Http::new(&frozen.url, &key), ATTEMPTS);
    let beside = Server::start(folder.path());
    let mut http = Http::new(&beside.url, &key);
    frozen.signal("-STOP");
    let thawed = now().plus_ms(FROZEN_MS);
    while now() < thawed {
        all_beat(&mut http, &attempts);
    }
    frozen.signal("-CONT");
    all_beat(&mut Http::new(&frozen.url, &key), &attempts);
    silence_is_found(&mut http, "quiet");
}

#[test]
fn a_clock_that_is_set_stops_nothing_and_ends_nothing() {
    let folder = folder();
    let offset = folder.path().join("offset");
    let mut command = serve(folder.path());
    let server = Server::of(command.env("REDRIVE_CLOCK_OFFSET_FILE", &offset)).unwrap();
    let mut http = Http::new(&server.url, server.key.as_ref().unwrap());
    for (n, off_ms) in [-HOUR_MS, DAY_MS, -DAY_MS, 0].into_iter().enumerate() {
        let body = format!(r#"{{"tenant":"acme","run_id":"alive{n}","mode":"start","lease_ms":5000}}"#);
        let lease = http.post("/v1/runs", body).unwrap().json()["lease"].as_str().unwrap().to_owned();
        // In one piece: the server may read it at any moment.
        let beside = folder.path().join("offset.new");
        std::fs::write(&beside, off_ms.to_string()).unwrap();
        std::fs::rename(&beside, &offset).unwrap();
        silence_is_found(&mut http, &format!("quiet{n}"));
        let attempt = Attempt { run_id: format!("alive{n}"), lease };
        all_beat(&mut http, std::slice::from_ref(&attempt));
        if database(folder.path()).is_none() {
            let health = http.get("/v1/health").unwrap().json();
            assert_eq!(health["status"], "attention");
            let by_ms = health["clock"]["by_ms"].as_i64().unwrap();
            assert_eq!(by_ms > 0, off_ms == DAY_MS, "{health}");
        }
        let end = format!(r#"{{"lease":"{}"}}"#, attempt.lease);
        let done = http.post(&format!("/v1/runs/alive{n}/succeed?tenant=acme"), end).unwrap();
        assert_eq!((done.short(), done.json()["late"].clone()), ((200, "succeeded".into()), false.into()));
    }
}

/// As if all of it had happened so long before.
fn age(folder: &Path, by_ms: i64) {
    let shift = format!(
        "UPDATE stamps SET at = at - {by_ms}; UPDATE absences SET since = since - {by_ms}, until = until - {by_ms};
         UPDATE runs SET due = due - {by_ms} WHERE due IS NOT NULL;"
    );
    match database(folder) {
        Some(url) => drop(private_postgres::sql(&url, &shift).unwrap()),
        None => {
            let conn = rusqlite::Connection::open(folder.join(inside::DATABASE)).unwrap();
            conn.execute_batch(&shift).unwrap();
        }
    }
}

#[test]
fn an_outage_of_a_day_leaves_the_backlog_waiting() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let mut http = Http::new(&server.url, &key);
    let settings = r#"{"owner":"us","policy":{"unclaimed_after_ms":1000}}"#;
    assert_eq!(http.send("PUT", "/v1/queues/impatient", "application/json", settings.as_bytes()).unwrap().status, 200);
    let enqueue = |http: &mut Http, run_id: &str, queue: &str| {
        let body = format!(r#"{{"tenant":"acme","run_id":"{run_id}","mode":"enqueue","queue":"{queue}"}}"#);
        let said = http.post("/v1/runs", body).unwrap();
        assert!(said.status < 300, "{}", said.text);
    };
    enqueue(&mut http, "impatient", "impatient");
    (0..20).for_each(|n| enqueue(&mut http, &format!("waits{n}"), "default"));
    let due = number(folder.path(), "SELECT max(due) FROM runs");
    // So long somebody was there, and did not begin it.
    wait_for("stamps of more than a second", || {
        (number(folder.path(), "SELECT coalesce(max(at), 0) FROM stamps") > due + 1_500).then_some(())
    });
    server.kill();
    age(folder.path(), 25 * HOUR_MS);
    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, &key);
    let late = wait_for("the look for what nobody begins", || {
        let shown = shown(&mut http, "impatient");
        (shown["state"] == "dead").then_some(shown)
    });
    assert_eq!(late["reason"], "unclaimed");
    let waiting = number(folder.path(), "SELECT count(*) FROM runs WHERE due IS NOT NULL");
    assert_eq!(waiting, 20, "time without a server does not count");
}

/// Longer than the gap after which we know that none of us was there.
const AWAY_MS: u64 = 4_000;

#[test]
fn lease_expired_during_downtime_is_extended_once() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let mut http = Http::new(&server.url, &key);
    let mut begin = |run_id: &str| {
        let body = format!(r#"{{"tenant":"acme","run_id":"{run_id}","mode":"start","lease_ms":2500}}"#);
        let begun = http.post("/v1/runs", body).unwrap().json();
        (begun["lease"].as_str().unwrap().to_owned(), begun["lease_expires_at"].as_str().unwrap().parse().unwrap())
    };
    let (alive, _): (String, Timestamp) = begin("alive");
    let (_, expires): (String, Timestamp) = begin("quiet");
    server.kill();
    wait_until("the lease to have run out while nobody was there", expires.max(now().plus_ms(AWAY_MS)));

    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, &key);
    let done = http.post("/v1/runs/alive/succeed?tenant=acme", format!(r#"{{"lease":"{alive}"}}"#)).unwrap();
    assert_eq!((done.short(), done.json()["late"].clone()), ((200, "succeeded".into()), false.into()));

    let quiet = wait_for("a verdict on the one that stayed quiet", || {
        let shown = http.get("/v1/runs/quiet?tenant=acme").unwrap().json();
        (shown["state"] != "running").then_some(shown)
    });
    assert_eq!((&quiet["state"], &quiet["reason"]), (&"scheduled".into(), &"silent".into()));
    let failed: Timestamp = quiet["attempts"][0]["recorded_at"].as_str().unwrap().parse().unwrap();
    assert!(failed > expires.plus_ms(AWAY_MS - 2_500), "its lease was extended first");
    assert_eq!((quiet["attempt"].as_u64(), quiet["attempts"].as_array().unwrap().len()), (Some(1), 1));
}
