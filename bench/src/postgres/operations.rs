//! Bulk replay: every run of a store, in the store and raw; and the cost of one item in a small set beside that in a large
//! one.

use std::time::{Duration, Instant};

use anyhow::Result;
use redrive_store::Store as _;

use super::made::{Made, copy};
use super::place::{Place, connect, open};
use super::raw_operations::raw_replay;
use crate::Plan;
use crate::figures::Figures;
use crate::operations::{Memory, SMALL, note, replay_all};

pub async fn measure(plan: &Plan, figures: &mut Figures, place: &Place) -> Result<()> {
    println!("Bulk replay of {} and of {SMALL} on PostgreSQL", plan.large);
    let (small, _) = replay(place, SMALL.min(plan.large)).await?;
    let (mut pairs, mut grown) = (Vec::new(), None);
    for _ in 0..plan.pairs {
        let (large, memory) = replay(place, plan.large).await?;
        let raw_at = copy(place, Made::Dead, plan.large).await?;
        pairs.push([large, raw_replay(&connect(raw_at.url()).await?, plan.large).await?]);
        // What the first took the others find.
        grown.get_or_insert(memory);
    }
    note(plan, figures, small, &pairs);
    grown.iter().for_each(|memory| memory.note(figures));
    Ok(())
}

/// Every run of a store that has so many.
async fn replay(place: &Place, runs: u64) -> Result<(Duration, Memory)> {
    let database = copy(place, Made::Dead, runs).await?;
    let store = open(&database).await?;
    let began = Instant::now();
    let memory = replay_all(&*store, runs).await?;
    let took = began.elapsed();
    store.close().await;
    Ok((took, memory))
}
