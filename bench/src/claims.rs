//! Claiming a thousand due runs and resolving them, fair over a hundred tenants, beside raw SQLite making the same
//! changes to the same rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use redrive_core::wire::LeasedRun;
use redrive_engine::{AttemptBody, LeaseCall, RunRef, Store, Success, TenantScope, encode};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::figures::{Figures, median, median_ratio, per_second};
use crate::raw::{CHANGES, COUNTS, DATABASE, TOTALS, What};
use crate::{Plan, raw};

pub const CLAIM: u32 = 1_000;
const ROUNDS: usize = 15;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    println!("Claim 1,000 and resolve 1,000, fair, with {} runs in the store", plan.large);
    let folder = tempfile::tempdir_in("target")?;
    // Each goes through the same runs in the same order, in a store of its own: the first to touch a page pays for it.
    let [ours_at, raw_at, bare_at] = ["ours", "raw", "bare"].map(|name| folder.path().join(name));
    for at in [&ours_at, &raw_at, &bare_at] {
        raw::fill(at, plan.large).await?;
    }
    let store = raw::open(&ours_at)?;
    let (raw, bare_raw) = (writer(&raw_at)?, writer(&bare_at)?);
    let (mut ours, mut raws, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(per_second(u64::from(CLAIM), claim_and_resolve(&store).await?));
        raws.push(per_second(u64::from(CLAIM), raw_claim_and_resolve(&raw, What::All)?));
        bare.push(per_second(u64::from(CLAIM), raw_claim_and_resolve(&bare_raw, What::Rows)?));
    }
    store.close().await;
    let [to_raw, to_bare] = [&raws, &bare].map(|raw| median_ratio(&ours, raw));
    let [ours, raws, bare] = [ours, raws, bare].map(median);
    figures.note("claim and resolve: ours, in the store", ours, "/s");
    figures.note("claim and resolve: raw", raws, "/s");
    figures.note("claim and resolve: raw without the counters", bare, "/s");
    figures.at_least("claim and resolve, to raw", to_raw, "x", 0.8);
    figures.note("claim and resolve, to raw without the counters", to_bare, "x");
    Ok(())
}

/// What a worker says of each is ready when the clock goes on: packing it is no work of the store's.
pub async fn claim_and_resolve(store: &dyn Store) -> Result<Duration> {
    let began = Instant::now();
    let leased = claim(store, CLAIM).await?;
    let claimed = began.elapsed();
    ensure!(leased.len() == CLAIM as usize, "{} were due", leased.len());
    let ends = successes(&leased)?;
    let began = Instant::now();
    resolve(store, ends).await?;
    Ok(claimed + began.elapsed())
}

pub async fn claim(store: &dyn Store, max: u32) -> Result<Vec<LeasedRun>> {
    let call = LeaseCall {
        scope: TenantScope::All,
        queues: Vec::new(),
        agents: None,
        max,
        lease_ms: None,
        worker: None,
        versions: Default::default(),
        payload_max_bytes: 16 << 20,
        by: None,
        request_id: None,
    };
    Ok(store.lease(call).await?)
}

pub fn successes(leased: &[LeasedRun]) -> Result<Vec<Success>> {
    leased.iter().map(success).collect()
}

pub async fn resolve(store: &dyn Store, ends: Vec<Success>) -> Result<()> {
    for end in join_all(ends.into_iter().map(|end| store.succeed(end)).collect()).await {
        end?;
    }
    Ok(())
}

/// All at once, as that many workers would; begun in their order.
pub async fn join_all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<T>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        let mut left = false;
        for (future, slot) in pinned.iter_mut().zip(&mut done) {
            if slot.is_none() {
                match future.as_mut().poll(cx) {
                    std::task::Poll::Ready(value) => *slot = Some(value),
                    std::task::Poll::Pending => left = true,
                }
            }
        }
        if left { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}

fn success(run: &LeasedRun) -> Result<Success> {
    let body = serde_json::to_vec(&AttemptBody::default())?;
    Ok(Success {
        at: RunRef { tenant: run.tenant.clone(), run_id: run.run_id.clone() },
        lease: Some(run.lease.parse()?),
        attempt: None,
        observed: Default::default(),
        digest: [7; 16],
        body: encode(&body),
        steps: Vec::new(),
        by: None,
    })
}

fn writer(folder: &Path) -> Result<Connection> {
    let conn = Connection::open(folder.join(DATABASE))?;
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 10000;")?;
    Ok(conn)
}

/// A run that raw has claimed.
struct Claimed {
    id: i64,
    tenant: i64,
    queue: i64,
    attempt: i64,
    reason: String,
}

