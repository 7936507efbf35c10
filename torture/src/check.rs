//! The record of what clients did and were told, and the check of the store against it after all faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;

use crate::http::Http;
use crate::server::Server;
use crate::store::Store;

/// An acknowledged failure.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    pub(crate) run: String,
    pub(crate) attempt: u64,
    pub(crate) mark: String,
    /// The payload as its first report had it.
    pub(crate) payload: Option<String>,
}

/// An external effect that must not happen twice. Its lock serialises checking and acting.
#[derive(Debug, Default)]
pub(crate) struct ExternalEffect {
    pub(crate) done: u64,
    pub(crate) acknowledged: bool,
    pub(crate) offered_again: bool,
}

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) acknowledged: Mutex<Vec<Acknowledged>>,
    /// Runs whose success was acknowledged, and that nobody opened again.
    pub(crate) succeeded: Mutex<Vec<String>>,
    pub(crate) outside: Mutex<BTreeMap<String, Arc<Mutex<ExternalEffect>>>>,
    pub(crate) operations: Mutex<Vec<String>>,
    /// Broken promises that a client saw at once.
    pub(crate) seen: Mutex<Vec<String>>,
    pub(crate) calls: AtomicU64,
    pub(crate) maybes: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// The disk is full or the database away, and how many were refused while it was.
    pub(crate) starving: AtomicBool,
    pub(crate) starved: AtomicU64,
}

pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Record {
    pub(crate) fn outside(&self, key: &str) -> Arc<Mutex<ExternalEffect>> {
        locked(&self.outside).entry(key.to_owned()).or_default().clone()
    }

    pub(crate) fn saw(&self, what: String) {
        locked(&self.seen).push(what);
    }

    pub(crate) fn print(&self) {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        println!(
            "{} calls ({} without an answer, {} refused for now, {} of these while the disk was full or the database away), {} failures and {} successes acknowledged, {} effects done, {} operations",
            of(&self.calls),
            of(&self.maybes),
            of(&self.refused),
            of(&self.starved),
            locked(&self.acknowledged).len(),
            locked(&self.succeeded).len(),
            locked(&self.outside).values().filter(|one| locked(one).done > 0).count(),
            locked(&self.operations).len(),
        );
    }
}

const OPERATION_TRIES: u32 = 600;
/// Of a long torture, the history of so many runs of an operation is read.
const HISTORIES_MAX: usize = 300;
/// Runs are read by so many at once: a long torture leaves many.
const READERS: usize = 8;

pub(crate) fn all(server: &Server<'_>, store: &Store, key: &str, record: &Record) -> Result<Vec<String>> {
    let url = format!("http://{}", server.address());
    let mut http = Http::new(&url, key);
    let mut anomalies = locked(&record.seen).clone();
    runs(&url, key, record, &mut anomalies)?;
    effects(record, &mut anomalies);
    operations(&mut http, record, &mut anomalies)?;
    counters(&mut http, &mut anomalies)?;
    whole(server, store, &mut anomalies)?;
    Ok(anomalies)
}

/// Nothing is damaged, and every counter is what a recount says.
fn whole(server: &Server<'_>, store: &Store, anomalies: &mut Vec<String>) -> Result<()> {
    let mut check = std::process::Command::new(server.binary());
    check.args(["store", "check", "--json"]).args(store.flags());
    let said = check.output().context("redrive store check")?;
    if !said.status.success() {
        let told = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        anomalies.push(format!("the store is damaged, or a counter is wrong: {told}"));
    }
    Ok(())
}

/// Half a pair, as every report's payload has it, is more than a parsed tree can hold.
fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(&text.replace("\\ud800", "")).context("no JSON")
}

fn get(http: &mut Http, path: &str) -> Result<Value> {
    let answer = http.get(path)?;
    ensure!(answer.status == 200, "{path}: {} {}", answer.status, answer.text);
    parse(&answer.text)
}

/// What the clients were told of one run.
#[derive(Default)]
struct RunRecord {
    acknowledged: Vec<Acknowledged>,
    succeeded: bool,
}

/// Every acknowledged failure is there, byte for byte, and what has succeeded stays so.
fn runs(url: &str, key: &str, record: &Record, anomalies: &mut Vec<String>) -> Result<()> {
    let mut told: BTreeMap<String, RunRecord> = BTreeMap::new();
    for acknowledged in locked(&record.acknowledged).iter() {
        told.entry(acknowledged.run.clone()).or_default().acknowledged.push(acknowledged.clone());
    }
    for run in locked(&record.succeeded).iter() {
        told.entry(run.clone()).or_default().succeeded = true;
    }
    let told: Vec<(String, RunRecord)> = told.into_iter().collect();
    let found = std::thread::scope(|scope| {
        let parts = told.chunks(told.len().div_ceil(READERS).max(1));
        let reading: Vec<_> = parts.map(|part| scope.spawn(|| part_of_runs(url, key, part))).collect();
        let read = reading.into_iter().map(|read| read.join().unwrap_or_else(|_| Err(anyhow!("an unreadable run"))));
        read.collect::<Result<Vec<_>>>()
    })?;
    anomalies.extend(found.into_iter().flatten());
    Ok(())
}

