//! Clients that continue under every fault: they report, work, reconcile and run bulk operations, and record every answer.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::check::{Acknowledged, Record, locked};
use crate::http::{Answer, Http};

const TENANT: &str = "acme";
const TRIES: u32 = 40;

pub(crate) struct Client<'a> {
    n: u64,
    next: u64,
    chance: Chance,
    http: Http,
    record: &'a Record,
    over: &'a AtomicBool,
}

/// What an attempt at a step came to.
enum Step {
    Done,
    Stop,
}

impl<'a> Client<'a> {
    pub(crate) fn new(
        n: u64,
        chance: Chance,
        address: &str,
        key: &str,
        record: &'a Record,
        over: &'a AtomicBool,
    ) -> Self {
        Self { n, next: 0, chance, http: Http::new(&format!("http://{address}"), key), record, over }
    }

    pub(crate) fn work(mut self) {
        while !self.over.load(Ordering::SeqCst) {
            match (self.n, self.chance.below(10)) {
                (0, _) => self.settle_doubts(),
                (1, 0..=2) => self.redrive(),
                (_, 0..=3) => self.report(),
                (_, 4..=7) => self.start(),
                _ => self.lease(),
            }
            std::thread::sleep(Duration::from_millis(self.chance.below(20)));
        }
    }

    fn name(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-{}-{}", self.n, self.next)
    }

    /// None: nobody knows whether it was done.
    fn call(&mut self, path: &str, body: &str) -> Option<Answer> {
        self.record.calls.fetch_add(1, Ordering::Relaxed);
        let heard = self.http.post(path, body);
        self.sort_out(path, heard)
    }

