//! Claiming a thousand due runs and resolving them, fair over a hundred tenants, in the store and raw.

use anyhow::Result;

use super::made::{Made, copy};
use super::place::{Place, connect, open};
use super::raw_claims;
use crate::Plan;
use crate::claims::{CLAIM, claim_and_resolve};
use crate::figures::{Figures, median, per_second, to};
use crate::raw::What;
use redrive_store::Store as _;

/// The first of them finds nothing prepared, on either side.
const ROUNDS: usize = 45;

pub async fn measure(plan: &Plan, figures: &mut Figures, place: &Place) -> Result<()> {
    println!("Claim 1,000 and resolve 1,000 on PostgreSQL, fair, with {} runs in the store", plan.large);
    // Each goes through the same runs in the same order, in a store of its own: whoever comes to a page first pays for it.
    let copy = || copy(place, Made::Mixed, plan.large);
    let (ours_at, raw_at, bare_at) = (copy().await?, copy().await?, copy().await?);
    let store = open(&ours_at).await?;
    let (raw, bare_raw) = (connect(raw_at.url()).await?, connect(bare_at.url()).await?);
    let (mut ours, mut raws, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(per_second(u64::from(CLAIM), claim_and_resolve(&*store).await?));
        raws.push(per_second(u64::from(CLAIM), raw_claims::claim_and_resolve(&raw, What::All).await?));
        bare.push(per_second(u64::from(CLAIM), raw_claims::claim_and_resolve(&bare_raw, What::Rows).await?));
        store.fold().await?;
    }
    store.close().await;
    let [to_raw, to_bare] = [&raws, &bare].map(|raw| to(&ours, raw));
    let [ours, raws, bare] = [ours, raws, bare].map(median);
    figures.note("claim and resolve: ours, in the store", ours, "/s");
    figures.note("claim and resolve: raw", raws, "/s");
    figures.note("claim and resolve: raw without the counters", bare, "/s");
    figures.at_least("claim and resolve, to raw", to_raw, "x", 0.8);
    figures.note("claim and resolve, to raw without the counters", to_bare, "x");
    Ok(())
}
