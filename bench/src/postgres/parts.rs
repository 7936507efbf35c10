//! Which parts there are, and the server they share.

use anyhow::Result;

use super::place::Place;
use super::{claims, dead_tuples, ingest, lists, operations, replicas};
use crate::Plan;
use crate::figures::Figures;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let place = Place::of(plan)?;
    println!("{}", place.says()?);
    if plan.wants("ingest") || plan.wants("ndjson") {
        ingest::measure(plan, figures, &place).await?;
    }
    if plan.wants("claims") {
        claims::measure(plan, figures, &place).await?;
    }
    if plan.wants("dead-tuples") {
        dead_tuples::measure(plan, figures, &place).await?;
    }
    if plan.wants("lists") {
        lists::measure(plan, figures, &place).await?;
    }
    if plan.wants("operations") {
        operations::measure(plan, figures, &place).await?;
    }
    if plan.wants("replicas") {
        replicas::measure(plan, figures, &place).await?;
    }
    Ok(())
}
