//! B1 across server kills: an open breaker stays open, a running probe keeps the one slot, and after its end another
//! follows.

use serde_json::Value;

use crate::common::http::Http;
use crate::common::lot::{self, Lot};
use crate::support::{Server, folder, serve, wait_for};

const ROUNDS: usize = 12;
const WAITING: usize = 20;
const CALLERS: usize = 4;
const CONFIG: &str = "[defaults.breaker]\nmin_attempts = 2\nopen_ms = 1000\nopen_max_ms = 1000\n";

struct Ground {
    folder: tempfile::TempDir,
    server: Option<Server>,
    key: String,
    lease_ms: u64,
    runs: usize,
}

impl Ground {
    fn open(lease_ms: u64) -> Self {
        let folder = folder();
        std::fs::write(folder.path().join("redrive.toml"), CONFIG).unwrap();
        let server = Server::of(serve(folder.path()).args(["--config", "redrive.toml"])).unwrap();
        let key = server.key.clone().unwrap();
        Self { folder, server: Some(server), key, lease_ms, runs: 0 }
    }

    fn http(&self) -> Http {
        Http::new(&self.server.as_ref().unwrap().url, &self.key)
    }

    fn killed_and_started(&mut self) {
        self.server.take().unwrap().kill();
        let again = Server::of(serve(self.folder.path()).args(["--config", "redrive.toml"]));
        self.server = Some(again.unwrap());
    }

    fn new_run(&mut self, mode: &str) -> (String, Value) {
        self.runs += 1;
        let run = format!("r{}", self.runs);
        let body = format!(r#"{{"tenant":"acme","run_id":"{run}","mode":"{mode}","lease_ms":60000}}"#);
        (run, self.http().post("/v1/runs", body).unwrap().json())
    }

    /// Closed where none is shown.
    fn breaker(&self) -> Value {
        let shown = self.http().get("/v1/breakers").unwrap().json();
        shown["breakers"].get(0).cloned().unwrap_or_default()
    }

    fn breaks(&mut self) {
        for _ in 0..2 {
            let (run, begun) = self.new_run("start");
            let body = format!(r#"{{"lease":{},"error":{{"message":"Request timed out"}}}}"#, begun["lease"]);
            assert_eq!(self.http().post(&format!("/v1/runs/{run}/fail?tenant=acme"), body).unwrap().status, 200);
        }
        assert_eq!(self.breaker()["state"], "open");
    }

    /// What several callers get who all ask at once.
    fn asked_at_once(&self) -> Vec<Value> {
        let body = format!(r#"{{"queues":["*"],"max":10,"lease_ms":{}}}"#, self.lease_ms);
        std::thread::scope(|threads| {
            let callers: Vec<_> = (0..CALLERS)
                .map(|_| threads.spawn(|| self.http().post("/v1/leases", &body).unwrap().json()["leases"].take()))
                .collect();
            callers.into_iter().flat_map(|caller| caller.join().unwrap().as_array().unwrap().clone()).collect()
        })
    }

    /// Looks until somebody gets through, and that is one.
    fn probe(&self) -> Value {
        let mut given = wait_for("a probe", || Some(self.asked_at_once()).filter(|given| !given.is_empty()));
        assert_eq!(given.len(), 1, "{given:?}");
        given.remove(0)
    }

    fn end(&self, probe: &Value, verb: &str, more: &str) -> u16 {
        let body = format!(r#"{{"lease":{}{more}}}"#, probe["lease"]);
        let run = probe["run_id"].as_str().unwrap();
        self.http().post(&format!("/v1/runs/{run}/{verb}?tenant=acme"), body).unwrap().status
    }
}

#[test]
fn one_probe_goes_however_often_the_server_is_killed() {
    let lot = Lot::new(lot::seed());
    let mut ground = Ground::open(60_000);
    for _ in 0..ROUNDS {
        if ground.breaker()["state"] != "open" {
            ground.breaks();
        }
        for _ in 0..3 {
            ground.new_run("enqueue");
        }
        let before = ground.breaker();
        ground.killed_and_started();
        let after = ground.breaker();
        if after["state"] == "open" {
            let told = |breaker: &Value| ["name", "until", "tries", "since"].map(|field| breaker[field].clone());
            assert_eq!(told(&after), told(&before), "the opening survives as it was");
        }
        let probe = ground.probe();
        ground.killed_and_started();
        assert_eq!(ground.asked_at_once(), [] as [Value; 0], "the slot is taken");
        let stands = ground.breaker();
        assert_eq!((&stands["state"], &stands["probing"]), (&"half_open".into(), &true.into()));
        if lot.one_in(2) {
            assert_eq!(ground.end(&probe, "succeed", ""), 200);
            assert_eq!(ground.breaker(), Value::Null, "closed, and nothing counted");
        } else {
            assert_eq!(ground.end(&probe, "fail", r#","error":{"message":"Request timed out"}"#), 200);
            assert_eq!(ground.breaker()["state"], "open");
        }
    }
    println!("{} kills, {ROUNDS} probes", 2 * ROUNDS);
}

#[test]
fn lost_probe_is_replaced_after_restart() {
    // The shortest lease there is: who crashed is missed soon.
    let mut ground = Ground::open(500);
    ground.breaks();
    for _ in 0..WAITING {
        ground.new_run("enqueue");
    }
    let first = ground.probe();
    ground.killed_and_started();
    assert_eq!(ground.breaker()["state"], "half_open", "what was found out before the kill is known after it");
    let second = ground.probe();
    assert_ne!(first["lease"], second["lease"]);
    assert_eq!(ground.end(&second, "succeed", ""), 200);
    assert_eq!(ground.breaker(), Value::Null, "closed, and nothing counted");
    // Nothing that it held is lost.
    let mut seen = vec![second["run_id"].clone()];
    wait_for("all that waited", || {
        for leased in ground.asked_at_once() {
            assert_eq!(ground.end(&leased, "succeed", ""), 200);
            seen.push(leased["run_id"].clone());
        }
        let open = ground.http().get("/v1/runs?tenant=acme&state=scheduled,running").unwrap().json();
        (open["total"] == 0).then_some(())
    });
    assert_eq!(seen.len(), WAITING + 2, "each once but for the probe that died: {seen:?}");
}
