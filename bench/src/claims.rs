//! Claiming a thousand due runs and resolving them, fair over a hundred tenants, beside raw SQLite making the same
//! changes to the same rows.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use redrive_core::wire::LeasedRun;
use redrive_store::{AttemptBody, LeaseCall, RunRef, Store, Success, TenantScope, encode};
use rusqlite::{Connection, params};

use crate::Plan;
use crate::figures::{Figures, median, per_second};
use crate::made;
use crate::raw::DATABASE;

pub const CLAIM: u32 = 1_000;
const ROUNDS: usize = 5;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    println!("Claim 1,000 and resolve 1,000, fair, with {} runs in the store", plan.large);
    let folder = tempfile::tempdir_in("target")?;
    let (ours_at, raw_at) = (folder.path().join("ours"), folder.path().join("raw"));
    made::fill(&ours_at, plan.large).await?;
    made::fill(&raw_at, plan.large).await?;
    let store = made::open(&ours_at)?;
    let conn = writer(&raw_at)?;
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(per_second(u64::from(CLAIM), claim_and_resolve(&store).await?));
        raws.push(per_second(u64::from(CLAIM), raw_claim_and_resolve(&conn)?));
    }
    store.close().await;
    let (ours, raws) = (median(ours), median(raws));
    figures.note("claim and resolve: ours, in the store", ours, "/s");
    figures.note("claim and resolve: raw", raws, "/s");
    figures.at_least("claim and resolve, to raw", ours / raws, "x", 0.8);
    Ok(())
}

pub async fn claim_and_resolve(store: &dyn Store) -> Result<Duration> {
    let began = Instant::now();
    let leased = claim(store, CLAIM).await?;
    ensure!(leased.len() == CLAIM as usize, "{} were due", leased.len());
    resolve(store, &leased).await?;
    Ok(began.elapsed())
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
    };
    Ok(store.lease(call).await?)
}

pub async fn resolve(store: &dyn Store, leased: &[LeasedRun]) -> Result<()> {
    let mut ends = Vec::new();
    for run in leased {
        ends.push(store.succeed(success(run)?));
    }
    for end in join_all(ends).await {
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
    })
}

fn writer(folder: &Path) -> Result<Connection> {
    let conn = Connection::open(folder.join(DATABASE))?;
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 10000;")?;
    Ok(conn)
}

/// The same rows: a thousand runs to running, then to their end with an attempt each; a transaction for either half.
fn raw_claim_and_resolve(conn: &Connection) -> Result<Duration> {
    let began = Instant::now();
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let mut claimed = Vec::new();
    for queue in 1..=10 {
        for tenant in 1..=100 {
            let mut due = conn.prepare_cached(
                "SELECT id, tenant, queue, run_id, attempt, life FROM runs WHERE queue = ?1 AND tenant = ?2 AND due <= ?3
                 ORDER BY due LIMIT 10",
            )?;
            let found = due.query_map(params![queue, tenant, i64::MAX], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(4)?, row.get::<_, String>(3)?))
            })?;
            claimed.extend(found.collect::<Result<Vec<_>, _>>()?);
        }
    }
    let lease =
        r#"{"e":1,"ea":2,"l":{"x":1794772860000,"ms":60000,"p":1794772800000,"d":1794776400000,"b":1794772800000}}"#;
    for (id, attempt, _) in &claimed {
        conn.prepare_cached(
            "UPDATE runs SET state = 1, detail = 0, due = NULL, wake = ?2, attempt = ?3, updated_at = ?4, life = ?5 WHERE id = ?1",
        )?
        .execute(params![id, 4_000_000_000_000_i64, attempt + 1, 5, lease])?;
    }
    conn.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
    let body = encode(b"{}");
    for (id, attempt, _) in &claimed {
        conn.prepare_cached(
            "UPDATE runs SET state = 4, detail = 0, due = NULL, wake = NULL, attempt = ?2, updated_at = ?3, life = ?4 WHERE id = ?1",
        )?
        .execute(params![id, attempt + 1, 6, r#"{"e":1,"ea":2,"en":"succeeded"}"#])?;
        conn.prepare_cached(
            "INSERT INTO attempts (id, outcome, epoch, digest, state, pattern_new, recorded_at, origin, body)
             VALUES (?1, 0, 1, ?2, 4, 0, 5, ?3, ?4)",
        )?
        .execute(params![
            (id << 20) | (attempt + 1),
            [7_u8; 16],
            r#"{"began_at":"2026-11-15T20:00:00.000Z","revision":1}"#,
            body
        ])?;
    }
    conn.execute_batch("COMMIT")?;
    ensure!(claimed.len() == CLAIM as usize, "{} were due", claimed.len());
    Ok(began.elapsed())
}
