//! A fleet: each worker leases, charges once with its intent recorded before, and goes on after a crash of the server. Its
//! log is its own, and no part of the product.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::common::http::{Answer, Http};

const WORKERS: usize = 4;
const LEASE_MAX: usize = 25;

/// What the fleet shares.
pub(crate) struct Shared {
    /// Where the server is; it moves when it is started anew. Whoever kills the server holds this while it does, so that
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
