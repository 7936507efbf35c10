//! Raw PostgreSQL, the baseline: rows of any table in wire format, the deltas that a commit appends, and pipelined
//! transactions that wait only for the last answer.

use std::collections::BTreeMap;

use anyhow::Result;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type};
use tokio_postgres::{Client, Statement};

use crate::claims::join_all;

type Failed = Box<dyn std::error::Error + Sync + Send>;
type Bytes = Option<Vec<u8>>;

/// A statement and its values.
pub type Bound<'a> = (&'a Statement, &'a [&'a (dyn ToSql + Sync)]);

/// One transaction; how many rows each statement touched.
pub async fn commit(client: &Client, statements: &[Bound<'_>]) -> Result<Vec<u64>, tokio_postgres::Error> {
    let done = tokio::join!(biased; client.batch_execute("BEGIN"), send_and_commit(client, statements));
    done.0?;
    done.1
}

/// The rest of one that has begun.
pub async fn send_and_commit(client: &Client, statements: &[Bound<'_>]) -> Result<Vec<u64>, tokio_postgres::Error> {
    let sent = statements.iter().map(|(statement, values)| client.execute(*statement, values)).collect();
    let done = tokio::join!(biased; join_all(sent), client.batch_execute("COMMIT"));
    let touched = done.0.into_iter().collect::<Result<_, _>>()?;
    done.1.map(|()| touched)
}

/// One value.
#[derive(Debug, Clone)]
pub struct Raw(pub Bytes);

impl Raw {
    /// Of a column of numbers.
    pub fn number(&self) -> i64 {
        let bytes = self.0.as_deref().and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, i64::from_be_bytes)
    }
}

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failed> {
        Ok(Self(Some(raw.to_vec())))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Failed> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        let Some(bytes) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// One column of many rows.
#[derive(Debug)]
pub struct Column(pub Vec<Bytes>);

impl ToSql for Column {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        let Kind::Array(element) = ty.kind() else { return Err("not an array".into()) };
        let nulls = u32::from(self.0.iter().any(Option::is_none));
        // Dimensions, whether there are nulls, of what; then the one dimension's length and first postgres.
        for head in [1, nulls, element.oid(), u32::try_from(self.0.len())?, 1] {
            out.extend_from_slice(&head.to_be_bytes());
        }
        for value in &self.0 {
            let length = value.as_ref().map_or(Ok(-1), |bytes| i32::try_from(bytes.len()))?;
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

const COUNTERS: &str = "INSERT INTO counter_deltas (state, tenant, queue, detail, n, reason)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])";
const HOURS: &str =
    "INSERT INTO hour_deltas (hour, tenant, queue, started, failed, retried, dead, recovered, succeeded, reason)
     SELECT 0, tenant, queue, n, n, n, n, n, n, reason
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) AS new(tenant, queue, n, reason)";
const PATTERNS: &str = "INSERT INTO pattern_deltas (pattern, hour, count, open, at, group_seen)
     SELECT pattern, 0, n, n, 5, 5 FROM unnest($1::bigint[], $2::bigint[]) AS new(pattern, n)";
const CHANGES: &str = "INSERT INTO change_deltas (at, runs) VALUES (5, $1)";

/// A run that a commit moved.
pub struct Moved {
    pub run: i64,
    pub tenant: i64,
    pub queue: i64,
    pub reason: String,
    pub pattern: Option<i64>,
}

/// State and detail.
pub type StateDetail = (i64, i64);

/// The values of one commit.
pub struct Deltas {
    /// State, tenant, queue, detail, by how many; then the reason.
    counters: ([Vec<i64>; 5], Vec<String>),
    hours: Option<([Vec<i64>; 3], Vec<String>)>,
    patterns: [Vec<i64>; 2],
    runs: Vec<u8>,
}

impl Deltas {
    /// Runs that were `from` and are `to` now; `hours` where that is counted by the hour, too.
    pub fn of(moved: &[Moved], from: Option<StateDetail>, to: StateDetail, hours: bool) -> Self {
        let mut sums: BTreeMap<(i64, i64, &str), i64> = BTreeMap::new();
        let mut patterns: BTreeMap<i64, i64> = BTreeMap::new();
        for Moved { tenant, queue, reason, pattern, .. } in moved {
            *sums.entry((*tenant, *queue, reason)).or_default() += 1;
            if let Some(pattern) = pattern {
                *patterns.entry(*pattern).or_default() += 1;
            }
        }
        let ways: Vec<(StateDetail, i64)> = from.map(|from| (from, -1)).into_iter().chain([(to, 1)]).collect();
        let mut counters = ([const { Vec::new() }; 5], Vec::new());
        for ((state, detail), way) in ways {
            for ((tenant, queue, reason), n) in &sums {
                for (column, value) in counters.0.iter_mut().zip([state, *tenant, *queue, detail, way * n]) {
                    column.push(value);
                }
                counters.1.push((*reason).to_owned());
            }
        }
        let by_hour = || {
            let column = |of: fn(&i64, &i64, &i64) -> i64| sums.iter().map(|((t, q, _), n)| of(t, q, n)).collect();
            let numbers = [column(|tenant, _, _| *tenant), column(|_, queue, _| *queue), column(|_, _, n| *n)];
            (numbers, sums.keys().map(|(.., reason)| (*reason).to_owned()).collect())
        };
        Self {
            hours: hours.then(by_hour),
            counters,
            patterns: [patterns.keys().copied().collect(), patterns.values().copied().collect()],
            runs: moved.iter().flat_map(|moved| moved.run.to_le_bytes()).collect(),
        }
    }

    pub fn values(&self) -> Values<'_> {
        let ([states, tenants, queues, details, n], reasons) = &self.counters;
        let [patterns, seen] = &self.patterns;
        Values {
            counters: [states, tenants, queues, details, n, reasons],
            hours: self.hours.as_ref().map(|([tenants, queues, n], reasons)| {
                let values: [&(dyn ToSql + Sync); 4] = [tenants, queues, n, reasons];
                values
            }),
            patterns: (!patterns.is_empty()).then_some([patterns, seen]),
            runs: [&self.runs],
        }
    }
}

pub struct Values<'a> {
    counters: [&'a (dyn ToSql + Sync); 6],
    hours: Option<[&'a (dyn ToSql + Sync); 4]>,
    patterns: Option<[&'a (dyn ToSql + Sync); 2]>,
    runs: [&'a (dyn ToSql + Sync); 1],
}

/// The statements, prepared.
#[derive(Clone)]
pub struct Append {
    counters: Statement,
    hours: Statement,
    patterns: Statement,
    changes: Statement,
}

impl Append {
    pub async fn prepare(client: &Client) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            counters: client.prepare(COUNTERS).await?,
            hours: client.prepare(HOURS).await?,
            patterns: client.prepare(PATTERNS).await?,
            changes: client.prepare(CHANGES).await?,
        })
    }

    pub fn all<'a>(&'a self, values: &'a Values<'a>) -> impl Iterator<Item = Bound<'a>> {
        let hours = values.hours.as_ref().map(|values| (&self.hours, values.as_slice()));
        let patterns = values.patterns.as_ref().map(|values| (&self.patterns, values.as_slice()));
        let log = (&self.changes, values.runs.as_slice());
        [(&self.counters, values.counters.as_slice())].into_iter().chain(hours).chain(patterns).chain([log])
    }
}
