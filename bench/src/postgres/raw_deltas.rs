//! What a commit of ours appends beside its rows: how counters, hours and patterns change, and the row of changes.

use std::collections::BTreeMap;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::raw_rows::Bound;

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
pub type Place = (i64, i64);

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
    pub fn of(moved: &[Moved], from: Option<Place>, to: Place, hours: bool) -> Self {
        let mut sums: BTreeMap<(i64, i64, &str), i64> = BTreeMap::new();
        let mut patterns: BTreeMap<i64, i64> = BTreeMap::new();
        for Moved { tenant, queue, reason, pattern, .. } in moved {
            *sums.entry((*tenant, *queue, reason)).or_default() += 1;
            if let Some(pattern) = pattern {
                *patterns.entry(*pattern).or_default() += 1;
            }
        }
        let ways: Vec<(Place, i64)> = from.map(|from| (from, -1)).into_iter().chain([(to, 1)]).collect();
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
