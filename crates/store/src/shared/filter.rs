//! A list's filter, resolved to the store's numbers, and as a condition on a row of `runs`.

use redrive_core::reason::Category;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{Severity, Sort};

use super::columns::number;
use super::lookup::{ReadScope, any_deferred, last_run, read_scope};
use super::reader::{SqlParam, SqlParams, StoreReader};
use redrive_engine::error::PortResult as Result;
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::model::{RunFilter, TenantScope};
use redrive_engine::runs::document::{HELD, position};

/// `since` and `until`.
type ReceivedSpan = (Option<Timestamp>, Option<Timestamp>);

/// What a filter asks for, in the store's numbers.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedFilter {
    pub(crate) tenant: Option<i64>,
    /// None: every state.
    pub(crate) states: Option<Vec<i64>>,
    pub(crate) queues: Option<Vec<i64>>,
    pub(crate) patterns: Option<Vec<i64>>,
    /// Severities, if the indexes of urgent runs hold all of them.
    pub(crate) urgent: Option<Vec<i64>>,
    /// Positions of `dead_because`; only with the state `dead`.
    pub(crate) details: Option<Vec<i64>>,
    pub(crate) reasons: Vec<String>,
    pub(crate) held: Option<bool>,
    /// Hides dead runs and reviews that are deferred beyond this time.
    pub(crate) hide_deferred: Option<Timestamp>,
    /// The first and the last run number within `since` and `until`.
    pub(crate) ids: Option<(i64, i64)>,
    /// `since` and `until`, where the run numbers only approximate them.
    received: ReceivedSpan,
    /// Columns that no index and no counter covers, and the values they may have.
    others: Vec<(&'static str, SqlParam)>,
    pub(crate) words: Option<SearchWords>,
}

impl ResolvedFilter {
    /// The counters alone can tell how many runs match.
    pub(crate) fn is_counted(&self) -> bool {
        self.patterns.is_none() && self.ids.is_none() && self.others.is_empty() && self.words.is_none()
    }
}

/// None if nothing can match: another tenant's runs, unknown names, states that exclude each other.
pub(crate) async fn resolve(
    reader: &impl StoreReader,
    scope: &TenantScope,
    filter: &RunFilter,
    sort: Sort,
    now: Timestamp,
) -> Result<Option<ResolvedFilter>> {
    let Some(tenant) = tenant(reader, scope, filter).await? else { return Ok(None) };
    let (queues, patterns) = (queues(reader, filter).await?, patterns(reader, filter, tenant).await?);
    let states = states(filter, sort);
    let (ids, received) = received(reader, filter).await?;
    let nothing = |list: &Option<Vec<i64>>| list.as_ref().is_some_and(Vec::is_empty);
    if nothing(&queues) || nothing(&patterns) || nothing(&states) || ids.is_some_and(|(lo, hi)| lo > hi) {
        return Ok(None);
    }
    Ok(Some(ResolvedFilter {
        tenant,
        states,
        queues,
        patterns,
        urgent: urgent(filter),
        details: sorted(filter.dead_because.iter().map(|because| position(DeadBecause::ALL, because))),
        reasons: filter.reasons.iter().map(ToString::to_string).collect(),
        held: filter.held,
        hide_deferred: (filter.states.is_empty() && any_deferred(reader, now).await?).then_some(now),
        ids,
        received,
        others: others(filter),
        words: filter.q.as_deref().and_then(SearchWords::of),
    }))
}

/// The tenant whose runs are read, or all tenants; none if there can be no such runs.
async fn tenant(reader: &impl StoreReader, scope: &TenantScope, filter: &RunFilter) -> Result<Option<Option<i64>>> {
    let seen = read_scope(reader, scope).await?;
    let named = match &filter.tenant {
        Some(named) => Some(read_scope(reader, &TenantScope::One(named.clone())).await?),
        None => None,
    };
    Ok(match (seen, named) {
        (ReadScope::All, None) => Some(None),
        (ReadScope::One(own), None) => Some(Some(own)),
        (ReadScope::All, Some(ReadScope::One(number))) => Some(Some(number)),
        (ReadScope::One(own), Some(ReadScope::One(number))) if own == number => Some(Some(own)),
        (ReadScope::All | ReadScope::One(_) | ReadScope::Nobody, _) => None,
    })
}

async fn queues(reader: &impl StoreReader, filter: &RunFilter) -> Result<Option<Vec<i64>>> {
    if filter.queues.is_empty() {
        return Ok(None);
    }
    let names = SqlParam::Texts(filter.queues.iter().map(ToString::to_string).collect());
    let numbers =
        reader.rows_any("SELECT id FROM queues WHERE name = ANY($1)", &[names]).await?.read(|row| number(row, 0))?;
    Ok(Some(sorted(numbers.into_iter()).unwrap_or_default()))
}

