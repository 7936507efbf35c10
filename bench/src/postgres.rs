//! PostgreSQL: reports, claims and ends in the store, beside raw PostgreSQL writing the same rows in the same run, on the
//! same machine and with the same settings (`fsync` and `synchronous_commit` on).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use private_postgres::{Database, Server};
use redrive_core::classify::{Evidence, classify};
use redrive_core::ids::QueueName;
use redrive_core::pattern::fingerprint;
use redrive_core::policy::Policies;
use redrive_core::strategy::Failure;
use redrive_core::text::Label;
use redrive_store::postgres::{LINES, Options, PgStore};
use redrive_store::{
    AttemptBody, FailedAttempt, NewRun, Payload, PayloadKind, Report, Start, StartHow, Store, SystemDice, encode,
};

use crate::Plan;
use crate::claims::claim_and_resolve;
use crate::figures::{Figures, median, per_second};
use crate::raw_postgres as raw;

const CONNECTIONS: u64 = 64;
const A_REQUEST: u64 = 1_000;
const REQUESTS_AT_ONCE: u64 = 4;
const TENANTS: u64 = 100;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::tempdir_in("target")?;
    let server = Server::start_in(folder.keep().canonicalize()?).map_err(|e| anyhow!(e))?;
    if plan.wants("ingest") {
        ingest(plan, figures, &server).await?;
    }
    if plan.wants("claims") {
        claims(plan, figures, &server).await?;
    }
    Ok(())
}

fn database(server: &Server) -> Result<Database> {
    Database::on(server.url()).map_err(|e| anyhow!(e))
}

async fn open(database: &Database) -> Result<Arc<PgStore>> {
    let options = Options {
        url: database.url().to_owned(),
        clock: None,
        dice: Arc::new(SystemDice),
        policies: Policies::default(),
        lines: LINES,
    };
    Ok(Arc::new(PgStore::open(options).await?))
}

/// A failure as a handler hands it over.
fn report(n: u64) -> Report {
    let message = ["Request timed out", "KeyError: 'invoice'", "429 Too Many Requests"][(n % 3) as usize];
    let evidence = Evidence { text: message, ..Evidence::default() };
    let classified = classify(&evidence);
    let fingerprint = fingerprint(&evidence, &classified.reason);
    let body = serde_json::to_vec(&AttemptBody::default()).unwrap_or_default();
    let failed = FailedAttempt {
        attempt: Some(1),
        digest: [3; 16],
        failure: Failure::new(classified, false, fingerprint.hash),
        fingerprint,
        model: Some(Label::from("gpt-5")),
        provider: Some(Label::from("openai")),
        tool: None,
        step: None,
        versions: Default::default(),
        took_ms: None,
        severity: None,
        body: encode(&[body, vec![b' '; 300]].concat()),
        steps: Vec::new(),
    };
    Report { run: run(n), failed }
}

#[expect(clippy::expect_used, reason = "names that we make ourselves")]
fn run(n: u64) -> NewRun {
    let payload = format!("{{\"invoice\":{n},\"lines\":[1,2,3],\"note\":\"{}\"}}", "x".repeat(300));
    NewRun {
        tenant: format!("tenant-{}", n * 7_919 % TENANTS).parse().expect("a tenant"),
        run_id: format!("run-{n}").parse().expect("a run"),
        queue: QueueName::default_queue(),
        agent: Some(Label::from("biller")),
        task_type: None,
        customer: None,
        model: None,
        provider: None,
        environment: Label::from("production"),
        severity: redrive_core::wire::Severity::Normal,
        idempotency_key: None,
        order_key: None,
        resumable: None,
        payload: Payload { kind: PayloadKind::Json, digest: [5; 16], encoded: encode(payload.as_bytes()) },
        about: encode(b"{}"),
    }
}

