//! The story of ten thousand runs that died of one bug, with the workers that take them up again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::charge::{Scene, is_as_written, read, words};
use crate::common::http::{Answer, Http};
use crate::common::inside;
use crate::support::{Server, folder, text, wait_for};

const TENANTS: [&str; 5] = ["north", "south", "east", "west", "centre"];
const RUNS: usize = 10_000;

#[test]
fn ten_thousand_runs_that_died_of_one_bug_are_recovered() {
    let mut play = Play::begin();
    for scene in read(include_str!("../../../../docs/stories/redrive-ten-thousand.md")) {
        match scene {
            Scene::Stage(name) => play.stage(&name),
            Scene::Command { line, prints } => {
                let words = words(&line);
                let args: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
                let printed = text(&play.server().cli(&play.key, &args));
                assert!(
                    is_as_written(&printed, &prints),
                    "{line}\nprinted:\n{printed}\nwritten:\n{}",
                    prints.join("\n")
                );
            }
        }
    }
}

struct Play {
    folder: TempDir,
    server: Option<Server>,
    key: String,
    fleet: Option<Fleet>,
}

impl Play {
    fn begin() -> Self {
        let folder = folder();
        let server = Server::start(folder.path());
        let key = server.key.clone().unwrap();
        Self { folder, server: Some(server), key, fleet: None }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn http(&self) -> Http {
        Http::new(&self.server().url, &self.key)
    }

    fn stage(&mut self, name: &str) {
        match name {
            "ten thousand die" => self.ten_thousand_die(),
            "broken workers" => self.fleet = Some(Fleet::start(&self.server().url, &self.key)),
            "fixed workers" => self.fixed_workers(),
            "kill the server in the middle" => self.kill_in_the_middle(),
            "everything adds up" => self.everything_adds_up(),
            other => panic!("no such stage: {other}"),
        }
    }

    fn ten_thousand_die(&self) {
        let lines: Vec<String> = (0..RUNS)
            .map(|n| {
                let in_doubt = r#","steps":[{"name":"charge","effect":true,"status":"started"}]"#;
                // Of each tenant one in ten.
                let steps = if (n / TENANTS.len()).is_multiple_of(10) { in_doubt } else { "" };
                let tenant = TENANTS[n % TENANTS.len()];
                format!(
                    r#"{{"tenant":"{tenant}","run_id":"invoice-{n}","payload":{{"n":{n}}},"error":{{"message":"KeyError: 'total'","terminal":true}}{steps}}}"#
                )
            })
            .collect();
        assert_eq!(self.http().post_lines("/v1/failures", &lines).unwrap().status, 200);
    }

    /// Once the last of the canary has died again.
    fn fixed_workers(&self) {
        let mut http = self.http();
        wait_for("the canary's end", || {
            (http.get("/v1/operations/op-1").unwrap().json()["failed"] == 20).then_some(())
        });
        self.fleet.as_ref().unwrap().shared.fixed.store(true, Ordering::SeqCst);
    }

    fn kill_in_the_middle(&mut self) {
        let mut http = self.http();
        wait_for("the operation to be in the middle", || {
            let moved = http.get("/v1/operations/op-2").unwrap().json()["moved"].as_u64().unwrap();
            assert!(moved < 9_000, "it was over before it could be killed");
            (moved > 3_000).then_some(())
        });
        let fleet = self.fleet.as_ref().unwrap();
        let mut url = fleet.shared.url.write().unwrap();
        self.server.take().unwrap().kill();
        let server = Server::start(self.folder.path());
        url.clone_from(&server.url);
        self.server = Some(server);
    }

    fn everything_adds_up(&mut self) {
        let charges = self.fleet.take().unwrap().stop();
        assert_eq!((charges.len(), charges.values().max()), (9_000, Some(&1)), "a card was charged twice");
        let mut http = self.http();
        for tenant in TENANTS {
            let mut count = |filter: &str| {
                let path = format!("/v1/runs?tenant={tenant}&limit=1&{filter}");
                http.get(&path).unwrap().json()["total"].as_u64().unwrap()
            };
            let (recovered, in_doubt) = (count("state=recovered"), count("state=dead&dead_because=unsafe"));
            assert_eq!((recovered, in_doubt), (1_800, 200), "{tenant}");
        }
        inside::check(self.folder.path());
        let moved = "SELECT sum(moved) FROM operations";
        let replays = "SELECT count(*) FROM history WHERE event = 'replay'";
        assert_eq!(
            inside::number(self.folder.path(), moved),
            inside::number(self.folder.path(), replays),
            "an item was moved twice"
        );
    }
}

const WORKERS: usize = 4;
const LEASE_MAX: usize = 25;

/// What the fleet shares.
pub(crate) struct Shared {
    /// The server's address, which changes with a restart. The killer holds this lock, so that
    /// no lease is granted to somebody who never hears of it: that is another story.
    pub(crate) url: RwLock<String>,
    key: String,
    /// The parser works.
    pub(crate) fixed: AtomicBool,
    stop: AtomicBool,
    /// How often each run's card was charged.
    pub(crate) charges: Mutex<BTreeMap<String, u32>>,
}

pub(crate) struct Fleet {
    pub(crate) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Fleet {
    pub(crate) fn start(url: &str, key: &str) -> Self {
        let shared = Arc::new(Shared {
            url: RwLock::new(url.to_owned()),
            key: key.to_owned(),
            fixed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            charges: Mutex::default(),
        });
        let worker = || {
            let shared = shared.clone();
            std::thread::Builder::new().name("worker".into()).spawn(move || work(&shared)).unwrap()
        };
        let threads = (0..WORKERS).map(|_| worker()).collect();
        Self { shared, threads }
    }

    pub(crate) fn stop(self) -> BTreeMap<String, u32> {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        std::mem::take(&mut *self.shared.charges.lock().unwrap())
    }
}

fn work(shared: &Shared) {
    while !shared.stop.load(Ordering::SeqCst) {
        let leased = {
            let url = shared.url.read().unwrap();
            let body = format!(r#"{{"queues":["*"],"max":{LEASE_MAX},"wait_ms":200}}"#);
            Http::new(&url, &shared.key).post("/v1/leases", body).unwrap().json()
        };
        for run in leased["leases"].as_array().unwrap() {
            attempt(shared, run);
        }
    }
}

fn attempt(shared: &Shared, run: &Value) {
    let of = |name: &str| run[name].as_str().unwrap();
    let (run_id, tenant, lease) = (of("run_id"), of("tenant"), of("lease"));
    let path = |verb: &str| format!("/v1/runs/{run_id}/{verb}?tenant={tenant}");
    if !shared.fixed.load(Ordering::SeqCst) {
        let failed = format!(r#"{{"lease":"{lease}","error":{{"message":"KeyError: 'total'","terminal":true}}}}"#);
        assert_eq!(say(shared, &path("fail"), &failed).status, 200);
        return;
    }
    let step = |status: &str| {
        format!(
            r#"{{"lease":"{lease}","name":"charge","key":"{run_id}:charge","effect":true,"status":"{status}","call_id":"{lease}"}}"#
        )
    };
    let begun = say(shared, &path("steps"), &step("started"));
    assert_eq!(begun.status, 200, "{}", begun.text);
    if begun.json()["replayed"] != true {
        *shared.charges.lock().unwrap().entry(run_id.to_owned()).or_default() += 1;
        assert_eq!(say(shared, &path("steps"), &step("committed")).status, 200);
    }
    let done = say(shared, &path("succeed"), &format!(r#"{{"lease":"{lease}","output":"charged"}}"#));
    assert_eq!(done.status, 200, "{}", done.text);
}

/// The same words again until somebody hears them.
fn say(shared: &Shared, path: &str, body: &str) -> Answer {
    loop {
        let url = shared.url.read().unwrap().clone();
        if let Ok(answer) = Http::new(&url, &shared.key).post(path, body) {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
