//! Lists of runs. Each page examines a bounded number of rows, whatever the filter: a search that has examined enough
//! answers with what it found and a cursor.

use std::collections::HashMap;
use std::sync::LazyLock;

use redrive_core::reason::Category;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{RunSummary, RunsPage, Severity, Sort};

use super::columns::{
    Columns, label, label_or_none, number, owned_or_none, parsed, parsed_or_empty, parsed_or_none, time, time_or_none,
    whole,
};
use super::cursor::{seal_numbers, unseal_numbers};
use super::filter::{CoveredColumns, ResolvedFilter, is_deferred, or_all_states, resolve};
use super::reader::{SqlParam, SqlParams, StoreReader};
use super::scan::{ListPosition, RunScan};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{PageCall, RunFilter, TenantScope};
use redrive_engine::runs::document::{HELD, position, word};

pub(crate) const PAGE_MAX: u32 = 500;
/// Rows that one page examines at most.
const EXAMINED_MAX: usize = 20_000;
/// Without a counter, counting stops here.
const COUNT_MAX: u64 = 10_000;
/// Rows that one call examines at most to count.
const COUNT_EXAMINED_MAX: u64 = 50_000;

/// A list by due time has only runs with one: scheduled and not held.
pub(crate) async fn list_runs(
    reader: &impl StoreReader,
    scope: &TenantScope,
    filter: &RunFilter,
    page: &PageCall,
    now: Timestamp,
) -> Result<RunsPage> {
    list_within(reader, scope, filter, page, now, EXAMINED_MAX).await
}

pub(crate) async fn list_within(
    reader: &impl StoreReader,
    scope: &TenantScope,
    filter: &RunFilter,
    page: &PageCall,
    now: Timestamp,
    examined_max: usize,
) -> Result<RunsPage> {
    // All that must stay the same for a cursor to be valid, except the page size.
    let question = format!("runs {scope:?} {filter:?} {}", page.sort);
    let after = page.cursor.as_deref().map(|cursor| unseal_numbers(&question, cursor)).transpose()?;
    let after = after.map(|[first, second]| ListPosition(first, second));
    let Some(filter) = resolve(reader, scope, filter, page.sort, now).await? else {
        let total = page.count.then_some(0);
        return Ok(RunsPage { runs: Vec::new(), next_cursor: None, total, total_capped: false });
    };
    let limit = usize::try_from(page.limit.clamp(1, PAGE_MAX)).unwrap_or(1);
    let count = async { if page.count { total(reader, &filter, page.sort).await.map(Some) } else { Ok(None) } };
    let (found, total) = tokio::try_join!(find(reader, &filter, page.sort, after, limit, examined_max), count)?;
    Ok(RunsPage {
        runs: summaries(reader, &found.runs).await?,
        next_cursor: found.next.map(|ListPosition(first, second)| seal_numbers(&question, &[first, second])),
        total: total.map(|total| total.n),
        total_capped: total.is_some_and(|total| total.is_capped),
    })
}

struct FoundRuns {
    runs: Vec<i64>,
    /// The last row examined, if there may be more after it.
    next: Option<ListPosition>,
}