    fn sort_out(&mut self, path: &str, heard: io::Result<Answer>) -> Option<Answer> {
        match heard {
            Ok(answer) if answer.status == 503 => {
                self.record.refused.fetch_add(1, Ordering::Relaxed);
                if self.record.starving.load(Ordering::SeqCst) {
                    self.record.starved.fetch_add(1, Ordering::SeqCst);
                }
                None
            }
            Ok(answer) => {
                if answer.status >= 500 {
                    self.record.saw(format!("{path} was answered {}: {}", answer.status, answer.text));
                }
                Some(answer)
            }
            Err(_) => {
                self.record.maybes.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// The same again until somebody says what became of it.
    fn insist(&mut self, path: &str, body: &str) -> Option<Answer> {
        for _ in 0..TRIES {
            if let Some(answer) = self.call(path, body) {
                return Some(answer);
            }
            std::thread::sleep(Duration::from_millis(50 + self.chance.below(200)));
        }
        None
    }

    fn report(&mut self) {
        let (run, mark) = (self.name("r"), self.name("mark"));
        let message = ["Request timed out", "Invalid API key provided", "KeyError: 'x'"]
            [usize::try_from(self.chance.below(3)).unwrap_or(0)];
        let payload = format!("{{\"n\": 1.0e0,  \"of\":\"{run}\",\"u\":\"\\u0000\\ud800\"}}");
        let body = format!(
            r#"{{"tenant":"{TENANT}","run_id":"{run}","queue":"reported","attempt":1,"payload":{payload},"error":{{"message":"{message}","detail":"{mark}"}}}}"#
        );
        let Some(answer) = self.insist("/v1/failures", &body) else { return };
        match answer.status {
            200 | 201 => {
                let payload = Some(payload);
                locked(&self.record.acknowledged).push(Acknowledged { run, attempt: 1, mark, payload });
            }
            other => self.record.saw(format!("a report was answered {other}: {}", answer.text)),
        }
    }

    /// A run of its own, with an effect in it.
    fn start(&mut self) {
        let run = self.name("s");
        self.next += 1;
        let start_id = format!("00000000-0000-4000-8000-{:06x}{:06x}", self.n, self.next);
        let body = json!({"tenant": TENANT, "run_id": run, "mode": "start", "start_id": start_id, "lease_ms": 3_000,
            "resumable": true, "payload": {"run": run}});
        let Some(answer) = self.insist("/v1/runs", &body.to_string()) else { return };
        let Some(lease) = answer.json()["lease"].as_str().map(str::to_owned) else { return };
        self.attempt(&run, &lease);
    }

    /// Whatever is due, of anybody.
    fn lease(&mut self) {
        let body =
            json!({"tenant": TENANT, "queues": ["*"], "max": 3, "lease_ms": 3_000, "worker": format!("w{}", self.n)});
        let Some(answer) = self.call("/v1/leases", &body.to_string()) else { return };
        // Half a pair, as every report's payload has it, is more than a parsed tree can hold.
        let Ok(json) = serde_json::from_str::<Value>(&answer.text.replace("\\ud800", "")) else { return };
        for given in json["leases"].as_array().into_iter().flatten() {
            if let (Some(run), Some(lease)) = (given["run_id"].as_str(), given["lease"].as_str()) {
                self.attempt(run, lease);
            }
        }
    }

    fn attempt(&mut self, run: &str, lease: &str) {
        if run.starts_with("s-")
            && let Step::Stop = self.effect(run, lease)
        {
            return;
        }
        let (verb, mark) = (self.chance.below(10), self.name("mark"));
        match verb {
            0..=5 => {
                let body = json!({"tenant": TENANT, "lease": lease, "output": {"by": mark}});
                let answer = self.insist(&format!("/v1/runs/{run}/succeed"), &body.to_string());
                if answer.is_some_and(|answer| answer.status == 200) {
                    locked(&self.record.succeeded).push(run.to_owned());
                }
            }
            6..=8 => {
                let body = json!({"tenant": TENANT, "lease": lease, "error": {"message": "Request timed out", "detail": mark}});
                let Some(answer) = self.insist(&format!("/v1/runs/{run}/fail"), &body.to_string()) else { return };
                if let (200, Some(attempt)) = (answer.status, answer.json()["attempt"].as_u64()) {
                    locked(&self.record.acknowledged).push(Acknowledged {
                        run: run.to_owned(),
                        attempt,
                        mark,
                        payload: None,
                    });
                }
            }
            // It goes quiet.
            _ => {}
        }
    }

    /// Intent, effect, outcome; or it dies somewhere in between.
    fn effect(&mut self, run: &str, lease: &str) -> Step {
        let key = format!("pay-{run}");
        let path = format!("/v1/runs/{run}/steps");
        let said = |status: &str| {
            json!({"tenant": TENANT, "lease": lease, "name": "pay", "key": key, "effect": true, "status": status,
                "call_id": lease})
            .to_string()
        };
        let outside = self.record.outside(&key);
        let mut outside = locked(&outside);
        let Some(answer) = self.insist(&path, &said("started")) else { return Step::Stop };
        let json: Value = answer.json();
        if answer.status != 200 {
            return Step::Stop;
        }
        if json["replayed"] == true {
            if outside.done == 0 {
                self.record.saw(format!("{key} was skipped, and nobody has done it"));
            }
            return Step::Done;
        }
        outside.offered_again |= outside.acknowledged || outside.done > 0;
        if self.chance.happens(40) {
            return Step::Stop;
        }
        outside.done += 1;
        if self.chance.happens(40) {
            return Step::Stop;
        }
        match self.insist(&path, &said("committed")) {
            Some(answer) if answer.status == 200 => {
                outside.acknowledged = true;
                Step::Done
            }
            Some(answer) => {
                outside.acknowledged |= answer.json()["recorded"] == true;
                Step::Stop
            }
            None => Step::Stop,
        }
    }

    /// Somebody who goes and looks, and then has the run tried again.
    fn settle_doubts(&mut self) {
        let listed = self.http.get(&format!("/v1/runs?tenant={TENANT}&state=dead&dead_because=unsafe&limit=50"));
        let Some(listed) = self.sort_out("/v1/runs", listed) else { return };
        for run in listed.json()["runs"].as_array().into_iter().flatten() {
            let Some(run) = run["run_id"].as_str() else { continue };
            let key = format!("pay-{run}");
            let outside = self.record.outside(&key);
            let mut outside = locked(&outside);
            let outcome = if outside.done > 0 { "committed" } else { "not_done" };
            let body = json!({"tenant": TENANT, "outcome": outcome, "reason": "looked"}).to_string();
            let answer = self.insist(&format!("/v1/effects/{key}/reconcile"), &body);
            outside.acknowledged |= answer.is_some_and(|answer| answer.status == 200) && outside.done > 0;
            drop(outside);
            let body = json!({"reason": "settled"}).to_string();
            self.call(&format!("/v1/runs/{run}/replay?tenant={TENANT}"), &body);
        }
        std::thread::sleep(Duration::from_millis(500));
    }

    /// Everything that is dead and was only reported, at once.
    fn redrive(&mut self) {
        let body = json!({"action": "assign", "to": "ops", "reason": "torture", "filter": {"tenant": TENANT, "state": "dead", "queue": "reported"}});
        let Some(answer) = self.call("/v1/operations", &body.to_string()) else { return };
        if let (201, Some(id)) = (answer.status, answer.json()["id"].as_str()) {
            locked(&self.record.operations).push(id.to_owned());
        }
        std::thread::sleep(Duration::from_secs(2 + self.chance.below(5)));
    }
}
