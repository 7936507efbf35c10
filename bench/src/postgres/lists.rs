//! The first page and the exact count of every state, at ten thousand runs and at a million.

use anyhow::Result;
use redrive_store::Store as _;

use super::made::{Made, copy};
use super::place::{Place, open};
use crate::Plan;
use crate::figures::Figures;
use crate::lists::slowest_ms;

const SMALLER: u64 = 100;

pub async fn measure(plan: &Plan, figures: &mut Figures, place: &Place) -> Result<()> {
    println!("First list page and exact count of every state on PostgreSQL");
    let mut slowest = Vec::new();
    for runs in [plan.large / SMALLER, plan.large] {
        let database = copy(place, Made::Mixed, runs).await?;
        let store = open(&database).await?;
        slowest.push(slowest_ms(&*store, runs, figures).await?);
        store.close().await;
    }
    figures.at_most("list and count, slowest state, large store: p50", slowest[1], "ms", 2.0);
    figures.at_most("the same, to a hundredth of the runs", slowest[1] / slowest[0], "x", 2.0);
    Ok(())
}
