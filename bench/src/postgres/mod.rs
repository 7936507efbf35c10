//! The same figures on PostgreSQL, each beside raw PostgreSQL writing the same rows in the same run with the same settings
//! (`fsync` and `synchronous_commit` on).

mod claims;
mod dead_tuples;
mod ingest;
mod operations;
mod raw;
mod replicas;
mod server;

use anyhow::Result;
use redrive_engine::Store as _;
use server::{Dataset, Postgres, copy, open};

use crate::Plan;
use crate::figures::Figures;
use crate::pages::slowest_ms;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let postgres = Postgres::of(plan)?;
    println!("{}", postgres.describe()?);
    if plan.wants("ingest") || plan.wants("ndjson") {
        ingest::measure(plan, figures, &postgres).await?;
    }
    if plan.wants("claims") {
        claims::measure(plan, figures, &postgres).await?;
    }
    if plan.wants("dead-tuples") {
        dead_tuples::measure(plan, figures, &postgres).await?;
    }
    if plan.wants("lists") {
        measure_lists(plan, figures, &postgres).await?;
    }
    if plan.wants("operations") {
        operations::measure(plan, figures, &postgres).await?;
    }
    if plan.wants("replicas") {
        replicas::measure(plan, figures, &postgres).await?;
    }
    Ok(())
}

const SMALLER: u64 = 100;

pub async fn measure_lists(plan: &Plan, figures: &mut Figures, postgres: &Postgres) -> Result<()> {
    println!("First list page and exact count of every state on PostgreSQL");
    let mut slowest = Vec::new();
    for runs in [plan.large / SMALLER, plan.large] {
        let database = copy(postgres, Dataset::Mixed, runs).await?;
        let store = open(&database).await?;
        slowest.push(slowest_ms(&*store, runs, figures).await?);
        store.close().await;
    }
    figures.at_most("list and count, slowest state, large store: p50", slowest[1], "ms", 2.0);
    figures.at_most("the same, to a hundredth of the runs", slowest[1] / slowest[0], "x", 2.0);
    Ok(())
}
