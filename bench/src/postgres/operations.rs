//! Bulk replay: every run of a store, in the store and raw; and the cost of one item in a small set beside that in a large
//! one.

use std::time::Instant;

use anyhow::Result;
use redrive_store::Store as _;

use super::made::{Made, copy};
use super::place::{Place, connect, open};
use super::raw_operations::raw_replay;
use crate::Plan;
use crate::figures::Figures;
use crate::operations::{SMALL, note, replay_all};

pub async fn measure(plan: &Plan, figures: &mut Figures, place: &Place) -> Result<()> {
    println!("Bulk replay of {} and of {SMALL} on PostgreSQL", plan.large);
    let mut took = Vec::new();
    for runs in [SMALL.min(plan.large), plan.large] {
        let database = copy(place, Made::Dead, runs).await?;
        let store = open(&database).await?;
        let began = Instant::now();
        let memory = replay_all(&*store, runs).await?;
        took.push((began.elapsed(), memory));
        store.close().await;
    }
    let raw_at = copy(place, Made::Dead, plan.large).await?;
    let raw = raw_replay(&connect(raw_at.url()).await?, plan.large).await?;
    let [(small, _), (large, memory)] = &took[..] else { unreachable!("a small set and a large one") };
    note(plan, figures, [*small, *large, raw]);
    memory.note(figures);
    Ok(())
}
