//! Reads runs in the order of a list: picks index ranges that are sorted that way, and merges them chunk by chunk.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use redrive_core::wire::Sort;

use super::columns::{Columns, number, text};
use super::filter::{CoveredColumns, ResolvedFilter, or_all_states};
use super::lookup::{queue_numbers, queue_numbers_of};
use super::reader::{SqlParam, SqlParams, StoreReader};
use redrive_engine::error::{Error, PortResult as Result};

/// With more patterns than this, one range over all runs reads less.
const PATTERN_RANGES_MAX: usize = 256;
/// The rows of the indexes of urgent runs, in the words of their migration: a planner only uses a partial index for a
/// query that repeats its condition.
pub(crate) const IS_URGENT: &str = "runs.severity >= 2";

/// Where a row is in a list; smaller comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListPosition(pub(crate) i64, pub(crate) i64);

/// An index of `runs` that lists are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunIndex {
    PrimaryKey,
    State,
    TenantState,
    Urgent,
    TenantUrgent,
    Pattern,
    Due,
}

impl RunIndex {
    /// None for the primary key.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::PrimaryKey => None,
            Self::State => Some("runs_state"),
            Self::TenantState => Some("runs_tenant_state"),
            Self::Urgent => Some("runs_urgent"),
            Self::TenantUrgent => Some("runs_tenant_urgent"),
            Self::Pattern => Some("runs_pattern"),
            Self::Due => Some("runs_due"),
        }
    }

    /// The columns before those that the list is sorted by.
    pub(crate) fn key_columns(self) -> &'static [&'static str] {
        match self {
            Self::PrimaryKey => &[],
            Self::State => &["state"],
            Self::TenantState => &["tenant", "state"],
            Self::Urgent => &["severity", "state"],
            Self::TenantUrgent => &["tenant", "severity", "state"],
            Self::Pattern => &["pattern"],
            Self::Due => &["queue", "tenant"],
        }
    }

    /// The condition of a partial index.
    pub(crate) fn condition(self) -> Option<&'static str> {
        match self {
            Self::PrimaryKey | Self::State | Self::TenantState => None,
            Self::Urgent | Self::TenantUrgent => Some(IS_URGENT),
            Self::Pattern => Some("runs.pattern IS NOT NULL"),
            Self::Due => Some("runs.due IS NOT NULL"),
        }
    }

    /// Only scheduled runs have a due time, and a pattern belongs to one tenant.
    fn covers(self) -> CoveredColumns {
        let none = CoveredColumns { ids: self != Self::Due, ..CoveredColumns::default() };
        match self {
            Self::PrimaryKey => none,
            Self::State | Self::Urgent => CoveredColumns { state: true, ..none },
            Self::TenantState | Self::TenantUrgent => CoveredColumns { tenant: true, state: true, ..none },
            Self::Pattern => CoveredColumns { tenant: true, pattern: true, ..none },
            Self::Due => CoveredColumns { tenant: true, queue: true, state: true, ..none },
        }
    }
}

/// The index that a list is read from, and the key of each range.
async fn plan(reader: &impl StoreReader, filter: &ResolvedFilter, sort: Sort) -> Result<(RunIndex, Vec<Vec<i64>>)> {
    if sort == Sort::Due {
        return Ok((RunIndex::Due, due_ranges(reader, filter).await?));
    }
    let states = filter.states.as_deref();
    Ok(match (&filter.patterns, filter.tenant, &filter.urgent, states) {
        (Some(patterns), ..) if patterns.len() <= PATTERN_RANGES_MAX => {
            (RunIndex::Pattern, patterns.iter().map(|pattern| vec![*pattern]).collect())
        }
        (_, Some(tenant), Some(urgent), states) => (
            RunIndex::TenantUrgent,
            urgent_ranges(urgent, states).map(|(severity, state)| vec![tenant, severity, state]).collect(),
        ),
        (_, Some(tenant), None, states) => {
            (RunIndex::TenantState, or_all_states(states).into_iter().map(|state| vec![tenant, state]).collect())
        }
        (_, None, Some(urgent), states) => {
            (RunIndex::Urgent, urgent_ranges(urgent, states).map(|(severity, state)| vec![severity, state]).collect())
        }
        (_, None, None, Some(states)) => (RunIndex::State, states.iter().map(|state| vec![*state]).collect()),
        (_, None, None, None) => (RunIndex::PrimaryKey, vec![Vec::new()]),
    })
}

fn urgent_ranges(urgent: &[i64], states: Option<&[i64]>) -> impl Iterator<Item = (i64, i64)> {
    let states = or_all_states(states);
    urgent.iter().flat_map(move |severity| states.clone().into_iter().map(|state| (*severity, state)))
}