async fn ingest(plan: &Plan, figures: &mut Figures, server: &Server) -> Result<()> {
    let (mut ones, mut raw_ones, mut many, mut raw_many) = (vec![], vec![], vec![], vec![]);
    println!("Reports into PostgreSQL, one a call and {A_REQUEST} a call");
    for _ in 0..plan.pairs {
        let (database, beside) = (database(server)?, database(server)?);
        let store = open(&database).await?;
        open(&beside).await?.close().await;
        ones.push(per_second(plan.runs, one_by_one(&store, plan.runs).await?));
        let rows = raw::rows_of(database.url()).await?;
        raw_ones.push(per_second(plan.runs, raw::write_each(beside.url(), &rows, CONNECTIONS).await?));
        let from = plan.runs;
        many.push(per_second(plan.runs, a_thousand_each(&store, from, plan.runs).await?));
        store.close().await;
        raw::empty(beside.url()).await?;
        raw_many.push(per_second(plan.runs, raw::write_many(beside.url(), &rows, REQUESTS_AT_ONCE).await?));
    }
    let [ones, raw_ones, many, raw_many] = [ones, raw_ones, many, raw_many].map(median);
    figures.note("one report a call, 64 at once: ours, in the store", ones, "/s");
    figures.note("raw single transactions, 64 connections", raw_ones, "/s");
    figures.at_least("one report a call, to raw", ones / raw_ones, "x", 1.2);
    figures.note("1,000 reports a call, 4 at once: ours, in the store", many, "/s");
    figures.note("raw UNNEST of 1,000, 4 connections", raw_many, "/s");
    figures.at_least("1,000 reports a call, to raw", many / raw_many, "x", 0.7);
    Ok(())
}

async fn one_by_one(store: &Arc<PgStore>, runs: u64) -> Result<Duration> {
    let next = Arc::new(AtomicU64::new(0));
    let mut reports: Vec<Option<Report>> = (0..runs).map(|n| Some(report(n))).collect();
    let mut pieces: Vec<Vec<Report>> = (0..CONNECTIONS).map(|_| Vec::new()).collect();
    for (n, report) in reports.iter_mut().enumerate() {
        pieces[n % CONNECTIONS as usize].extend(report.take());
    }
    let began = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for piece in pieces {
        let (store, next) = (store.clone(), next.clone());
        all.spawn(async move {
            for report in piece {
                store.report(report).await?;
                next.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, redrive_store::Error>(())
        });
    }
    for done in all.join_all().await {
        done?;
    }
    ensure!(next.load(Ordering::Relaxed) == runs, "not all were taken");
    Ok(began.elapsed())
}

async fn a_thousand_each(store: &Arc<PgStore>, from: u64, runs: u64) -> Result<Duration> {
    let mut calls: Vec<Vec<Report>> = Vec::new();
    for first in (from..from + runs).step_by(A_REQUEST as usize) {
        calls.push((first..(first + A_REQUEST).min(from + runs)).map(report).collect());
    }
    let calls = Arc::new(std::sync::Mutex::new(calls));
    let began = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..REQUESTS_AT_ONCE {
        let (store, calls) = (store.clone(), calls.clone());
        all.spawn(async move {
            loop {
                let Some(call) = calls.lock().ok().and_then(|mut calls| calls.pop()) else { return Ok(()) };
                for answer in store.report_all(call).await {
                    answer?;
                }
            }
        });
    }
    for done in all.join_all().await {
        done.map_err(|e: redrive_store::Error| anyhow!(e))?;
    }
    Ok(began.elapsed())
}

async fn claims(plan: &Plan, figures: &mut Figures, server: &Server) -> Result<()> {
    println!("Claim 1,000 and resolve 1,000 on PostgreSQL, fair over {TENANTS} tenants");
    let (ours_at, raw_at) = (database(server)?, database(server)?);
    let runs = plan.runs.max(20_000);
    for database in [&ours_at, &raw_at] {
        let store = open(database).await?;
        let mut all = tokio::task::JoinSet::new();
        for piece in 0..CONNECTIONS {
            let store = store.clone();
            all.spawn(async move {
                for n in (piece..runs).step_by(CONNECTIONS as usize) {
                    let how = StartHow::Enqueue { due_at: None };
                    let start = Start {
                        run: run(n),
                        how,
                        versions: Default::default(),
                        idle_ms: None,
                        deadline_ms: None,
                        fit: Default::default(),
                    };
                    store.start(start).await?;
                }
                Ok::<_, redrive_store::Error>(())
            });
        }
        for done in all.join_all().await {
            done?;
        }
        store.fold().await?;
        store.close().await;
    }
    let store = open(&ours_at).await?;
    let raw = raw::connect(raw_at.url()).await?;
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        ours.push(per_second(A_REQUEST, claim_and_resolve(&*store).await?));
        raws.push(per_second(A_REQUEST, raw::claim_and_resolve(&raw).await?));
    }
    store.close().await;
    let (ours, raws) = (median(ours), median(raws));
    figures.note("claim and resolve: ours, in the store", ours, "/s");
    figures.note("claim and resolve: raw", raws, "/s");
    figures.at_least("claim and resolve, to raw", ours / raws, "x", 0.8);
    Ok(())
}
