//! Claiming a thousand due runs and resolving them, fair over a hundred tenants, in the store and raw.

use anyhow::Result;

use super::made::{Made, copy};
use super::place::{Place, connect, open};
use super::raw_claims;
use crate::Plan;
use crate::claims::{CLAIM, claim_and_resolve};
use crate::figures::{Figures, median, per_second};
use redrive_store::Store as _;

/// The first of them finds nothing prepared, on either side.
const ROUNDS: usize = 9;

pub async fn measure(plan: &Plan, figures: &mut Figures, place: &Place) -> Result<()> {
    println!("Claim 1,000 and resolve 1,000 on PostgreSQL, fair, with {} runs in the store", plan.large);
    let (ours_at, raw_at) = (copy(place, Made::Mixed, plan.large).await?, copy(place, Made::Mixed, plan.large).await?);
    let store = open(&ours_at).await?;
    let client = connect(raw_at.url()).await?;
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(per_second(u64::from(CLAIM), claim_and_resolve(&*store).await?));
        raws.push(per_second(u64::from(CLAIM), raw_claims::claim_and_resolve(&client).await?));
        store.fold().await?;
    }
    store.close().await;
    let (ours, raws) = (median(ours), median(raws));
    figures.note("claim and resolve: ours, in the store", ours, "/s");
    figures.note("claim and resolve: raw", raws, "/s");
    figures.at_least("claim and resolve, to raw", ours / raws, "x", 0.8);
    Ok(())
}