/// One range for each tenant with due runs in each queue.
async fn due_ranges(reader: &impl StoreReader, filter: &ResolvedFilter) -> Result<Vec<Vec<i64>>> {
    let queues = match (&filter.queues, filter.tenant) {
        (Some(queues), _) => queues.clone(),
        (None, Some(tenant)) => queue_numbers_of(reader, tenant).await?,
        (None, None) => queue_numbers(reader).await?,
    };
    let mut ranges = Vec::new();
    for queue in queues {
        let tenants = match filter.tenant {
            Some(tenant) => vec![tenant],
            None => reader.oldest_due_by_tenant(queue).await?.into_iter().map(|(tenant, _)| tenant).collect(),
        };
        ranges.extend(tenants.into_iter().map(|tenant| vec![queue, tenant]));
    }
    Ok(ranges)
}

const MISS: i64 = 0;
const MATCH: i64 = 1;
/// The row matches if its template contains the words.
const MATCH_BY_TEMPLATE: i64 = 2;

/// Whether a row matches, as one of the numbers above. Where the range covers the filter, the index alone answers.
fn match_sql<R: StoreReader>(filter: &ResolvedFilter, covered: CoveredColumns, params: &mut SqlParams) -> String {
    let residual = filter.residual::<R>(covered, params);
    let inner = match &filter.words {
        Some(words) => {
            format!("CASE WHEN {} THEN {MATCH} ELSE {MATCH_BY_TEMPLATE} END", R::name_prefix(words, params))
        }
        None => MATCH.to_string(),
    };
    match residual {
        Some(residual) => format!("CASE WHEN {residual} THEN {inner} ELSE {MISS} END"),
        None => inner,
    }
}

/// How index ranges are read.
#[derive(Debug)]
pub(crate) struct RangeSelect {
    pub(crate) index: RunIndex,
    pub(crate) sort: Sort,
    /// Whether a row matches; `params` are its values.
    pub(crate) matches: String,
    pub(crate) params: SqlParams,
    /// The row's pattern, if templates are searched.
    pub(crate) reads_pattern: bool,
    ids: (i64, i64),
}

impl RangeSelect {
    /// What is left of a range: the first and the last run number, or the due time and the run number before it.
    pub(crate) fn bounds(&self, after: Option<ListPosition>) -> (i64, i64) {
        let (first, last) = self.ids;
        match (self.sort, after) {
            (Sort::Due, None) => (i64::MIN, i64::MIN),
            (Sort::Due, Some(ListPosition(due, id))) => (due, id),
            (Sort::Received | Sort::NewestFirst, None) => (first, last),
            (Sort::Received, Some(ListPosition(id, _))) => (first.max(id.saturating_add(1)), last),
            (Sort::NewestFirst, Some(ListPosition(minus_id, _))) => {
                (first, last.min(minus_id.saturating_neg().saturating_sub(1)))
            }
        }
    }
}

/// Where a range is read on.
#[derive(Debug)]
pub(crate) struct RangeStart<'a> {
    pub(crate) range: usize,
    pub(crate) key: &'a [i64],
    pub(crate) after: Option<ListPosition>,
}

/// A row as a range reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScannedRun {
    pub(crate) range: usize,
    pub(crate) run: i64,
    due: i64,
    matches: i64,
    pattern: Option<i64>,
}

impl ScannedRun {
    /// Reads run number, due time, match and pattern from the columns from `first` on.
    pub(crate) fn read(row: &impl Columns, first: usize, range: usize) -> Result<Self> {
        Ok(Self {
            range,
            run: number(row, first)?,
            due: number(row, first + 1)?,
            matches: number(row, first + 2)?,
            pattern: row.number_or_none(first + 3)?,
        })
    }

    fn position(&self, sort: Sort) -> ListPosition {
        match sort {
            Sort::Received => ListPosition(self.run, 0),
            Sort::NewestFirst => ListPosition(-self.run, 0),
            Sort::Due => ListPosition(self.due, self.run),
        }
    }
}

/// The patterns whose template contains the words of a search; each is read once.
#[derive(Debug, Default)]
struct TemplateMatches(HashMap<i64, bool>);

impl TemplateMatches {
    async fn load(&mut self, reader: &impl StoreReader, filter: &ResolvedFilter, rows: &[ScannedRun]) -> Result<()> {
        let Some(words) = &filter.words else { return Ok(()) };
        let asked = rows.iter().filter(|row| row.matches == MATCH_BY_TEMPLATE).filter_map(|row| row.pattern);
        let mut unknown: Vec<i64> = asked.filter(|pattern| !self.0.contains_key(pattern)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        let found = reader
            .rows_any("SELECT id, template FROM patterns WHERE id = ANY($1)", &[SqlParam::Numbers(unknown)])
            .await?
            .read(|row| Ok((number(row, 0)?, words.are_in(text(row, 1)?))))?;
        self.0.extend(found);
        Ok(())
    }

    fn is_match(&self, row: &ScannedRun) -> Result<bool> {
        match row.matches {
            MATCH => Ok(true),
            MISS => Ok(false),
            MATCH_BY_TEMPLATE => Ok(row.pattern.and_then(|pattern| self.0.get(&pattern)).copied().unwrap_or(false)),
            other => Err(Error::Unexpected(format!("a match of {other}")).into()),
        }
    }
}

/// A row that the scan examined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExaminedRun {
    pub(crate) position: ListPosition,
    pub(crate) run: i64,
    pub(crate) is_match: bool,
}

