//! Replays with effects at a fake bank, while servers and workers are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use serde_json::Value;

use crate::common::http;
use crate::common::http::{Answer, Http};
use crate::common::lot::{self, Lot};
use crate::support::{Server, wait_for};

const REPLAYS: usize = 10_000;
const SERVER_KILLS: usize = 20;
const CREWS: usize = 12;
const RUNS_A_CREW: usize = 40;
const LEASES_AT_ONCE: usize = 10;
const LEASE_MS: u64 = 1_000;

/// What all crews share.
struct Ground {
    /// Where the server is now; it moves with every restart.
    url: RwLock<String>,
    key: String,
    bank: Bank,
    replays: AtomicUsize,
    stop: AtomicBool,
    figures: Mutex<BTreeMap<&'static str, usize>>,
}

impl Ground {
    fn count(&self, what: &'static str) {
        *self.figures.lock().unwrap().entry(what).or_default() += 1;
    }

    fn url(&self) -> String {
        self.url.read().unwrap().clone()
    }
}

#[test]
fn no_effect_repeats_and_unknown_effects_wait() {
    let seed = lot::seed();
    // A killed process loses nothing that the kernel has: memory serves as well as a disk.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let server = Server::start(folder.path());
    let ground = Ground {
        url: RwLock::new(server.url.clone()),
        key: server.key.clone().unwrap(),
        bank: Bank::open(),
        replays: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        figures: Mutex::default(),
    };
    let server = std::thread::scope(|threads| {
        for crew in 0..CREWS {
            let lot = Lot::new(seed.wrapping_add(crew as u64));
            let ground = &ground;
            threads.spawn(move || Crew::new(ground, crew, lot).work());
        }
        let server = kill_now_and_then(&ground, server, folder.path());
        ground.stop.store(true, Ordering::SeqCst);
        server
    });
    let (settled, doubtful) = audit(&ground);
    println!(
        "{} replays, {SERVER_KILLS} servers killed, {settled} effects done, {doubtful} in doubt at the end, seed {seed}: {:?}",
        ground.replays.load(Ordering::SeqCst),
        ground.figures.lock().unwrap(),
    );
    assert!(settled > REPLAYS / 4, "too little happened to prove anything");
    drop(server);
}

/// Kills the server after every so many replays, and starts it again on what it left.
fn kill_now_and_then(ground: &Ground, mut server: Server, folder: &std::path::Path) -> Server {
    for kill in 1..=SERVER_KILLS {
        let then = REPLAYS * kill / (SERVER_KILLS + 1);
        wait_for_replays(ground, then);
        server.kill();
        server = Server::start(folder);
        ground.url.write().unwrap().clone_from(&server.url);
    }
    wait_for_replays(ground, REPLAYS);
    server
}

fn wait_for_replays(ground: &Ground, then: usize) {
    let mut last = 0;
    // As long as there is progress there is patience.
    while ground.replays.load(Ordering::SeqCst) < then {
        wait_for("another replay", || {
            let now = ground.replays.load(Ordering::SeqCst);
            (now > last || now >= then).then(|| last = now)
        });
    }
}

/// Workers and their people, on a queue of their own. A worker that crashes is dropped without a word; its run is looked
/// at again when its lease is over.
struct Crew<'a> {
    ground: &'a Ground,
    name: usize,
    lot: Lot,
    http: Http,
    bank: Http,
}

impl<'a> Crew<'a> {
    fn new(ground: &'a Ground, name: usize, lot: Lot) -> Self {
        let http = Http::new(&ground.url(), &ground.key);
        Self { ground, name, lot, http, bank: Http::new(&ground.bank.url, "") }
    }

    fn work(&mut self) {
        for n in 0..RUNS_A_CREW {
            let resumable = n % 2 == 0;
            let body = format!(
                r#"{{"run_id":"c{}-{n}","tenant":"acme","queue":"q{}","mode":"enqueue","resumable":{resumable}}}"#,
                self.name, self.name
            );
            while self.post("/v1/runs", &body).is_none() {}
        }
        while !self.ground.stop.load(Ordering::SeqCst) {
            for _ in 0..LEASES_AT_ONCE {
                let run = format!("c{}-{}", self.name, self.lot.upto(RUNS_A_CREW));
                self.replay(&run);
            }
            let body = format!(
                r#"{{"tenant":"acme","queues":["q{}"],"max":{LEASES_AT_ONCE},"lease_ms":{LEASE_MS}}}"#,
                self.name
            );
            let Some(leased) = self.post("/v1/leases", &body) else { continue };
            for leased in leased.json()["leases"].as_array().unwrap() {
                self.attempt(leased);
            }
        }
    }