const PATTERN_BY_ID: &str = "WITH named AS (SELECT id FROM patterns WHERE public_id = $1 AND tenant = coalesce($2, tenant)) \
     SELECT id FROM named UNION SELECT p.id FROM patterns p JOIN named ON p.merged_into = named.id";
const PATTERN_BY_FINGERPRINT: &str = "WITH own AS (SELECT id FROM patterns WHERE fp_hash = $1 AND fp_version = $2 AND tenant = coalesce($3, tenant) \
         UNION SELECT pattern FROM pattern_alias WHERE tenant = $3 AND fp_hash = $1 AND fp_version = $2), \
     head AS (SELECT DISTINCT coalesce(p.merged_into, p.id) AS id FROM patterns p JOIN own ON own.id = p.id) \
     SELECT id FROM head UNION SELECT p.id FROM patterns p JOIN head ON p.merged_into = head.id";

/// By id or fingerprint. A fingerprint means the pattern it was merged into; a pattern includes those merged into it.
async fn patterns(reader: &impl StoreReader, filter: &RunFilter, tenant: Option<i64>) -> Result<Option<Vec<i64>>> {
    if filter.patterns.is_empty() {
        return Ok(None);
    }
    let mut numbers = Vec::new();
    for name in &filter.patterns {
        // No id holds NUL, which PostgreSQL refuses in a text.
        if !name.contains('\0') {
            let values = [name.as_str().into(), tenant.into()];
            numbers.extend(reader.rows(PATTERN_BY_ID, &values).await?.read(|row| number(row, 0))?);
        }
        if let Some(FingerprintKey { version, hash }) = FingerprintKey::parse(name) {
            let values = [hash.into(), i64::from(version).into(), tenant.into()];
            numbers.extend(reader.rows(PATTERN_BY_FINGERPRINT, &values).await?.read(|row| number(row, 0))?);
        }
    }
    Ok(Some(sorted(numbers.into_iter()).unwrap_or_default()))
}

/// Run numbers for the span from `since` up to `until`, and the span itself where the numbers are not exact.
async fn received<R: StoreReader>(reader: &R, filter: &RunFilter) -> Result<(Option<(i64, i64)>, ReceivedSpan)> {
    if filter.since.is_none() && filter.until.is_none() {
        return Ok((None, (None, None)));
    }
    let last = last_run(reader).await?;
    let from = match filter.since {
        Some(since) => reader.first_received_from(since.minus_ms(R::RECEIPT_SKEW_MS), last).await?,
        None => 1,
    };
    let before = match filter.until {
        Some(until) => reader.first_received_from(until.plus_ms(R::RECEIPT_SKEW_MS), last).await?,
        None => last.saturating_add(1),
    };
    let exact = R::RECEIPT_SKEW_MS == 0;
    let span = if exact { (None, None) } else { (filter.since, filter.until) };
    Ok((Some((from, before.saturating_sub(1))), span))
}

fn others(filter: &RunFilter) -> Vec<(&'static str, SqlParam)> {
    let labels = |list: &[Label]| SqlParam::Labels(list.iter().map(|label| label.as_str().to_owned()).collect());
    let columns = [
        ("agent", labels(&filter.agents)),
        ("environment", labels(&filter.environments)),
        ("customer", labels(&filter.customers)),
        ("assigned_to", labels(&filter.assigned_to)),
        (
            "category",
            SqlParam::Numbers(filter.categories.iter().map(|category| position(&Category::ALL, category)).collect()),
        ),
        (
            "severity",
            SqlParam::Numbers(filter.severities.iter().map(|severity| position(Severity::ALL, severity)).collect()),
        ),
    ];
    columns.into_iter().filter(|(_, list)| !list.is_empty_list()).collect()
}

fn sorted(numbers: impl Iterator<Item = i64>) -> Option<Vec<i64>> {
    let mut numbers: Vec<i64> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    (!numbers.is_empty()).then_some(numbers)
}

/// The states asked for, without those that the rest of the filter excludes.
fn states(filter: &RunFilter, sort: Sort) -> Option<Vec<i64>> {
    let only_scheduled = filter.held == Some(true) || sort == Sort::Due;
    let only_dead = !filter.dead_because.is_empty();
    let open = |state: &StateName| {
        (!only_scheduled || *state == StateName::Scheduled) && (!only_dead || *state == StateName::Dead)
    };
    if filter.states.is_empty() && !only_scheduled && !only_dead {
        return None;
    }
    let named = if filter.states.is_empty() { StateName::ALL } else { &filter.states };
    let numbers = named.iter().filter(|state| open(state)).map(|state| position(StateName::ALL, state));
    Some(sorted(numbers).unwrap_or_default())
}

