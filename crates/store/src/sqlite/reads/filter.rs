//! A filter in the store's own numbers, and as a predicate over one row.

use redrive_core::reason::Category;
use redrive_core::time::Timestamp;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{Severity, Sort};
use rusqlite::Connection;

use crate::shared::filter::{listed, states, urgent};
use crate::sqlite::reads::lookup::{Whose, queue_number, whose};
use crate::sqlite::reads::predicate::Clause;
use crate::sqlite::reads::received::{any_deferred, first_received_from, last_id};
use crate::sqlite::reads::words::Words;
use redrive_engine::error::PortResult as Result;
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::model::{RunFilter, TenantScope};
use redrive_engine::runs::document::position;

/// What a filter asks for. Whatever narrows to nothing is not here: see [`wanted`].
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) tenant: Option<i64>,
    /// None: every state.
    pub(crate) states: Option<Vec<i64>>,
    pub(crate) queues: Option<Vec<i64>>,
    pub(crate) patterns: Option<Vec<i64>>,
    /// Severities, when all are in the index of the urgent.
    pub(crate) urgent: Option<Vec<i64>>,
    /// Positions of dead_because; only with the state dead.
    pub(crate) details: Option<Vec<i64>>,
    pub(crate) reasons: Vec<String>,
    pub(crate) held: Option<bool>,
    /// Hides what is dead or in review and deferred beyond this moment.
    pub(crate) hide_deferred: Option<Timestamp>,
    /// The first and the last id that lie within since and until.
    pub(crate) ids: Option<(i64, i64)>,
    /// Everything that no index and no counter knows.
    pub(crate) others: Vec<Clause>,
    pub(crate) words: Option<Words>,
}

impl Wanted {
    /// Only what the kept counters know by themselves.
    pub(crate) fn is_counted(&self) -> bool {
        self.patterns.is_none() && self.ids.is_none() && self.others.is_empty() && self.words.is_none()
    }
}

/// None when nothing can match: another's tenant, a name that nobody has used, states that exclude each other.
pub(crate) fn wanted(
    conn: &Connection,
    scope: &TenantScope,
    filter: &RunFilter,
    sort: Sort,
    now: Timestamp,
) -> Result<Option<Wanted>> {
    let tenant = match (whose(conn, scope)?, &filter.tenant) {
        (Whose::Nobody, _) => return Ok(None),
        (Whose::All, None) => None,
        (Whose::One(own), None) => Some(own),
        (seen, Some(named)) => match (seen, whose(conn, &TenantScope::One(named.clone()))?) {
            (Whose::All, Whose::One(number)) => Some(number),
            (Whose::One(own), Whose::One(number)) if own == number => Some(own),
            (Whose::All | Whose::One(_) | Whose::Nobody, Whose::All | Whose::One(_) | Whose::Nobody) => {
                return Ok(None);
            }
        },
    };
    let (queues, patterns) = (queues(conn, filter)?, patterns(conn, filter, tenant)?);
    let states = states(filter, sort);
    let ids = ids(conn, filter)?;
    let nothing = |list: &Option<Vec<i64>>| list.as_ref().is_some_and(Vec::is_empty);
    if nothing(&queues) || nothing(&patterns) || nothing(&states) || ids.is_some_and(|(lo, hi)| lo > hi) {
        return Ok(None);
    }
    Ok(Some(Wanted {
        tenant,
        states,
        queues,
        patterns,
        urgent: urgent(filter),
        details: listed(filter.dead_because.iter().map(|because| position(DeadBecause::ALL, because))),
        reasons: filter.reasons.iter().map(ToString::to_string).collect(),
        held: filter.held,
        hide_deferred: (filter.states.is_empty() && any_deferred(conn, now)?).then_some(now),
        ids,
        others: others(filter),
        words: filter.q.as_deref().and_then(Words::of),
    }))
}

fn queues(conn: &Connection, filter: &RunFilter) -> Result<Option<Vec<i64>>> {
    if filter.queues.is_empty() {
        return Ok(None);
    }
    let mut numbers = Vec::new();
    for queue in &filter.queues {
        numbers.extend(queue_number(conn, queue)?);
    }
    Ok(Some(listed(numbers.into_iter()).unwrap_or_default()))
}

/// Ids and fingerprints. A fingerprint stands for the whole pattern that it belongs to by now, and a pattern for all
/// that was merged into it; one that is itself a part stands for its own runs.
fn patterns(conn: &Connection, filter: &RunFilter, tenant: Option<i64>) -> Result<Option<Vec<i64>>> {
    if filter.patterns.is_empty() {
        return Ok(None);
    }
    let mut numbers = Vec::new();
    for name in &filter.patterns {
        let mut by_id = conn.prepare_cached(
            "WITH named AS (SELECT id FROM patterns WHERE public_id = ?1 AND tenant = coalesce(?2, tenant)) \
             SELECT id FROM named UNION SELECT p.id FROM patterns p JOIN named ON p.merged_into = named.id",
        )?;
        numbers.extend(by_id.query_and_then((name, tenant), |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?);
        let Some(FingerprintKey { version, hash }) = FingerprintKey::parse(name) else { continue };
        let mut by_fingerprint = conn.prepare_cached(
            "WITH own AS (SELECT id FROM patterns WHERE fp_hash = ?1 AND fp_version = ?2 AND tenant = coalesce(?3, tenant) \
                 UNION SELECT pattern FROM pattern_alias WHERE tenant = ?3 AND fp_hash = ?1 AND fp_version = ?2), \
             head AS (SELECT DISTINCT coalesce(p.merged_into, p.id) AS id FROM patterns p JOIN own ON own.id = p.id) \
             SELECT id FROM head UNION SELECT p.id FROM patterns p JOIN head ON p.merged_into = head.id",
        )?;
        let found = by_fingerprint.query_and_then((hash, version, tenant), |row| row.get(0))?;
        numbers.extend(found.collect::<Result<Vec<i64>, _>>()?);
    }
    Ok(Some(listed(numbers.into_iter()).unwrap_or_default()))
}

/// Ids rise with the time of receipt. `since` is within, `until` is not.
fn ids(conn: &Connection, filter: &RunFilter) -> Result<Option<(i64, i64)>> {
    if filter.since.is_none() && filter.until.is_none() {
        return Ok(None);
    }
    let last = last_id(conn)?;
    let from = filter.since.map_or(Ok(1), |since| first_received_from(conn, since, last))?;
    let before = filter.until.map_or(Ok(last.saturating_add(1)), |until| first_received_from(conn, until, last))?;
    Ok(Some((from, before.saturating_sub(1))))
}

fn others(filter: &RunFilter) -> Vec<Clause> {
    let mut clauses = Vec::new();
    let mut narrow = |clause: Clause| {
        if !clause.values.is_empty() {
            clauses.push(clause);
        }
    };
    narrow(Clause::texts("agent", filter.agents.iter().map(|agent| agent.as_str())));
    narrow(Clause::texts("environment", filter.environments.iter().map(|environment| environment.as_str())));
    narrow(Clause::texts("customer", filter.customers.iter().map(|customer| customer.as_str())));
    narrow(Clause::texts("assigned_to", filter.assigned_to.iter().map(|to| to.as_str())));
    let categories: Vec<i64> = filter.categories.iter().map(|c| position(&Category::ALL, c)).collect();
    narrow(Clause::numbers("category", &categories));
    let severities: Vec<i64> = filter.severities.iter().map(|s| position(Severity::ALL, s)).collect();
    narrow(Clause::numbers("severity", &severities));
    clauses
}