fn part_of_runs(url: &str, key: &str, part: &[(String, RunRecord)]) -> Result<Vec<String>> {
    let (mut http, mut anomalies) = (Http::new(url, key), Vec::new());
    for (run, told) in part {
        let answer = http.get(&format!("/v1/runs/{run}?tenant=acme"))?;
        if answer.status == 200 {
            one_run(run, told, &answer.text, &mut anomalies)?;
        } else {
            anomalies.push(format!("{run} was acknowledged, and is answered {}", answer.status));
        }
    }
    Ok(anomalies)
}

fn one_run(run: &str, told: &RunRecord, text: &str, anomalies: &mut Vec<String>) -> Result<()> {
    let json = parse(text)?;
    let attempts = || json["attempts"].as_array().into_iter().flatten();
    for one in &told.acknowledged {
        let attempt = attempts().find(|attempt| attempt["attempt"] == one.attempt);
        if attempt.is_none_or(|attempt| attempt["error"]["detail"] != one.mark.as_str()) {
            let Acknowledged { attempt: number, mark, .. } = one;
            anomalies.push(format!("{run}: attempt {number} was acknowledged as {mark}, and is {attempt:?}"));
        }
        if one.payload.as_ref().is_some_and(|payload| !text.contains(payload.as_str())) {
            anomalies.push(format!("{run}: its payload is not what was sent"));
        }
    }
    let numbers: Vec<u64> = attempts().filter_map(|attempt| attempt["attempt"].as_u64()).collect();
    if numbers.iter().collect::<BTreeSet<_>>().len() != numbers.len() {
        anomalies.push(format!("{run}: an attempt has two outcomes"));
    }
    let over = matches!(json["state"].as_str(), Some("succeeded" | "recovered" | "resolved" | "discarded"));
    if told.succeeded && !over {
        anomalies.push(format!("{run} succeeded, and is {}", json["state"]));
    }
    Ok(())
}

fn effects(record: &Record, anomalies: &mut Vec<String>) {
    for (key, one) in locked(&record.outside).iter() {
        let one = locked(one);
        if one.done > 1 {
            anomalies.push(format!("{key} was done {} times", one.done));
        }
        if one.offered_again {
            anomalies.push(format!("{key} was offered again"));
        }
    }
}

/// Each operation ends, and moved each of its runs once.
fn operations(http: &mut Http, record: &Record, anomalies: &mut Vec<String>) -> Result<()> {
    let mut histories = 0;
    for id in locked(&record.operations).iter() {
        let mut view = get(http, &format!("/v1/operations/{id}"))?;
        for _ in 0..OPERATION_TRIES {
            if view["state"] != "running" {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            view = get(http, &format!("/v1/operations/{id}"))?;
        }
        let count = |name: &str| view[name].as_u64().unwrap_or(0);
        if view["state"] != "completed" || count("moved") + count("skipped") != count("eligible") {
            anomalies.push(format!("{id} did not come to its end: {view}"));
        }
        let items = get(http, &format!("/v1/operations/{id}/items?limit=500"))?;
        for item in items["items"].as_array().into_iter().flatten() {
            let (Some(run), true) = (item["run_id"].as_str(), histories < HISTORIES_MAX) else { continue };
            histories += 1;
            let json = get(http, &format!("/v1/runs/{run}?tenant=acme"))?;
            let named = format!("Operation {id}.");
            let notes = json["history"].as_array().into_iter().flatten().filter_map(|entry| entry["note"].as_str());
            let moved = notes.filter(|note| note.contains(&named)).count();
            let wanted = usize::from(matches!(item["outcome"].as_str(), Some("moved" | "succeeded" | "failed")));
            if moved != wanted {
                anomalies.push(format!("{id}: {run} is {} and was moved {moved} times", item["outcome"]));
            }
        }
    }
    Ok(())
}

/// What is counted while it happens equals a count of what is there.
fn counters(http: &mut Http, anomalies: &mut Vec<String>) -> Result<()> {
    for state in ["dead", "review", "succeeded", "recovered", "resolved"] {
        let path = format!("/v1/runs?tenant=acme&state={state}&limit=500&count=true");
        let mut page = get(http, &path)?;
        let (total, mut found) = (page["total"].as_u64(), 0);
        loop {
            found += page["runs"].as_array().map_or(0, Vec::len) as u64;
            let Some(cursor) = page["next_cursor"].as_str().map(str::to_owned) else { break };
            page = get(http, &format!("{path}&cursor={cursor}"))?;
        }
        // Leases that were out when the clients stopped may run out meanwhile.
        let again = get(http, &path)?["total"].as_u64();
        if total == again && total != Some(found) {
            anomalies.push(format!("{state}: {total:?} are counted, and {found} are there"));
        }
    }
    Ok(())
}
