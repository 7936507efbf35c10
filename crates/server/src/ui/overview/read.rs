//! The data of the front page: counters, a day of hourly statistics and small samples. Its size does not grow with the
//! number of runs.

use redrive_core::run::StateName;
use redrive_core::time::{DAY_MS, Timestamp};
use redrive_core::wire::{
    BreakerView, HealthAnswer, PatternDetail, PatternSort, RunSummary, RunsPage, Severity, Sort, StatsAnswer,
    TenantView,
};
use redrive_engine::{PageCall, PatternsCall, RunFilter, StateCounts, StatsCall, TenantScope};

use super::super::components::percent;
use crate::app::App;
use crate::auth::Visitor;
use crate::problem::Result;

const PATTERNS_SHOWN: u32 = 6;
/// How many of the newest waiting runs are read to name their queues and tenants.
const WAITING_LOOKED_AT: u32 = 100;
/// How many of the newest settled runs the median time is taken from.
const SETTLED_LOOKED_AT: u32 = 100;
const TENANTS_LOOKED_AT: u32 = 100;

/// Totals of the last 24 hours.
#[derive(Debug, Default)]
pub(super) struct DayTotals {
    pub(super) failed: u64,
    pub(super) retried: u64,
    pub(super) recovered: u64,
    pub(super) dead: u64,
}

pub(super) struct OverviewData {
    pub(super) now: Timestamp,
    pub(super) standing: StateCounts,
    pub(super) stats: StatsAnswer,
    pub(super) day: DayTotals,
    /// By number of open runs.
    pub(super) patterns: Vec<PatternDetail>,
    pub(super) health: HealthAnswer,
    pub(super) breakers: Vec<BreakerView>,
    /// The newest runs that are dead or in review.
    pub(super) waiting: Vec<RunSummary>,
    /// The newest critical dead letters with their total.
    pub(super) critical: RunsPage,
    /// By number of dead letters; empty for a tenant.
    pub(super) tenants: Vec<TenantView>,
    /// The median over the newest settled runs.
    pub(super) by_itself_ms: Option<u64>,
    pub(super) by_a_person_ms: Option<u64>,
}

impl OverviewData {
    pub(super) async fn read(app: &App, who: &Visitor) -> Result<Self> {
        let scope = who.scope(None)?;
        let now = app.store.now();
        let call = StatsCall { since: Some(now.minus_ms(DAY_MS)), ..StatsCall::default() };
        let largest = PatternsCall { sort: PatternSort::Open, ..PatternsCall::first(PATTERNS_SHOWN) };
        let (waits, settled) = ([StateName::Dead, StateName::Review], [StateName::Recovered, StateName::Resolved]);
        let (standing, stats, patterns, health, breakers, waiting, critical, settled) = tokio::join!(
            app.store.standing(&scope),
            app.store.stats(&scope, call),
            app.store.patterns(&scope, largest),
            app.store.health(&scope),
            app.store.breakers(&scope),
            newest(app, &scope, in_states(&waits), WAITING_LOOKED_AT),
            newest(app, &scope, critical(), WAITING_LOOKED_AT),
            newest(app, &scope, in_states(&settled), SETTLED_LOOKED_AT),
        );
        let (stats, settled) = (stats?, settled?.runs);
        let mut open = Vec::new();
        for pattern in patterns?.patterns.into_iter().filter(|pattern| pattern.open > 0) {
            open.push(app.store.pattern(&scope, &pattern.id).await?);
        }
        let is_own = |run: &&RunSummary| run.replays == 0 && run.state == StateName::Recovered;
        Ok(Self {
            now,
            standing: standing?,
            day: day(&stats),
            stats,
            patterns: open,
            health: health?,
            breakers: breakers?.breakers,
            waiting: waiting?.runs,
            critical: critical?,
            tenants: tenants(app, &scope).await?,
            by_itself_ms: median(settled.iter().filter(is_own)),
            by_a_person_ms: median(settled.iter().filter(|run| !is_own(run))),
        })
    }

    pub(super) fn needing(&self) -> u64 {
        self.standing.of(StateName::Dead) + self.standing.of(StateName::Review)
    }

    /// The share of recovered runs among those that ended after a failure.
    pub(super) fn recovery_rate(&self) -> Option<String> {
        percent(self.day.recovered, self.day.recovered + self.day.dead)
    }
}

fn in_states(states: &[StateName]) -> RunFilter {
    RunFilter { states: states.to_vec(), ..RunFilter::default() }
}

fn critical() -> RunFilter {
    RunFilter { severities: vec![Severity::Critical], ..in_states(&[StateName::Dead]) }
}

async fn newest(app: &App, scope: &TenantScope, filter: RunFilter, most: u32) -> Result<RunsPage> {
    let tenant = match scope {
        TenantScope::One(tenant) => Some(tenant.clone()),
        TenantScope::All => None,
    };
    // The totals by state are on the page already.
    let count = !filter.severities.is_empty();
    let page = PageCall { sort: Sort::NewestFirst, limit: most, cursor: None, count };
    Ok(app.store.runs(scope, RunFilter { tenant, ..filter }, page).await?)
}

async fn tenants(app: &App, scope: &TenantScope) -> Result<Vec<TenantView>> {
    match scope {
        TenantScope::One(_) => Ok(Vec::new()),
        TenantScope::All => {
            let mut tenants = app.store.tenants(TENANTS_LOOKED_AT, None).await?.tenants;
            tenants.sort_by_key(|tenant| std::cmp::Reverse(tenant.dead));
            Ok(tenants)
        }
    }
}

fn day(stats: &StatsAnswer) -> DayTotals {
    stats.hours.iter().fold(DayTotals::default(), |day, hour| DayTotals {
        failed: day.failed + hour.failed,
        retried: day.retried + hour.retried,
        recovered: day.recovered + hour.recovered,
        dead: day.dead + hour.dead,
    })
}

fn median<'a>(runs: impl Iterator<Item = &'a RunSummary>) -> Option<u64> {
    let mut took: Vec<u64> = runs.map(|run| run.updated_at.since(run.received_at)).collect();
    took.sort_unstable();
    took.get(took.len() / 2).copied()
}