    /// None when the server is gone: nobody knows whether it heard.
    fn post(&mut self, path: &str, body: &str) -> Option<Answer> {
        match self.http.post(path, body) {
            Ok(answer) => Some(answer),
            Err(_) => {
                self.ground.count("calls that nobody answered");
                self.find_the_server();
                None
            }
        }
    }

    fn find_the_server(&mut self) {
        self.http = wait_for("the server, back again", || {
            let mut http = Http::new(&self.ground.url(), &self.ground.key);
            http.get("/healthz").is_ok().then_some(http)
        });
    }

    /// A person sends a run round again; what is in doubt is looked up at the bank first.
    fn replay(&mut self, run: &str) {
        let path = format!("/v1/runs/{run}/replay?tenant=acme");
        for force in [false, true] {
            let Some(said) = self.post(&path, &format!(r#"{{"force":{force},"reason":"again"}}"#)) else { return };
            match said.short() {
                (200, _) => return,
                (409, code) if code == "in_flight" => return,
                (409, code) if code == "effect_unknown" => {
                    if !self.reconcile(run) {
                        return;
                    }
                }
                (409, code) if code == "unsafe" || code == "closed" || code == "replays_used" => {}
                other => panic!("{run}: {other:?}"),
            }
        }
    }

    /// Every doubt of a run; it has to be dead of it.
    fn reconcile(&mut self, run: &str) -> bool {
        let Ok(shown) = self.http.get(&format!("/v1/runs/{run}?tenant=acme")) else {
            self.find_the_server();
            return false;
        };
        let shown = shown.json();
        for step in shown["steps"].as_array().unwrap().iter().filter(|step| step["status"] == "unknown") {
            assert_eq!((&shown["state"], &shown["dead_because"]), (&"dead".into(), &"unsafe".into()), "{shown}");
            let key = step["key"].as_str().unwrap();
            let outcome = if self.ground.bank.done.times(key) > 0 { "committed" } else { "not_done" };
            let body = format!(r#"{{"tenant":"acme","outcome":"{outcome}","reason":"asked the bank"}}"#);
            let Some(said) = self.post(&format!("/v1/effects/{key}/reconcile"), &body) else { return false };
            assert_eq!(said.status, 200, "{}", said.text);
            self.ground.count("reconciled");
        }
        true
    }

    /// One attempt of a leased run: what is done is not done again, then the next effect.
    fn attempt(&mut self, leased: &Value) {
        let run = leased["run_id"].as_str().unwrap().to_owned();
        let lease = leased["lease"].as_str().unwrap();
        let steps = leased["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| step["status"] != "unknown"), "handed out with a doubt: {leased}");
        if leased["replay"] == true {
            self.ground.replays.fetch_add(1, Ordering::SeqCst);
        }
        let is_done = |step: &&Value| step["status"] == "committed" || step["outcome"] == "committed";
        if let Some(done) = steps.iter().rev().find(is_done) {
            let Some(said) = self.step(&run, lease, done["key"].as_str().unwrap(), "started") else { return };
            // Lost: it took too long, and somebody has noticed.
            if said.status == 409 {
                return self.ground.count("too slow");
            }
            assert_eq!(said.json()["replayed"], true, "offered again: {}", said.text);
        }
        let key = format!("{run}:e{}", steps.iter().filter(is_done).count());
        let Some(said) = self.step(&run, lease, &key, "started") else { return };
        if said.status == 409 {
            return self.ground.count("too slow");
        }
        assert_eq!(said.json().get("replayed"), None, "{}", said.text);
        if self.effect(&run, lease, &key) {
            self.end(&run, lease);
        }
    }

    fn step(&mut self, run: &str, lease: &str, key: &str, status: &str) -> Option<Answer> {
        let body = format!(
            r#"{{"tenant":"acme","lease":"{lease}","name":"charge","key":"{key}","effect":true,"status":"{status}","call_id":"{lease}"}}"#
        );
        let said = self.post(&format!("/v1/runs/{run}/steps"), &body)?;
        let code = said.json()["code"].clone();
        assert!(said.status == 200 || code == "lease_lost", "{status} {key}: {}", said.text);
        Some(said)
    }

    /// True when the attempt goes on; otherwise its worker is gone, or nobody knows.
    fn effect(&mut self, run: &str, lease: &str, key: &str) -> bool {
        let chance = self.lot.below(20);
        match chance {
            0 => {
                self.ground.count("crashed before the effect");
                return false;
            }
            1 => {
                self.ground.count("failed effects");
                return self.step(run, lease, key, "failed").is_some_and(|said| said.status == 200);
            }
            _ => {
                let said = self.bank.post(&format!("/{key}"), "").unwrap();
                assert_eq!(said.text, "1", "{key} happened twice");
            }
        }
        if chance == 2 {
            self.ground.count("crashed after the effect");
            return false;
        }
        if let Some(said) = self.step(run, lease, key, "committed") {
            return said.status == 200;
        }
        // The server died over it. Some say it again to the next one, some do not live to.
        if self.lot.one_in(2) {
            let said = self.step(run, lease, key, "committed");
            self.ground.count("outcomes told again");
            return said.is_some_and(|said| said.status == 200);
        }
        false
    }

    fn end(&mut self, run: &str, lease: &str) {
        let (verb, body) = match self.lot.below(5) {
            0 => ("succeed", format!(r#"{{"tenant":"acme","lease":"{lease}"}}"#)),
            1 => ("release", format!(r#"{{"tenant":"acme","lease":"{lease}"}}"#)),
            2 => return self.ground.count("crashed after the outcome"),
            3 => ("fail", format!(r#"{{"tenant":"acme","lease":"{lease}","error":{{"message":"KeyError: 'x'"}}}}"#)),
            _ => {
                ("fail", format!(r#"{{"tenant":"acme","lease":"{lease}","error":{{"message":"Request timed out"}}}}"#))
            }
        };
        if let Some(said) = self.post(&format!("/v1/runs/{run}/{verb}"), &body) {
            assert!(said.status == 200 || said.json()["code"] == "lease_lost", "{verb}: {}", said.text);
            self.ground.count(verb);
        }
    }
}

/// What the ledger says against what the bank knows, once every lease is over. How many effects are done, and how many
/// in doubt.
fn audit(ground: &Ground) -> (usize, usize) {
    let mut http = Http::new(&ground.url(), &ground.key);
    let charged = ground.bank.done.all();
    assert_eq!(charged.values().filter(|times| **times > 1).count(), 0, "happened more than once");
    let (mut known, mut done, mut doubtful) = (BTreeSet::new(), 0, 0);
    for crew in 0..CREWS {
        for n in 0..RUNS_A_CREW {
            let path = format!("/v1/runs/c{crew}-{n}?tenant=acme");
            let run = wait_for("the end of every lease", || {
                let shown = http.get(&path).unwrap().json();
                (shown["state"] != "running").then_some(shown)
            });
            for step in run["steps"].as_array().unwrap() {
                let key = step["key"].as_str().unwrap();
                let times = ground.bank.done.times(key);
                match (step["status"].as_str().unwrap(), step["outcome"].as_str()) {
                    ("committed", _) | ("reconciled", Some("committed")) => {
                        assert_eq!(times, 1, "{key}");
                        done += 1;
                    }
                    ("failed", _) | ("reconciled", _) => assert_eq!(times, 0, "{key}: {step}"),
                    ("unknown", _) => {
                        let stands = (&run["state"], &run["dead_because"]);
                        assert_eq!(stands, (&"dead".into(), &"unsafe".into()), "{key}: {run}");
                        doubtful += 1;
                    }
                    other => panic!("{key} is {other:?} and nobody is at it"),
                }
                known.insert(key.to_owned());
            }
        }
    }
    for key in charged.keys() {
        assert!(known.contains(key), "{key} happened, and the ledger has never heard of it");
    }
    (done, doubtful)
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<String, u32>>>);

pub(crate) struct Bank {
    pub(crate) url: String,
    pub(crate) done: Ledger,
}

impl Ledger {
    pub(crate) fn times(&self, key: &str) -> u32 {
        self.0.lock().unwrap().get(key).copied().unwrap_or(0)
    }

    pub(crate) fn all(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn charge(&self, key: &str) -> u32 {
        let mut done = self.0.lock().unwrap();
        let times = done.entry(key.to_owned()).or_default();
        *times += 1;
        *times
    }
}

impl Bank {
    /// Answers on a port of its own until the test ends.
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let done = Ledger::default();
        let ledger = done.clone();
        let serve = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let ledger = ledger.clone();
                let one = move || while answer(&stream, &ledger).is_some() {};
                std::thread::Builder::new().name("teller".into()).spawn(one).unwrap();
            }
        };
        std::thread::Builder::new().name("bank".into()).spawn(serve).unwrap();
        Self { url, done }
    }
}

/// `POST /{key}` does the effect and says how often it has been done; none when the client is gone.
fn answer(stream: &TcpStream, ledger: &Ledger) -> Option<()> {
    let asked = http::read_request(&mut BufReader::new(stream)).ok()?;
    let times = ledger.charge(asked.trim_start_matches('/'));
    let body = times.to_string();
    let said = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    (&mut &*stream).write_all(said.as_bytes()).ok()
}