async fn find(
    reader: &impl StoreReader,
    filter: &ResolvedFilter,
    sort: Sort,
    after: Option<ListPosition>,
    limit: usize,
    examined_max: usize,
) -> Result<FoundRuns> {
    let mut scan = RunScan::begin(reader, filter, sort, after, limit + 1).await?;
    let (mut runs, mut last) = (Vec::with_capacity(limit), after);
    for _ in 0..examined_max {
        let Some(examined) = scan.next().await? else { return Ok(FoundRuns { runs, next: None }) };
        if examined.is_match && runs.len() == limit {
            return Ok(FoundRuns { runs, next: last });
        }
        if examined.is_match {
            runs.push(examined.run);
        }
        last = Some(examined.position);
    }
    Ok(FoundRuns { runs, next: last })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Total {
    n: u64,
    /// There are or may be more.
    is_capped: bool,
}

/// How many runs match: from the counters if they can tell, otherwise counted up to a bound.
async fn total(reader: &impl StoreReader, filter: &ResolvedFilter, sort: Sort) -> Result<Total> {
    if !filter.is_counted() {
        return count_up(reader, filter, sort).await;
    }
    let hidden = async {
        match filter.hide_deferred {
            Some(now) => hidden(reader, filter, now).await,
            None => Ok(0),
        }
    };
    let (n, hidden) = tokio::try_join!(counted(reader, filter, sort), hidden)?;
    let n = n.saturating_sub(hidden);
    // Exact totals beyond the bound are promised for tenant, queue, state and reason only.
    let is_capped = (filter.details.is_some() || filter.held.is_some()) && n > COUNT_MAX;
    Ok(Total { n: if is_capped { COUNT_MAX } else { n }, is_capped })
}

async fn counted<R: StoreReader>(reader: &R, filter: &ResolvedFilter, sort: Sort) -> Result<u64> {
    let mut params = SqlParams::default();
    let states = or_all_states(filter.states.as_deref());
    let mut all = vec![R::one_of("state", SqlParam::Numbers(states), &mut params)];
    let table = if filter.tenant.is_some() { "counts" } else { "totals" };
    if let Some(tenant) = filter.tenant {
        all.push(format!("tenant = {}", params.add(tenant)));
    }
    if let Some(queues) = &filter.queues {
        all.push(R::one_of("queue", queues.as_slice().into(), &mut params));
    }
    if !filter.reasons.is_empty() {
        all.push(R::one_of("reason", SqlParam::Texts(filter.reasons.clone()), &mut params));
    }
    if let Some(details) = &filter.details {
        all.push(R::one_of("detail", details.as_slice().into(), &mut params));
    }
    let sql = R::counters(table, "state, detail", &all.join(" AND "));
    let counts = reader.rows(&sql, params.values()).await?.read(|row| {
        let is_counted = is_counted(number(row, 0)?, number(row, 1)?, filter.held, sort);
        Ok(if is_counted { number(row, 2)? } else { 0 })
    })?;
    Ok(u64::try_from(counts.iter().sum::<i64>()).unwrap_or(0))
}

/// Held runs have no due time, so a list by due time has none of them.
fn is_counted(state: i64, detail: i64, held: Option<bool>, sort: Sort) -> bool {
    let is_held = state == position(StateName::ALL, &StateName::Scheduled) && detail == HELD;
    held.is_none_or(|held| held == is_held) && !(sort == Sort::Due && is_held)
}

/// How many of them a default list hides.
async fn hidden<R: StoreReader>(reader: &R, filter: &ResolvedFilter, now: Timestamp) -> Result<u64> {
    let mut params = SqlParams::default();
    let deferred = is_deferred(&params.add(now));
    let mut shown = filter.clone();
    shown.hide_deferred = None;
    let and =
        shown.residual::<R>(CoveredColumns::default(), &mut params).map_or(String::new(), |sql| format!(" AND {sql}"));
    let sql = format!("SELECT count(*) FROM runs {} WHERE {deferred}{and}", R::index_hint("runs_deferred"));
    let n = reader.row(&sql, params.values()).await?.read(|row| whole(row, 0, "count"))?;
    Ok(n.unwrap_or(0))
}

async fn count_up(reader: &impl StoreReader, filter: &ResolvedFilter, sort: Sort) -> Result<Total> {
    let mut scan = RunScan::begin(reader, filter, sort, None, usize::MAX).await?;
    let mut n = 0;
    for _ in 0..COUNT_EXAMINED_MAX {
        let Some(examined) = scan.next().await? else { return Ok(Total { n, is_capped: false }) };
        n += u64::from(examined.is_match);
        if n > COUNT_MAX {
            return Ok(Total { n: COUNT_MAX, is_capped: true });
        }
    }
    let is_capped = scan.next().await?.is_some();
    Ok(Total { n, is_capped })
}

/// The columns of [`summary_of`], then the run number.
const SUMMARY: &str = "SELECT \
     runs.run_id, tenants.name, queues.name, runs.agent, runs.task_type, runs.state, runs.attempt, runs.revision, \
     runs.reason, runs.category, runs.detail, runs.severity, runs.environment, runs.customer, runs.model, \
     runs.provider, runs.tool, runs.step, runs.idempotency_key, head.public_id, head.template, \
     runs.received_at, runs.updated_at, runs.due, runs.held_by, runs.deferred_until, runs.merged_into, runs.replays, \
     runs.assigned_to, runs.id \
     FROM runs JOIN tenants ON tenants.id = runs.tenant JOIN queues ON queues.id = runs.queue \
     LEFT JOIN patterns own ON own.id = runs.pattern \
     LEFT JOIN patterns head ON head.id = coalesce(own.merged_into, own.id)";

static SUMMARIES: LazyLock<String> = LazyLock::new(|| format!("{SUMMARY} WHERE runs.id = ANY($1)"));

/// The runs with these numbers, in this order; a deleted one is left out.
pub(crate) async fn summaries(reader: &impl StoreReader, runs: &[i64]) -> Result<Vec<RunSummary>> {
    let read = reader.rows_any(&SUMMARIES, &[runs.into()]).await?.read(|row| Ok((number(row, 29)?, summary_of(row)?)));
    let mut found: HashMap<i64, RunSummary> = read?.into_iter().collect();
    Ok(runs.iter().filter_map(|run| found.remove(run)).collect())
}

pub(crate) async fn summary(reader: &impl StoreReader, run: i64) -> Result<RunSummary> {
    summaries(reader, &[run]).await?.pop().ok_or(Error::NotFound("run").into())
}

fn summary_of(row: &impl Columns) -> Result<RunSummary> {
    let state = word(StateName::ALL, number(row, 5)?, "state")?;
    Ok(RunSummary {
        run_id: parsed(row, 0, "run_id")?,
        tenant: parsed(row, 1, "tenant")?,
        queue: parsed(row, 2, "queue")?,
        agent: label_or_none(row, 3)?,
        task_type: label_or_none(row, 4)?,
        state,
        attempt: whole(row, 6, "attempt")?,
        revision: whole(row, 7, "revision")?,
        reason: parsed_or_empty(row, 8, "reason")?,
        category: category(number(row, 9)?)?,
        dead_because: dead_because(state, number(row, 10)?)?,
        severity: word(Severity::ALL, number(row, 11)?, "severity")?,
        environment: label(row, 12)?,
        customer: label_or_none(row, 13)?,
        model: label_or_none(row, 14)?,
        provider: label_or_none(row, 15)?,
        tool: label_or_none(row, 16)?,
        step: label_or_none(row, 17)?,
        idempotency_key: parsed_or_none(row, 18, "idempotency_key")?,
        pattern: owned_or_none(row, 19)?,
        template: owned_or_none(row, 20)?,
        received_at: time(row, 21)?,
        updated_at: time(row, 22)?,
        next_attempt_at: time_or_none(row, 23)?,
        held_by: label_or_none(row, 24)?,
        deferred_until: time_or_none(row, 25)?,
        merged_into: parsed_or_none(row, 26, "merged_into")?,
        replays: whole(row, 27, "replays")?,
        assigned_to: label_or_none(row, 28)?,
    })
}

/// A run that has not failed has -1.
fn category(number: i64) -> Result<Option<Category>> {
    if number == -1 { Ok(None) } else { Ok(word(&Category::ALL, number, "category").map(Some)?) }
}

fn dead_because(state: StateName, detail: i64) -> Result<Option<DeadBecause>> {
    if state == StateName::Dead { Ok(word(DeadBecause::ALL, detail, "dead_because").map(Some)?) } else { Ok(None) }
}
