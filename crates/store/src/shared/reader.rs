//! The interface over which reads are written once: SQL that both databases understand, and the few statements that
//! each adapter writes in its own dialect.
//!
//! Shared SQL numbers its parameters `$1`, `$2`, … SQLite answers at once, so its futures are always ready
//! ([`ready`]); PostgreSQL pipelines statements that are polled together.

use std::collections::HashMap;

use futures_util::FutureExt as _;
use redrive_core::ids::QueueName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{MergedPattern, PatternEntry, PatternView, Versions};

use super::columns::Columns;
use super::duplicates::{DuplicateKey, DuplicateMatches};
use super::filter::SearchWords;
use super::hours::HourSums;
use super::scan::{RangeSelect, RangeStart, ScannedRun};
use redrive_engine::error::{BoxError, Error, PortResult as Result};
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::model::RunRef;
use redrive_engine::operations::row::OperationRow;
use redrive_engine::runs::payload::StoredPayload;

/// A value of a statement.
#[derive(Debug, Clone)]
pub(crate) enum SqlParam {
    Number(Option<i64>),
    Text(String),
    Bytes(Vec<u8>),
    /// Lists are one array in PostgreSQL, so that the statement and its plan do not depend on their length.
    Numbers(Vec<i64>),
    Texts(Vec<String>),
    /// Text from callers, which may hold NUL: bytes in PostgreSQL.
    Labels(Vec<String>),
}

impl SqlParam {
    pub(crate) fn is_empty_list(&self) -> bool {
        match self {
            Self::Numbers(list) => list.is_empty(),
            Self::Texts(list) | Self::Labels(list) => list.is_empty(),
            Self::Number(_) | Self::Text(_) | Self::Bytes(_) => false,
        }
    }
}

impl From<i64> for SqlParam {
    fn from(n: i64) -> Self {
        Self::Number(Some(n))
    }
}

impl From<u32> for SqlParam {
    fn from(n: u32) -> Self {
        Self::Number(Some(n.into()))
    }
}

impl From<Option<i64>> for SqlParam {
    fn from(n: Option<i64>) -> Self {
        Self::Number(n)
    }
}

impl From<Timestamp> for SqlParam {
    fn from(at: Timestamp) -> Self {
        Self::Number(Some(at.as_millis()))
    }
}

impl From<&str> for SqlParam {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&[i64]> for SqlParam {
    fn from(list: &[i64]) -> Self {
        Self::Numbers(list.to_vec())
    }
}

/// The values of a statement under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct SqlParams(Vec<SqlParam>);

impl SqlParams {
    /// Returns the placeholder of the value.
    pub(crate) fn add(&mut self, value: impl Into<SqlParam>) -> String {
        self.0.push(value.into());
        format!("${}", self.0.len())
    }

    pub(crate) fn values(&self) -> &[SqlParam] {
        &self.0
    }
}

/// The rows of a statement.
pub(crate) struct SqlRows<R>(pub(crate) Vec<R>);

impl<R: Columns> SqlRows<R> {
    pub(crate) fn read<T>(self, read: impl FnMut(&R) -> Result<T>) -> Result<Vec<T>> {
        self.0.iter().map(read).collect()
    }
}

/// At most one row.
pub(crate) struct FirstRow<R>(Option<R>);

impl<R: Columns> FirstRow<R> {
    pub(crate) fn read<T>(self, read: impl FnOnce(&R) -> Result<T>) -> Result<Option<T>> {
        self.0.as_ref().map(read).transpose()
    }
}

/// A consistent view of the database.
pub(crate) trait SqlReader {
    type Row: Columns;

    /// Run numbers rise with the time of receipt, except within this span.
    const RECEIPT_SKEW_MS: u64;
    /// The queues that a tenant (`$1`) can use: its own, `default` and declared ones.
    const QUEUES_OF_TENANT: &'static str;

    async fn rows(&self, sql: &str, values: &[SqlParam]) -> Result<SqlRows<Self::Row>>;

    /// The rows of a statement with one `= ANY($1)`, for each value of the list `values[0]`, in no order. PostgreSQL asks
    /// once; SQLite seeks once for each value.
    async fn rows_any(&self, sql: &str, values: &[SqlParam]) -> Result<SqlRows<Self::Row>>;

    /// The first row, if there is one.
    async fn row(&self, sql: &str, values: &[SqlParam]) -> Result<FirstRow<Self::Row>> {
        Ok(FirstRow(self.rows(sql, values).await?.0.into_iter().next()))
    }

    /// A hint to use an index of `runs`, where the dialect has hints.
    fn index_hint(index: &str) -> String;
    /// `column` is one of a list.
    fn one_of(column: &str, list: SqlParam, params: &mut SqlParams) -> String;
    /// `column` is in the result of a subquery.
    fn in_subquery(column: &str, subquery: &str) -> String;
    /// Tells a database that is unavailable from a statement that failed.
    fn classify(error: BoxError) -> Error;
}

/// Statements about runs.
pub(crate) trait RunQueries: SqlReader {
    /// Most rows that one read of an index range returns.
    const CHUNK_MAX_ROWS: usize;