struct IndexRange {
    key: Vec<i64>,
    buffered: VecDeque<ExaminedRun>,
    last: Option<ListPosition>,
    chunk: usize,
    is_exhausted: bool,
}

/// Merges index ranges in the order of the list.
pub(crate) struct RunScan<'a, R> {
    reader: &'a R,
    filter: &'a ResolvedFilter,
    select: RangeSelect,
    ranges: Vec<IndexRange>,
    /// The first buffered row of each range that has one.
    heads: BinaryHeap<Reverse<(ListPosition, usize)>>,
    templates: TemplateMatches,
}

impl<'a, R: StoreReader> RunScan<'a, R> {
    /// Begins after `after`. `wanted` is about how many rows the caller takes.
    pub(crate) async fn begin(
        reader: &'a R,
        filter: &'a ResolvedFilter,
        sort: Sort,
        after: Option<ListPosition>,
        wanted: usize,
    ) -> Result<Self> {
        let (index, keys) = plan(reader, filter, sort).await?;
        let mut params = SqlParams::default();
        let matches = match_sql::<R>(filter, index.covers(), &mut params);
        let (reads_pattern, ids) = (filter.words.is_some(), filter.ids.unwrap_or((1, i64::MAX)));
        let select = RangeSelect { index, sort, matches, params, reads_pattern, ids };
        let chunk = R::first_chunk(wanted, keys.len()).min(R::CHUNK_MAX_ROWS);
        let range = |key| IndexRange { key, buffered: VecDeque::new(), last: after, chunk, is_exhausted: false };
        let ranges: Vec<IndexRange> = keys.into_iter().map(range).collect();
        let heads = BinaryHeap::with_capacity(ranges.len());
        let all: Vec<usize> = (0..ranges.len()).collect();
        let mut scan = Self { reader, filter, select, ranges, heads, templates: TemplateMatches::default() };
        scan.read_on(&all, chunk).await?;
        Ok(scan)
    }

    /// The next row in order, whether it matches or not.
    pub(crate) async fn next(&mut self) -> Result<Option<ExaminedRun>> {
        let Some(Reverse((_, number))) = self.heads.pop() else { return Ok(None) };
        let Some(range) = self.ranges.get_mut(number) else { return Ok(None) };
        let taken = range.buffered.pop_front();
        if let Some(head) = range.buffered.front() {
            self.heads.push(Reverse((head.position, number)));
        } else if !range.is_exhausted {
            let chunk = range.chunk;
            self.read_on(&[number], chunk).await?;
        }
        Ok(taken)
    }

    /// Reads a chunk of each of these ranges, whose buffers are empty.
    async fn read_on(&mut self, numbers: &[usize], chunk: usize) -> Result<()> {
        let start = |number: &usize| {
            self.ranges.get(*number).map(|range| RangeStart { range: *number, key: &range.key, after: range.last })
        };
        let starts: Vec<RangeStart<'_>> = numbers.iter().filter_map(start).collect();
        if starts.is_empty() {
            return Ok(());
        }
        let rows = self.reader.read_ranges(&self.select, &starts, chunk).await?;
        self.templates.load(self.reader, self.filter, &rows).await?;
        for row in &rows {
            let examined = ExaminedRun {
                position: row.position(self.select.sort),
                run: row.run,
                is_match: self.templates.is_match(row)?,
            };
            let range = self.ranges.get_mut(row.range);
            range.ok_or_else(|| Error::Unexpected(format!("range {}", row.range)))?.buffered.push_back(examined);
        }
        for number in numbers {
            let Some(range) = self.ranges.get_mut(*number) else { continue };
            range.is_exhausted = range.buffered.len() < chunk;
            range.last = range.buffered.back().map(|last| last.position);
            range.chunk = (chunk * 2).min(R::CHUNK_MAX_ROWS);
            if let Some(head) = range.buffered.front() {
                self.heads.push(Reverse((head.position, *number)));
            }
        }
        Ok(())
    }
}

/// Those of the runs that match a filter.
pub(crate) async fn matching_runs<R: StoreReader>(
    reader: &R,
    filter: &ResolvedFilter,
    runs: &[i64],
) -> Result<Vec<i64>> {
    let mut params = SqlParams::default();
    params.add(runs);
    let matches = match_sql::<R>(filter, CoveredColumns::default(), &mut params);
    let zero = "CAST(0 AS BIGINT)";
    let sql =
        format!("SELECT runs.id, {zero}, CAST({matches} AS BIGINT), runs.pattern FROM runs WHERE runs.id = ANY($1)");
    let rows = reader.rows_any(&sql, params.values()).await?.read(|row| ScannedRun::read(row, 0, 0))?;
    let mut templates = TemplateMatches::default();
    templates.load(reader, filter, &rows).await?;
    let mut found = Vec::new();
    for row in &rows {
        if templates.is_match(row)? {
            found.push(row.run);
        }
    }
    Ok(found)
}
