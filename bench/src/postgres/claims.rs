//! Claiming a thousand due runs and resolving them, fair over a hundred tenants: in the store, and by raw SQL.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use redrive_engine::{Store as _, encode};
use tokio_postgres::{Client, Row};

use super::raw::{Append, Bound, Deltas, Moved, StateDetail, send_and_commit};
use super::server::{Dataset, Postgres, connect, copy, open};
use crate::Plan;
use crate::claims::{CLAIM, claim_and_resolve};
use crate::figures::{Figures, median, median_ratio, per_second};
use crate::raw::What;

/// The first of them finds nothing prepared, on either side.
const ROUNDS: usize = 45;

pub async fn measure(plan: &Plan, figures: &mut Figures, postgres: &Postgres) -> Result<()> {
    println!("Claim 1,000 and resolve 1,000 on PostgreSQL, fair, with {} runs in the store", plan.large);
    // Each goes through the same runs in the same order, in a store of its own: the first to touch a page pays for it.
    let copy = || copy(postgres, Dataset::Mixed, plan.large);
    let (ours_at, raw_at, bare_at) = (copy().await?, copy().await?, copy().await?);
    let store = open(&ours_at).await?;
    let (raw, bare_raw) = (connect(raw_at.url()).await?, connect(bare_at.url()).await?);
    let (mut ours, mut raws, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(per_second(u64::from(CLAIM), claim_and_resolve(&*store).await?));
        raws.push(per_second(u64::from(CLAIM), raw_claim_and_resolve(&raw, What::All).await?));
        bare.push(per_second(u64::from(CLAIM), raw_claim_and_resolve(&bare_raw, What::Rows).await?));
        store.fold().await?;
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

const CLAIM_DUE: &str =
    "UPDATE runs SET state = 1, detail = 0, due = NULL, wake = 4000000000000, attempt = attempt + 1,
         updated_at = 5, life = $1
     WHERE id = ANY(ARRAY(SELECT due.id FROM generate_series(1, 10) AS q(queue)
         CROSS JOIN generate_series(1, 100) AS t(tenant) CROSS JOIN LATERAL (
             SELECT id FROM runs WHERE runs.queue = q.queue AND runs.tenant = t.tenant AND due <= 4000000000000
             ORDER BY due, id LIMIT 10 FOR UPDATE SKIP LOCKED) AS due))
     RETURNING id, tenant, queue, run_id, attempt, revision, agent, idempotency_key, reason";
const PAYLOADS: &str =
    "SELECT payload.*, q_run FROM unnest($1::bigint[], $2::bigint[]) AS q(q_run, q_revision) CROSS JOIN LATERAL (
         SELECT kind, about, body FROM payloads WHERE run = q_run AND revision = q_revision LIMIT 1) AS payload";
const RAW_RESOLVE: &str = "UPDATE runs SET state = 4, wake = NULL, updated_at = 6, life = $2 WHERE id = ANY($1)";
const ATTEMPTS: &str =
    "INSERT INTO attempts (run, attempt, outcome, digest, state, pattern_new, recorded_at, origin, body)
     SELECT run, attempt, 0, $3, 4, 0, 5, $4, $5 FROM unnest($1::bigint[], $2::bigint[]) AS new(run, attempt)";

const LEASED: &[u8] =
    br#"{"e":1,"ea":2,"l":{"expires_at":1794772860000,"lease_ms":60000,"progress_at":1794772800000,"deadline_at":1794776400000,"began_at":1794772800000},"pb":327}"#;
const ENDED: &[u8] = br#"{"e":1,"ea":2,"en":"succeeded","pb":327}"#;
const ORIGIN: &[u8] = br#"{"began_at":"2026-11-15T20:00:00.000Z","revision":1}"#;

/// Where a claimed run was, is, and ends.
const SCHEDULED: StateDetail = (0, 0);
const RUNNING: StateDetail = (1, 0);
const SUCCEEDED: StateDetail = (4, 0);

pub async fn raw_claim_and_resolve(client: &Client, what: What) -> Result<Duration> {
    let (claim, payloads) = (client.prepare(CLAIM_DUE).await?, client.prepare(PAYLOADS).await?);
    let (resolve, attempts) = (client.prepare(RAW_RESOLVE).await?, client.prepare(ATTEMPTS).await?);
    let append = Append::prepare(client).await?;
    let began = Instant::now();
    let (_, claimed) = tokio::try_join!(client.batch_execute("BEGIN"), client.query(&claim, &[&LEASED]))?;
    let moved: Vec<Moved> = claimed.iter().map(moved).collect();
    let counted = |from, to| (what == What::All).then(|| Deltas::of(&moved, Some(from), to, true));
    end(client, &[], &append, counted(SCHEDULED, RUNNING)).await?;
    let column = |at: usize| claimed.iter().map(|row| row.get(at)).collect::<Vec<i64>>();
    let ids: Vec<i64> = moved.iter().map(|moved| moved.run).collect();
    let (ended, revisions) = (column(4), column(5));
    let carried = client.query(&payloads, &[&ids, &revisions]).await?;
    let (digest, body) = ([7_u8; 16].as_slice(), encode(b"{}"));
    client.batch_execute("BEGIN").await?;
    let rows: [Bound<'_>; 2] = [(&resolve, &[&ids, &ENDED]), (&attempts, &[&ids, &ended, &digest, &ORIGIN, &body])];
    end(client, &rows, &append, counted(RUNNING, SUCCEEDED)).await?;
    let took = began.elapsed();
    ensure!(ids.len() == CLAIM as usize && carried.len() == ids.len(), "{} were due", ids.len());
    Ok(took)
}

/// The rest of a transaction.
async fn end(client: &Client, rows: &[Bound<'_>], append: &Append, counted: Option<Deltas>) -> Result<()> {
    let values = counted.as_ref().map(Deltas::values);
    let all: Vec<Bound<'_>> = rows.iter().copied().chain(values.iter().flat_map(|values| append.all(values))).collect();
    send_and_commit(client, &all).await?;
    Ok(())
}

fn moved(row: &Row) -> Moved {
    Moved { run: row.get(0), tenant: row.get(1), queue: row.get(2), reason: row.get(8), pattern: None }
}
