//! Which way a list goes through the rows: a lane is one stretch of one index that is already in the list's order.

use redrive_core::wire::Sort;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::shared::counts::or_all;
use crate::shared::filter::{IS_URGENT, PATTERN_LANES_MAX, urgent_lanes};
use crate::sqlite::reads::due::{oldest_by_tenant, queue_numbers, queue_numbers_of};
use crate::sqlite::reads::filter::Wanted;
use crate::sqlite::reads::predicate::{Answered, Clause};
use crate::sqlite::reads::words::names_begin;
use redrive_engine::error::PortResult as Result;

/// The lanes of a list, and the statements that read a piece of one. Their values in order: those of `hit`, the
/// lane's own, the bounds, and how many rows.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) sql: String,
    /// By due time: what is due at the same moment as the last one read. Apart, because only then does SQLite step
    /// over those already seen instead of reading them again.
    pub(crate) ties_sql: Option<String>,
    pub(crate) hit_values: Vec<Value>,
    /// What each lane holds fixed.
    pub(crate) fixed: Vec<Vec<Value>>,
}

/// How rows are found, and what that already says about them.
struct Way {
    index: &'static str,
    fixed_sql: String,
    fixed: Vec<Vec<Value>>,
    answered: Answered,
}

pub(crate) fn lanes(conn: &Connection, wanted: &Wanted, sort: Sort) -> Result<Lanes> {
    let way = if sort == Sort::Due { by_due(conn, wanted)? } else { by_number(wanted) };
    let (hit, hit_values) = hit(wanted, way.answered);
    let (order, bounds) = match sort {
        Sort::Received => ("id", "id BETWEEN ? AND ?"),
        Sort::NewestFirst => ("id DESC", "id BETWEEN ? AND ?"),
        Sort::Due => ("due, id", "due > ?"),
    };
    let pattern = if wanted.words.is_some() { "pattern" } else { "NULL" };
    let due = if sort == Sort::Due { "due" } else { "0" };
    let Way { index, fixed_sql, fixed, .. } = way;
    let read = |bounds: &str, order: &str| {
        format!(
            "SELECT id, {due}, {hit}, {pattern} FROM runs {index} WHERE {fixed_sql}{bounds} ORDER BY {order} LIMIT ?"
        )
    };
    let ties_sql = (sort == Sort::Due).then(|| read("due = ? AND id > ?", "id"));
    Ok(Lanes { sql: read(bounds, order), ties_sql, hit_values, fixed })
}

fn by_number(wanted: &Wanted) -> Way {
    let ids = Answered { ids: true, ..Answered::default() };
    match (&wanted.patterns, wanted.tenant, &wanted.urgent, &wanted.states) {
        (Some(patterns), ..) if patterns.len() <= PATTERN_LANES_MAX => Way {
            index: "INDEXED BY runs_pattern",
            fixed_sql: "pattern = ? AND ".into(),
            fixed: patterns.iter().map(|pattern| vec![(*pattern).into()]).collect(),
            answered: Answered { tenant: true, pattern: true, ..ids },
        },
        (_, Some(tenant), Some(urgent), states) => Way {
            index: "INDEXED BY runs_tenant_urgent",
            fixed_sql: format!("{IS_URGENT} AND tenant = ? AND severity = ? AND state = ? AND "),
            fixed: urgent_lanes(urgent, states.as_deref())
                .map(|(severity, state)| vec![tenant.into(), severity.into(), state.into()])
                .collect(),
            answered: Answered { tenant: true, state: true, ..ids },
        },
        (_, Some(tenant), None, states) => Way {
            index: "INDEXED BY runs_tenant_state",
            fixed_sql: "tenant = ? AND state = ? AND ".into(),
            fixed: or_all(states.as_deref()).into_iter().map(|state| vec![tenant.into(), state.into()]).collect(),
            answered: Answered { tenant: true, state: true, ..ids },
        },
        (_, None, Some(urgent), states) => Way {
            index: "INDEXED BY runs_urgent",
            fixed_sql: format!("{IS_URGENT} AND severity = ? AND state = ? AND "),
            fixed: urgent_lanes(urgent, states.as_deref())
                .map(|(severity, state)| vec![severity.into(), state.into()])
                .collect(),
            answered: Answered { state: true, ..ids },
        },
        (_, None, None, Some(states)) => Way {
            index: "INDEXED BY runs_state",
            fixed_sql: "state = ? AND ".into(),
            fixed: states.iter().map(|state| vec![(*state).into()]).collect(),
            answered: Answered { state: true, ..ids },
        },
        (_, None, None, None) => {
            Way { index: "NOT INDEXED", fixed_sql: String::new(), fixed: vec![Vec::new()], answered: ids }
        }
    }
}

/// One lane for each tenant with due work in each queue.
fn by_due(conn: &Connection, wanted: &Wanted) -> Result<Way> {
    let queues = match (&wanted.queues, wanted.tenant) {
        (Some(queues), _) => queues.clone(),
        (None, Some(tenant)) => queue_numbers_of(conn, tenant)?,
        (None, None) => queue_numbers(conn)?,
    };
    let mut fixed = Vec::new();
    for queue in queues {
        let tenants = match wanted.tenant {
            Some(tenant) => vec![tenant],
            None => oldest_by_tenant(conn, queue)?.into_iter().map(|(tenant, _)| tenant).collect(),
        };
        fixed.extend(tenants.into_iter().map(|tenant| vec![queue.into(), tenant.into()]));
    }
    Ok(Way {
        index: "INDEXED BY runs_due",
        fixed_sql: "queue = ? AND tenant = ? AND ".into(),
        fixed,
        // Only what is scheduled has a due time.
        answered: Answered { tenant: true, queue: true, state: true, ..Answered::default() },
    })
}

pub(crate) const MISS: i64 = 0;
pub(crate) const HIT: i64 = 1;
/// It matches if its template has the words.
pub(crate) const ASK_TEMPLATE: i64 = 2;

/// Whether a row matches, as one of the numbers above. Without conditions the index alone answers.
pub(crate) fn hit(wanted: &Wanted, answered: Answered) -> (String, Vec<Value>) {
    let residual = wanted.residual(answered);
    let names = wanted.words.as_ref().map(names_begin);
    let inner = match &names {
        Some(names) => format!("CASE WHEN {} THEN {HIT} ELSE {ASK_TEMPLATE} END", names.sql),
        None => HIT.to_string(),
    };
    let sql = if residual.sql.is_empty() {
        inner
    } else {
        format!("CASE WHEN {} THEN {inner} ELSE {MISS} END", residual.sql)
    };
    let Clause { mut values, .. } = residual;
    values.extend(names.into_iter().flat_map(|names| names.values));
    (sql, values)
}
