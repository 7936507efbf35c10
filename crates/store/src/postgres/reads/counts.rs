//! How many there are: from the kept counters where they know, otherwise counted as far as is reasonable.

use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::Sort;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::number;
use crate::postgres::reads::filter::Wanted;
use crate::postgres::reads::params::{Params, Value};
use crate::postgres::reads::predicate::Answered;
use crate::postgres::reads::scan::Scan;
use crate::shared::counts::{Total, fits, or_all};
use crate::shared::filter::{COUNT_LOOKS_MAX, COUNT_MAX};
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::position;

pub(crate) async fn total(snapshot: &Snapshot<'_>, wanted: &Wanted, sort: Sort) -> Result<Total> {
    if !wanted.is_counted() {
        return count_up(snapshot, wanted, sort).await;
    }
    let hidden = async {
        match wanted.hide_deferred {
            Some(now) => hidden(snapshot, wanted, now).await,
            None => Ok(0),
        }
    };
    let (n, hidden) = tokio::try_join!(kept(snapshot, wanted, sort), hidden)?;
    Ok(Total::kept(n.saturating_sub(hidden), wanted.details.is_some() || wanted.held.is_some()))
}

/// The kept counters of a filter, and what came since they were folded.
async fn kept(snapshot: &Snapshot<'_>, wanted: &Wanted, sort: Sort) -> Result<u64> {
    let mut params = Params::default();
    let mut all = vec![format!("state = ANY({})", params.numbers(&or_all(wanted.states.as_deref())))];
    let table = if wanted.tenant.is_some() { "counts" } else { "totals" };
    if let Some(tenant) = wanted.tenant {
        all.push(format!("tenant = {}", params.number(tenant)));
    }
    if let Some(queues) = &wanted.queues {
        all.push(format!("queue = ANY({})", params.numbers(queues)));
    }
    if !wanted.reasons.is_empty() {
        all.push(format!("reason = ANY({})", params.add(Value::Texts(wanted.reasons.clone()))));
    }
    if let Some(details) = &wanted.details {
        all.push(format!("detail = ANY({})", params.numbers(details)));
    }
    let condition = all.join(" AND ");
    let sql = format!(
        "SELECT state, detail, sum(n)::bigint FROM (
             SELECT state, detail, n FROM {table} WHERE {condition}
             UNION ALL SELECT state, detail, n FROM counter_deltas WHERE {condition}
         ) counted GROUP BY state, detail"
    );
    let mut n = 0_i64;
    for row in snapshot.rows_of(&sql, &params).await? {
        if fits(number(&row, 0)?, number(&row, 1)?, wanted.held, sort) {
            n += number(&row, 2)?;
        }
    }
    Ok(u64::try_from(n).unwrap_or(0))
}

/// How many of them the default list hides.
async fn hidden(snapshot: &Snapshot<'_>, wanted: &Wanted, now: Timestamp) -> Result<u64> {
    let mut params = Params::default();
    let seen = Wanted { hide_deferred: None, ..wanted.clone() };
    let and = seen.residual(Answered::default(), &mut params).map_or(String::new(), |sql| format!(" AND {sql}"));
    let [dead, review] = [StateName::Dead, StateName::Review].map(|state| position(StateName::ALL, &state));
    let now = params.number(now.as_millis());
    let sql = format!(
        "SELECT count(*) FROM runs WHERE runs.deferred_until > {now} AND runs.state IN ({dead}, {review}){and}"
    );
    let rows = snapshot.rows_of(&sql, &params).await?;
    let n = rows.first().map_or(Ok(0), |row| number(row, 0))?;
    Ok(u64::try_from(n).unwrap_or(0))
}

async fn count_up(snapshot: &Snapshot<'_>, wanted: &Wanted, sort: Sort) -> Result<Total> {
    let mut scan = Scan::begin(snapshot, wanted, sort, None, usize::MAX).await?;
    let mut n = 0;
    for _ in 0..COUNT_LOOKS_MAX {
        let Some(candidate) = scan.next().await? else { return Ok(Total { n, capped: false }) };
        n += u64::from(candidate.hit);
        if n > COUNT_MAX {
            return Ok(Total { n: COUNT_MAX, capped: true });
        }
    }
    let capped = scan.next().await?.is_some();
    Ok(Total { n, capped })
}
