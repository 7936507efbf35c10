//! How many there are: from the kept counters where they know, otherwise counted as far as is reasonable.

use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::Sort;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

pub(crate) use crate::shared::filter::COUNT_MAX;

use crate::shared::counts::{Total, fits, or_all};
use crate::shared::filter::COUNT_LOOKS_MAX;
use crate::sqlite::reads::filter::Wanted;
use crate::sqlite::reads::predicate::Clause;
use crate::sqlite::reads::scan::Scan;
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::position;

pub(crate) fn total(conn: &Connection, wanted: &Wanted, sort: Sort) -> Result<Total> {
    if !wanted.is_counted() {
        return count_up(conn, wanted, sort);
    }
    let n = kept(conn, wanted, sort)?;
    let hidden = wanted.hide_deferred.map_or(Ok(0), |now| hidden(conn, wanted, now))?;
    let n = n.saturating_sub(hidden);
    Ok(Total::kept(n, wanted.details.is_some() || wanted.held.is_some()))
}

/// The kept counters of a filter, summed state by state along the primary key.
fn kept(conn: &Connection, wanted: &Wanted, sort: Sort) -> Result<u64> {
    let mut condition = Clause { sql: "state = ?".into(), values: Vec::new() };
    let mut and = |clause: Clause| {
        condition.sql.push_str(" AND ");
        condition.sql.push_str(&clause.sql);
        condition.values.extend(clause.values);
    };
    let table = if wanted.tenant.is_some() { "counts" } else { "totals" };
    if let Some(tenant) = wanted.tenant {
        and(Clause { sql: "tenant = ?".into(), values: vec![tenant.into()] });
    }
    if let Some(queues) = &wanted.queues {
        and(Clause::numbers("queue", queues));
    }
    if !wanted.reasons.is_empty() {
        and(Clause::texts("reason", wanted.reasons.iter().map(String::as_str)));
    }
    if let Some(details) = &wanted.details {
        and(Clause::numbers("detail", details));
    }
    let mut sum = conn.prepare_cached(&format!("SELECT detail, n FROM {table} WHERE {}", condition.sql))?;
    let mut n = 0_i64;
    for state in or_all(wanted.states.as_deref()) {
        let values = std::iter::once(Value::from(state)).chain(condition.values.iter().cloned());
        let mut rows = sum.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            if fits(state, row.get(0)?, wanted.held, sort) {
                n += row.get::<_, i64>(1)?;
            }
        }
    }
    Ok(u64::try_from(n).unwrap_or(0))
}

/// How many of them the default list hides.
fn hidden(conn: &Connection, wanted: &Wanted, now: Timestamp) -> Result<u64> {
    let seen = Wanted { hide_deferred: None, ..wanted.clone() };
    let Clause { sql, values } = seen.residual(crate::sqlite::reads::predicate::Answered::default());
    let and = if sql.is_empty() { String::new() } else { format!(" AND {sql}") };
    let mut count = conn.prepare_cached(&format!(
        "SELECT count(*) FROM runs INDEXED BY runs_deferred WHERE deferred_until > ? AND state IN (?, ?){and}"
    ))?;
    let [dead, review] = [StateName::Dead, StateName::Review].map(|state| position(StateName::ALL, &state));
    let fixed = [now.as_millis(), dead, review].map(Value::from);
    let n: i64 = count.query_row(params_from_iter(fixed.iter().chain(&values)), |row| row.get(0))?;
    Ok(u64::try_from(n).unwrap_or(0))
}

fn count_up(conn: &Connection, wanted: &Wanted, sort: Sort) -> Result<Total> {
    let mut scan = Scan::begin(conn, wanted, sort, None, usize::MAX)?;
    let mut n = 0;
    for _ in 0..COUNT_LOOKS_MAX {
        let Some(candidate) = scan.next()? else { return Ok(Total { n, capped: false }) };
        n += u64::from(candidate.hit);
        if n > COUNT_MAX {
            return Ok(Total { n: COUNT_MAX, capped: true });
        }
    }
    let capped = scan.next()?.is_some();
    Ok(Total { n, capped })
}
