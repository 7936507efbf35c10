//! How many runs stand where: the kept counters, and what came since they were folded.

use std::collections::HashMap;

use redrive_core::run::StateName;

pub(crate) use crate::shared::by_state::{ByState, Count};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::number;
use crate::postgres::reads::lookup::Whose;
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::{position, word};

/// The counters that a scope may see.
pub(crate) async fn counts(snapshot: &Snapshot<'_>, whose: Whose) -> Result<Vec<Count>> {
    match whose {
        Whose::Nobody => Ok(Vec::new()),
        Whose::All => {
            let rows = snapshot
                .rows(
                    "SELECT 0::bigint, state, queue, detail, sum(n)::bigint FROM (
                         SELECT state, queue, detail, n FROM totals
                         UNION ALL SELECT state, queue, detail, n FROM counter_deltas
                     ) counted GROUP BY state, queue, detail",
                    &[],
                )
                .await?;
            rows.iter().map(|row| Ok(count(row)?.1)).collect()
        }
        Whose::One(tenant) => {
            Ok(counts_of(snapshot, &[tenant], StateName::ALL).await?.into_iter().map(|(_, count)| count).collect())
        }
    }
}

/// Of these tenants, each with its own.
pub(crate) async fn counts_of(
    snapshot: &Snapshot<'_>,
    tenants: &[i64],
    states: &[StateName],
) -> Result<Vec<(i64, Count)>> {
    let states: Vec<i64> = states.iter().map(|state| position(StateName::ALL, state)).collect();
    let rows = snapshot
        .rows(
            "SELECT tenant, state, queue, detail, sum(n)::bigint FROM (
                 SELECT tenant, state, queue, detail, n FROM counts WHERE state = ANY($2) AND tenant = ANY($1)
                 UNION ALL SELECT tenant, state, queue, detail, n FROM counter_deltas
                     WHERE state = ANY($2) AND tenant = ANY($1)
             ) counted GROUP BY tenant, state, queue, detail",
            &[&tenants, &states],
        )
        .await?;
    rows.iter().map(count).collect()
}

fn count(row: &tokio_postgres::Row) -> Result<(i64, Count)> {
    let state = word(StateName::ALL, number(row, 1)?, "state")?;
    Ok((number(row, 0)?, Count { state, queue: number(row, 2)?, detail: number(row, 3)?, n: number(row, 4)? }))
}

/// Every queue's, over all tenants.
pub(crate) async fn by_queue(snapshot: &Snapshot<'_>) -> Result<HashMap<i64, ByState>> {
    let mut standings: HashMap<i64, ByState> = HashMap::new();
    for count in counts(snapshot, Whose::All).await? {
        standings.entry(count.queue).or_default().add(count.state, count.n);
    }
    Ok(standings)
}
