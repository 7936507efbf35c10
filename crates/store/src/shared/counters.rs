//! Runs by state, from the counters.

use std::collections::HashMap;

use redrive_core::run::StateName;

use super::columns::{Columns, number};
use super::lookup::ReadScope;
use super::reader::{SqlParams, StoreReader};
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::{position, word};

/// Runs by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CountsByState([u64; StateName::ALL.len()]);

impl CountsByState {
    pub(crate) fn sum<'a>(counters: impl IntoIterator<Item = &'a CounterRow>) -> Self {
        let mut sums = Self::default();
        for counter in counters {
            sums.add(counter);
        }
        sums
    }

    pub(crate) fn of(&self, state: StateName) -> u64 {
        usize::try_from(position(StateName::ALL, &state)).ok().and_then(|n| self.0.get(n)).copied().unwrap_or(0)
    }

    fn add(&mut self, counter: &CounterRow) {
        let slot = usize::try_from(position(StateName::ALL, &counter.state)).ok().and_then(|at| self.0.get_mut(at));
        if let Some(slot) = slot {
            *slot = slot.saturating_add_signed(counter.n);
        }
    }

    /// Every state in the order of its list, also those without runs.
    pub(crate) fn all(&self) -> Vec<(StateName, u64)> {
        StateName::ALL.iter().map(|state| (*state, self.of(*state))).collect()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CounterRow {
    pub(crate) state: StateName,
    pub(crate) queue: i64,
    pub(crate) detail: i64,
    pub(crate) n: i64,
}

impl CounterRow {
    /// Reads the columns from `first` on.
    fn read(row: &impl Columns, first: usize) -> Result<Self> {
        Ok(Self {
            state: word(StateName::ALL, number(row, first)?, "state")?,
            queue: number(row, first + 1)?,
            detail: number(row, first + 2)?,
            n: number(row, first + 3)?,
        })
    }
}

/// The counters that a scope may see.
pub(crate) async fn counters<R: StoreReader>(reader: &R, scope: ReadScope) -> Result<Vec<CounterRow>> {
    match scope {
        ReadScope::Nobody => Ok(Vec::new()),
        ReadScope::All => {
            let sql = R::counters("totals", "state, queue, detail", "TRUE");
            reader.rows(&sql, &[]).await?.read(|row| CounterRow::read(row, 0))
        }
        ReadScope::One(tenant) => {
            let own = counters_of(reader, &[tenant], StateName::ALL).await?;
            Ok(own.into_iter().map(|(_, counter)| counter).collect())
        }
    }
}

/// The counters of these tenants in these states.
pub(crate) async fn counters_of<R: StoreReader>(
    reader: &R,
    tenants: &[i64],
    states: &[StateName],
) -> Result<Vec<(i64, CounterRow)>> {
    if tenants.is_empty() {
        return Ok(Vec::new());
    }
    let states: Vec<i64> = states.iter().map(|state| position(StateName::ALL, state)).collect();
    let mut params = SqlParams::default();
    let condition =
        [R::one_of("state", states.as_slice().into(), &mut params), R::one_of("tenant", tenants.into(), &mut params)];
    let sql = R::counters("counts", "tenant, state, queue, detail", &condition.join(" AND "));
    reader.rows(&sql, params.values()).await?.read(|row| Ok((number(row, 0)?, CounterRow::read(row, 1)?)))
}

/// Every queue's runs by state, over all tenants.
pub(crate) async fn counts_by_queue(reader: &impl StoreReader) -> Result<HashMap<i64, CountsByState>> {
    let mut by_queue: HashMap<i64, CountsByState> = HashMap::new();
    for counter in counters(reader, ReadScope::All).await? {
        by_queue.entry(counter.queue).or_default().add(&counter);
    }
    Ok(by_queue)
}
