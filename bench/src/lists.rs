//! The first page and the exact count of every state, in the store, at one size and at ten times that.

use std::time::Instant;

use anyhow::Result;
use redrive_core::run::StateName;
use redrive_core::wire::Sort;
use redrive_store::{PageCall, RunFilter, Store, TenantScope};

use crate::Plan;
use crate::figures::{Figures, median};
use crate::made;

const ROUNDS: usize = 101;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::tempdir_in("target")?;
    println!("First list page and exact count of every state");
    let mut slowest = Vec::new();
    for runs in [plan.large, plan.huge] {
        let store = folder.path().join(runs.to_string());
        made::fill(&store, runs).await?;
        let store = made::open(&store)?;
        slowest.push(slowest_ms(&store, runs, figures).await?);
        store.close().await;
    }
    figures.at_most("list and count, slowest state, large store: p50", slowest[0], "ms", 0.5);
    figures.at_most("the same with ten times as many", slowest[1] / slowest[0], "x", 2.0);
    Ok(())
}

/// The slowest state's p50.
pub async fn slowest_ms(store: &dyn Store, runs: u64, figures: &mut Figures) -> Result<f64> {
    let mut worst: f64 = 0.0;
    for state in StateName::ALL {
        let p50 = p50_ms(store, *state).await?;
        figures.note(format!("list and count, {state}, {runs} runs: p50"), p50, "ms");
        worst = worst.max(p50);
    }
    Ok(worst)
}

async fn p50_ms(store: &dyn Store, state: StateName) -> Result<f64> {
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        let filter = RunFilter { states: vec![state], ..RunFilter::default() };
        let page = PageCall { sort: Sort::NewestFirst, limit: 50, cursor: None, count: true };
        let began = Instant::now();
        let page = store.runs(&TenantScope::All, filter, page).await?;
        waits.push(began.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(page.runs.len() == 50 && page.total.is_some(), "{state} is not listed");
    }
    Ok(median(waits))
}