/// The severities asked for, if the indexes of urgent runs hold all of them.
fn urgent(filter: &RunFilter) -> Option<Vec<i64>> {
    let is_urgent = |severity: &Severity| *severity > Severity::Normal;
    let numbers = filter.severities.iter().map(|severity| position(Severity::ALL, severity));
    if filter.severities.iter().all(is_urgent) { sorted(numbers) } else { None }
}

/// All states, if none are given.
pub(crate) fn or_all_states(states: Option<&[i64]>) -> Vec<i64> {
    states.map_or_else(|| (0..).take(StateName::ALL.len()).collect(), <[i64]>::to_vec)
}

/// Conditions that an index range already meets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CoveredColumns {
    pub(crate) tenant: bool,
    pub(crate) state: bool,
    pub(crate) queue: bool,
    pub(crate) pattern: bool,
    pub(crate) ids: bool,
}

impl ResolvedFilter {
    /// The conditions on a row that an index range does not cover; none if it covers all.
    pub(crate) fn residual<R: StoreReader>(&self, covered: CoveredColumns, params: &mut SqlParams) -> Option<String> {
        let mut all: Vec<String> = Vec::new();
        if let Some(tenant) = self.tenant.filter(|_| !covered.tenant) {
            all.push(format!("runs.tenant = {}", params.add(tenant)));
        }
        let lists = [
            ("runs.state", &self.states, covered.state),
            ("runs.queue", &self.queues, covered.queue),
            ("runs.pattern", &self.patterns, covered.pattern),
            ("runs.detail", &self.details, false),
        ];
        for (column, list, is_covered) in lists {
            if let Some(list) = list.as_ref().filter(|_| !is_covered) {
                all.push(R::one_of(column, list.as_slice().into(), params));
            }
        }
        if !self.reasons.is_empty() {
            all.push(R::one_of("runs.reason", SqlParam::Texts(self.reasons.clone()), params));
        }
        let scheduled = position(StateName::ALL, &StateName::Scheduled);
        match self.held {
            Some(true) => all.push(format!("runs.detail = {HELD}")),
            Some(false) => all.push(format!("NOT (runs.state = {scheduled} AND runs.detail = {HELD})")),
            None => {}
        }
        if let Some(now) = self.hide_deferred {
            all.push(format!("NOT (runs.deferred_until IS NOT NULL AND {})", is_deferred(&params.add(now))));
        }
        if let Some((lo, hi)) = self.ids.filter(|_| !covered.ids) {
            all.push(format!("runs.id BETWEEN {} AND {}", params.add(lo), params.add(hi)));
        }
        if let Some(since) = self.received.0 {
            all.push(format!("runs.received_at >= {}", params.add(since)));
        }
        if let Some(until) = self.received.1 {
            all.push(format!("runs.received_at < {}", params.add(until)));
        }
        for (column, list) in &self.others {
            all.push(R::one_of(&format!("runs.{column}"), list.clone(), params));
        }
        (!all.is_empty()).then(|| all.join(" AND "))
    }
}

/// Deferred runs that default lists hide; `now` is a placeholder.
pub(crate) fn is_deferred(now: &str) -> String {
    let hidden = StateName::ALL.iter().filter(|state| state.is_hidden_while_deferred());
    let hidden: Vec<String> = hidden.map(|state| position(StateName::ALL, state).to_string()).collect();
    format!("runs.deferred_until > {now} AND runs.state IN ({})", hidden.join(", "))
}

/// A search: the beginning of one of the run's names, or words of its error template.
#[derive(Debug, Clone)]
pub(crate) struct SearchWords {
    pub(crate) prefix: String,
    /// In lower case; the template must contain all of them.
    words: Vec<String>,
}

impl SearchWords {
    /// None for an empty search.
    fn of(q: &str) -> Option<Self> {
        let words: Vec<String> = q.split_whitespace().map(str::to_lowercase).collect();
        (!words.is_empty()).then(|| Self { prefix: q.to_owned(), words })
    }

    pub(crate) fn are_in(&self, template: &str) -> bool {
        let template = template.to_lowercase();
        self.words.iter().all(|word| template.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::wire::Severity;

    use super::super::scan::IS_URGENT;
    use super::urgent;
    use redrive_engine::model::RunFilter;
    use redrive_engine::runs::document::position;

    #[test]
    fn severities_above_normal_are_urgent() {
        assert_eq!(IS_URGENT, format!("runs.severity >= {}", position(Severity::ALL, &Severity::High)));
        let asked =
            |severities: &[Severity]| urgent(&RunFilter { severities: severities.to_vec(), ..RunFilter::default() });
        assert_eq!(asked(&[Severity::Critical, Severity::High]), Some(vec![2, 3]));
        assert_eq!(asked(&[Severity::Critical, Severity::Normal]), None);
        assert_eq!(asked(&[]), None);
    }
}