    /// How many rows to read first of each of `ranges`, to get `wanted` rows overall.
    fn first_chunk(wanted: usize, ranges: usize) -> usize;
    /// Reads up to `chunk` rows of each range.
    async fn read_ranges(&self, select: &RangeSelect, from: &[RangeStart<'_>], chunk: usize)
    -> Result<Vec<ScannedRun>>;
    /// One of the run's names begins with the text searched for.
    fn name_prefix(words: &SearchWords, params: &mut SqlParams) -> String;
    /// The first run received at `at` or later, by bisection; one past `last` if there is none.
    async fn first_received_from(&self, at: Timestamp, last: i64) -> Result<i64>;
    /// The numbers of those runs that exist, in the order asked for.
    async fn run_numbers(&self, runs: &[RunRef]) -> Result<Vec<i64>>;
    async fn queue_of(&self, run: &RunRef) -> Result<Option<QueueName>>;
    /// The tenants with due runs in a queue, each with its oldest due time: one index seek per tenant.
    async fn oldest_due_by_tenant(&self, queue: i64) -> Result<Vec<(i64, Timestamp)>>;
    /// The newest runs of the same pattern with the same key or payload.
    async fn same_pattern(&self, own: &DuplicateKey) -> Result<DuplicateMatches>;
    /// A run's (`$1`) newest steps before `$2`, at most `$3`, as [`super::pages::sized`] reads them.
    fn step_sizes() -> String;
    /// The version of each kind that a tenant met last.
    async fn newest_versions(&self, tenant: i64, kinds: Vec<String>) -> Result<Versions>;
    /// Stored payloads of runs at a revision. An unreadable one is an error of its own.
    async fn payloads(&self, revisions: &[(i64, u32)]) -> Result<Vec<(i64, Result<StoredPayload>)>>;
}

/// Statements about counters, which PostgreSQL keeps as totals and deltas.
pub(crate) trait CounterQueries: SqlReader {
    /// Selects `columns` and their count from the counters of `table` that meet `condition`.
    fn counters(table: &str, columns: &str, condition: &str) -> String;
    /// Adds the events of these hours.
    async fn hour_events(
        &self,
        hours: &[Timestamp],
        tenant: Option<i64>,
        queue: Option<i64>,
        sums: &mut HourSums,
    ) -> Result<()>;
    /// When each tenant's last failure was.
    async fn last_failures(&self, tenants: &[i64]) -> Result<HashMap<i64, Timestamp>>;
    /// The number of the last commit, also after its row was trimmed.
    async fn last_change(&self) -> Result<i64>;
}

/// Expressions over a pattern `p` that stands for the patterns merged into it.
pub(crate) struct PatternSql {
    /// Common table expressions that the expressions need.
    pub(crate) with: String,
    pub(crate) table: &'static str,
    pub(crate) count: &'static str,
    pub(crate) open: &'static str,
    pub(crate) last_seen: &'static str,
    /// The state, except that an expired mute does not count.
    pub(crate) state: String,
}

/// Statements about patterns.
pub(crate) trait PatternQueries: SqlReader {
    /// The patterns of a tenant, or of all; `now` and `tenant` are placeholders.
    fn pattern_sql(tenant: Option<&str>, now: &str) -> PatternSql;
    /// The template of `p` contains a text, in any case.
    async fn template_contains(&self, text: &str, params: &mut SqlParams) -> Result<String>;
    async fn pattern_views(&self, patterns: &[i64], now: Timestamp) -> Result<Vec<(i64, PatternView)>>;
    /// The patterns of these fingerprints, the last seen first.
    async fn patterns_by_fingerprint(
        &self,
        keys: &[FingerprintKey],
        now: Timestamp,
    ) -> Result<Vec<(FingerprintKey, i64, PatternView)>>;
    /// The patterns merged into these, head by head, the most frequent first.
    async fn merged_patterns(&self, heads: &[i64]) -> Result<Vec<(i64, MergedPattern)>>;
    /// Failures of these patterns by the hour.
    async fn pattern_hours(&self, patterns: &[i64], since: Timestamp) -> Result<Vec<(Timestamp, u64)>>;
    /// The last events of each pattern, the oldest first.
    async fn pattern_events(&self, patterns: &[i64]) -> Result<Vec<PatternEntry>>;
}

/// A moved item of an operation, in the numbers of its columns.
pub(crate) struct MovedItem {
    pub(crate) run: i64,
    pub(crate) state: i64,
    /// How the first attempt after the move ended. Read for canary items only.
    pub(crate) first_attempt: Option<i64>,
}

/// Statements about operations.
pub(crate) trait OperationQueries: SqlReader {
    /// The moved items among `runs`. An adapter may leave out those outside the canary whose state is not in `settled`.
    async fn moved_items(&self, operation: &OperationRow, runs: &[i64], settled: &[i64]) -> Result<Vec<MovedItem>>;
}

/// All that reads need of an adapter.
pub(crate) trait StoreReader: RunQueries + CounterQueries + PatternQueries + OperationQueries {}

impl<R: RunQueries + CounterQueries + PatternQueries + OperationQueries> StoreReader for R {}

/// Runs a read that never waits.
pub(crate) fn ready<T>(read: impl Future<Output = Result<T>>) -> Result<T> {
    read.now_or_never().unwrap_or_else(|| Err(Error::Unexpected("a SQLite read waited".into()).into()))
}