/// The same rows: a thousand runs to running, what their workers get read, then to their end with an attempt each; a
/// transaction for either half, with the counters of all its runs where `what` says so.
fn raw_claim_and_resolve(conn: &Connection, what: What) -> Result<Duration> {
    let began = Instant::now();
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let claimed = raw_due(conn)?;
    for run in &claimed {
        conn.prepare_cached(
            "UPDATE runs SET state = 1, detail = 0, due = NULL, wake = ?2, attempt = ?3, updated_at = ?4, life = ?5 WHERE id = ?1",
        )?
        .execute(params![run.id, 4_000_000_000_000_i64, run.attempt + 1, 5, LEASED])?;
    }
    if what == What::All {
        count(conn, &claimed, (SCHEDULED, RUNNING), "started")?;
    }
    conn.execute_batch("COMMIT")?;
    for run in &claimed {
        // What its worker gets.
        conn.prepare_cached("SELECT kind, about, body FROM payloads WHERE run = ?1 AND revision = 1")?
            .query_row([run.id], |row| row.get::<_, i64>(0))
            .optional()?;
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let body = encode(b"{}");
    for run in &claimed {
        conn.prepare_cached(
            "UPDATE runs SET state = 4, detail = 0, due = NULL, wake = NULL, attempt = ?2, updated_at = ?3, life = ?4 WHERE id = ?1",
        )?
        .execute(params![run.id, run.attempt + 1, 6, r#"{"e":1,"ea":2,"en":"succeeded","pb":0}"#])?;
        conn.prepare_cached(
            "INSERT INTO attempts (run, attempt, outcome, digest, state, pattern_new, recorded_at, origin, body)
             VALUES (?1, ?2, 0, ?3, 4, 0, 5, ?4, ?5)",
        )?
        .execute(params![
            run.id,
            run.attempt + 1,
            [7_u8; 16],
            r#"{"began_at":"2026-11-15T20:00:00.000Z","revision":1}"#,
            body
        ])?;
    }
    if what == What::All {
        count(conn, &claimed, (RUNNING, SUCCEEDED), "succeeded")?;
    }
    conn.execute_batch("COMMIT")?;
    ensure!(claimed.len() == CLAIM as usize, "{} were due", claimed.len());
    Ok(began.elapsed())
}

/// States, as their column has them.
const SCHEDULED: i64 = 0;
const RUNNING: i64 = 1;
const SUCCEEDED: i64 = 4;
const LEASED: &str = r#"{"e":1,"ea":2,"l":{"expires_at":1794772860000,"lease_ms":60000,"progress_at":1794772800000,"deadline_at":1794776400000,"began_at":1794772800000},"pb":0}"#;

/// Ten of each tenant's.
fn raw_due(conn: &Connection) -> Result<Vec<Claimed>> {
    let mut claimed = Vec::new();
    for queue in 1..=10 {
        for tenant in 1..=100 {
            let mut due = conn.prepare_cached(
                "SELECT id, attempt, reason, run_id, life FROM runs WHERE queue = ?1 AND tenant = ?2 AND due <= ?3
                 ORDER BY due LIMIT 10",
            )?;
            let found = due.query_map(params![queue, tenant, i64::MAX], |row| {
                Ok(Claimed { id: row.get(0)?, tenant, queue, attempt: row.get(1)?, reason: row.get(2)? })
            })?;
            claimed.extend(found.collect::<Result<Vec<_>, _>>()?);
        }
    }
    Ok(claimed)
}

/// What a commit writes beside its runs, summed over them.
fn count(conn: &Connection, claimed: &[Claimed], (from, to): (i64, i64), kind: &str) -> Result<()> {
    let mut counts: BTreeMap<(i64, i64, &str), i64> = BTreeMap::new();
    let mut totals: BTreeMap<(i64, &str), i64> = BTreeMap::new();
    let mut hours: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for run in claimed {
        *counts.entry((run.tenant, run.queue, &run.reason)).or_default() += 1;
        *totals.entry((run.queue, &run.reason)).or_default() += 1;
        *hours.entry((run.tenant, run.queue)).or_default() += 1;
    }
    for (state, sign) in [(from, -1), (to, 1)] {
        for ((tenant, queue, reason), n) in &counts {
            conn.prepare_cached(COUNTS)?.execute(params![state, tenant, queue, reason, 0, sign * n])?;
        }
        for ((queue, reason), n) in &totals {
            conn.prepare_cached(TOTALS)?.execute(params![state, queue, reason, 0, sign * n])?;
        }
    }
    for ((tenant, queue), n) in &hours {
        conn.prepare_cached(&format!(
            "INSERT INTO hours (tenant, queue, reason, hour, started, failed, retried, dead, recovered, succeeded)
             VALUES (?1, ?2, '', 0, 0, 0, 0, 0, 0, 0) ON CONFLICT DO UPDATE SET {kind} = {kind} + ?3"
        ))?
        .execute(params![tenant, queue, n])?;
    }
    let ids: Vec<u8> = claimed.iter().flat_map(|run| run.id.to_le_bytes()).collect();
    conn.prepare_cached(CHANGES)?.execute([ids])?;
    Ok(())
}
