//! A filter in the store's own numbers.

use redrive_core::reason::Category;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{Severity, Sort};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::number;
use crate::postgres::reads::lookup::{Whose, whose};
use crate::postgres::reads::params::Value;
use crate::postgres::reads::received::{OUT_OF_ORDER_MS, any_deferred, first_received_from, last_id};
use crate::shared::filter::{listed, states, urgent};
use crate::shared::words::Words;
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
    /// The first and the last id that may lie within since and until.
    pub(crate) ids: Option<(i64, i64)>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    /// Columns that no index and no counter knows, and what they may hold.
    pub(crate) others: Vec<(&'static str, Value)>,
    pub(crate) words: Option<Words>,
}

impl Wanted {
    /// Only what the kept counters know by themselves.
    pub(crate) fn is_counted(&self) -> bool {
        self.patterns.is_none() && self.ids.is_none() && self.others.is_empty() && self.words.is_none()
    }
}

/// None when nothing can match: another's tenant, a name that nobody has used, states that exclude each other.
pub(crate) async fn wanted(
    snapshot: &Snapshot<'_>,
    scope: &TenantScope,
    filter: &RunFilter,
    sort: Sort,
    now: Timestamp,
) -> Result<Option<Wanted>> {
    let Some(tenant) = tenant(snapshot, scope, filter).await? else { return Ok(None) };
    let (queues, patterns) = (queues(snapshot, filter).await?, patterns(snapshot, filter, tenant).await?);
    let states = states(filter, sort);
    let ids = ids(snapshot, filter).await?;
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
        hide_deferred: (filter.states.is_empty() && any_deferred(snapshot, now).await?).then_some(now),
        ids,
        since: filter.since,
        until: filter.until,
        others: others(filter),
        words: filter.q.as_deref().and_then(Words::of),
    }))
}

/// Whose runs: all tenants', one's, or nobody's.
async fn tenant(snapshot: &Snapshot<'_>, scope: &TenantScope, filter: &RunFilter) -> Result<Option<Option<i64>>> {
    let seen = whose(snapshot, scope).await?;
    let named = match &filter.tenant {
        Some(named) => Some(whose(snapshot, &TenantScope::One(named.clone())).await?),
        None => None,
    };
    Ok(match (seen, named) {
        (Whose::All, None) => Some(None),
        (Whose::One(own), None) => Some(Some(own)),
        (Whose::All, Some(Whose::One(number))) => Some(Some(number)),
        (Whose::One(own), Some(Whose::One(number))) if own == number => Some(Some(own)),
        (Whose::All | Whose::One(_) | Whose::Nobody, _) => None,
    })
}

async fn queues(snapshot: &Snapshot<'_>, filter: &RunFilter) -> Result<Option<Vec<i64>>> {
    if filter.queues.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = filter.queues.iter().map(|queue| queue.as_str()).collect();
    let rows = snapshot.rows("SELECT id FROM queues WHERE name = ANY($1)", &[&names]).await?;
    let numbers = rows.iter().map(|row| number(row, 0)).collect::<Result<Vec<_>>>()?;
    Ok(Some(listed(numbers.into_iter()).unwrap_or_default()))
}

/// Ids and fingerprints. A fingerprint stands for the whole pattern that it belongs to by now, and a pattern for all
/// that was merged into it; one that is itself a part stands for its own runs.
async fn patterns(snapshot: &Snapshot<'_>, filter: &RunFilter, tenant: Option<i64>) -> Result<Option<Vec<i64>>> {
    if filter.patterns.is_empty() {
        return Ok(None);
    }
    let mut rows = Vec::new();
    for name in &filter.patterns {
        let by_id = "WITH named AS (SELECT id FROM patterns WHERE public_id = $1 AND tenant = coalesce($2, tenant)) \
             SELECT id FROM named UNION SELECT p.id FROM patterns p JOIN named ON p.merged_into = named.id";
        // No id of ours holds NUL, and PostgreSQL takes none in a text.
        if !name.contains('\0') {
            rows.extend(snapshot.rows(by_id, &[name, &tenant]).await?);
        }
        let Some(FingerprintKey { version, hash }) = FingerprintKey::parse(name) else { continue };
        let by_fingerprint = "WITH own AS (SELECT id FROM patterns WHERE fp_hash = $1 AND fp_version = $2 \
                 AND tenant = coalesce($3, tenant) \
                 UNION SELECT pattern FROM pattern_alias WHERE tenant = $3 AND fp_hash = $1 AND fp_version = $2), \
             head AS (SELECT DISTINCT coalesce(p.merged_into, p.id) AS id FROM patterns p JOIN own ON own.id = p.id) \
             SELECT id FROM head UNION SELECT p.id FROM patterns p JOIN head ON p.merged_into = head.id";
        rows.extend(snapshot.rows(by_fingerprint, &[&hash, &i64::from(version), &tenant]).await?);
    }
    let numbers = rows.iter().map(|row| number(row, 0)).collect::<Result<Vec<_>>>()?;
    Ok(Some(listed(numbers.into_iter()).unwrap_or_default()))
}

/// Ids rise with the time of receipt, by and large: the span is wide enough, and the rows' own time decides. `since` is
/// within, `until` is not.
async fn ids(snapshot: &Snapshot<'_>, filter: &RunFilter) -> Result<Option<(i64, i64)>> {
    if filter.since.is_none() && filter.until.is_none() {
        return Ok(None);
    }
    let last = last_id(snapshot).await?;
    let from = match filter.since {
        Some(since) => first_received_from(snapshot, since.minus_ms(OUT_OF_ORDER_MS), last).await?,
        None => 1,
    };
    let before = match filter.until {
        Some(until) => first_received_from(snapshot, until.plus_ms(OUT_OF_ORDER_MS), last).await?,
        None => last.saturating_add(1),
    };
    Ok(Some((from, before.saturating_sub(1))))
}

fn others(filter: &RunFilter) -> Vec<(&'static str, Value)> {
    let labels = |list: &[Label]| -> Vec<Vec<u8>> { list.iter().map(|l| l.as_str().as_bytes().to_vec()).collect() };
    let mut others = Vec::new();
    let columns = [
        ("agent", labels(&filter.agents)),
        ("environment", labels(&filter.environments)),
        ("customer", labels(&filter.customers)),
        ("assigned_to", labels(&filter.assigned_to)),
    ];
    others.extend(columns.into_iter().filter(|(_, l)| !l.is_empty()).map(|(c, l)| (c, Value::BytesList(l))));
    let categories: Vec<i64> = filter.categories.iter().map(|c| position(&Category::ALL, c)).collect();
    let severities: Vec<i64> = filter.severities.iter().map(|s| position(Severity::ALL, s)).collect();
    let columns = [("category", categories), ("severity", severities)];
    others.extend(columns.into_iter().filter(|(_, l)| !l.is_empty()).map(|(c, l)| (c, Value::Numbers(l))));
    others
}
