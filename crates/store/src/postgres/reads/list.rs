//! `GET /v1/runs`. Every page is a bounded piece of work, however large the store and whatever the filter: a search
//! that has looked at enough rows answers with what it found and where to go on.

use redrive_core::time::Timestamp;
use redrive_core::wire::{RunsPage, Sort};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::counts::total;
use crate::postgres::reads::filter::{Wanted, wanted};
use crate::postgres::reads::scan::{Place, Scan};
use crate::postgres::reads::summary::summaries;
use crate::shared::cursor::{seal_numbers, unseal_numbers};
use crate::shared::filter::{LOOKS_MAX, PAGE_MAX, question};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{PageCall, RunFilter, TenantScope};

/// Sorted by due time, the list has only what has one: scheduled and not held.
pub(crate) async fn list_runs(
    snapshot: &Snapshot<'_>,
    scope: &TenantScope,
    filter: &RunFilter,
    page: &PageCall,
    now: Timestamp,
) -> Result<RunsPage> {
    let question = question(scope, filter, page.sort);
    let after = page.cursor.as_deref().map(|cursor| unseal_numbers(&question, cursor)).transpose()?;
    let Some(wanted) = wanted(snapshot, scope, filter, page.sort, now).await? else { return Ok(nothing(page.count)) };
    let after = after.map(|[first, second]| Place(first, second));
    let limit = usize::try_from(page.limit.clamp(1, PAGE_MAX)).unwrap_or(1);
    // Asked for together: on the way to the database and back, a second question costs nothing.
    let count = async { if page.count { total(snapshot, &wanted, page.sort).await.map(Some) } else { Ok(None) } };
    let (found, total) = tokio::try_join!(find(snapshot, &wanted, page.sort, after, limit), count)?;
    Ok(RunsPage {
        runs: summaries(snapshot, &found.runs).await?,
        next_cursor: found.go_on.map(|Place(first, second)| seal_numbers(&question, &[first, second])),
        total: total.map(|total| total.n),
        total_capped: total.is_some_and(|total| total.capped),
    })
}

fn nothing(count: bool) -> RunsPage {
    RunsPage { runs: Vec::new(), next_cursor: None, total: count.then_some(0), total_capped: false }
}

struct Found {
    runs: Vec<i64>,
    /// The last row looked at, when there is or may be more behind it.
    go_on: Option<Place>,
}

async fn find(
    snapshot: &Snapshot<'_>,
    wanted: &Wanted,
    sort: Sort,
    after: Option<Place>,
    limit: usize,
) -> Result<Found> {
    let mut scan = Scan::begin(snapshot, wanted, sort, after, limit + 1).await?;
    let (mut runs, mut last) = (Vec::with_capacity(limit), after);
    for _ in 0..LOOKS_MAX {
        let Some(candidate) = scan.next().await? else { return Ok(Found { runs, go_on: None }) };
        if candidate.hit && runs.len() == limit {
            return Ok(Found { runs, go_on: last });
        }
        if candidate.hit {
            runs.push(candidate.run);
        }
        last = Some(candidate.place);
    }
    Ok(Found { runs, go_on: last })
}
