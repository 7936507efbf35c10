//! `GET /v1/runs`. Every page is a bounded piece of work, however large the store and whatever the filter: a search
//! that has looked at enough rows answers with what it found and where to go on.

use redrive_core::time::Timestamp;
use redrive_core::wire::{RunsPage, Sort};
use rusqlite::Connection;

pub(crate) use crate::shared::filter::PAGE_MAX;

use crate::shared::cursor::{seal_numbers, unseal_numbers};
use crate::shared::filter::{LOOKS_MAX, question};
use crate::sqlite::reads::counts::total;
use crate::sqlite::reads::filter::{Wanted, wanted};
use crate::sqlite::reads::scan::{Place, Scan};
use crate::sqlite::reads::summary::summaries;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{PageCall, RunFilter, TenantScope};

/// Sorted by due time, the list has only what has one: scheduled and not held.
pub(crate) fn list_runs(
    conn: &Connection,
    scope: &TenantScope,
    filter: &RunFilter,
    page: &PageCall,
    now: Timestamp,
) -> Result<RunsPage> {
    list_within(conn, scope, filter, page, now, LOOKS_MAX)
}

pub(crate) fn list_within(
    conn: &Connection,
    scope: &TenantScope,
    filter: &RunFilter,
    page: &PageCall,
    now: Timestamp,
    looks_max: usize,
) -> Result<RunsPage> {
    let question = question(scope, filter, page.sort);
    let after = page.cursor.as_deref().map(|cursor| unseal_numbers(&question, cursor)).transpose()?;
    let Some(wanted) = wanted(conn, scope, filter, page.sort, now)? else { return Ok(nothing(page.count)) };
    let after = after.map(|[first, second]| Place(first, second));
    let limit = usize::try_from(page.limit.clamp(1, PAGE_MAX)).unwrap_or(1);
    let found = find(conn, &wanted, page.sort, after, limit, looks_max)?;
    let total = if page.count { Some(total(conn, &wanted, page.sort)?) } else { None };
    Ok(RunsPage {
        runs: summaries(conn, &found.runs)?,
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

fn find(
    conn: &Connection,
    wanted: &Wanted,
    sort: Sort,
    after: Option<Place>,
    limit: usize,
    looks_max: usize,
) -> Result<Found> {
    let mut scan = Scan::begin(conn, wanted, sort, after, limit + 1)?;
    let (mut runs, mut last) = (Vec::with_capacity(limit), after);
    for _ in 0..looks_max {
        let Some(candidate) = scan.next()? else { return Ok(Found { runs, go_on: None }) };
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
