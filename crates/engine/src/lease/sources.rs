//! Which queues and tenants a lease call draws from.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use redrive_core::policy::RetryBy;
use redrive_core::time::{SECOND_MS, Timestamp};
use redrive_core::wire::Versions;

use crate::error::Result;
use crate::lease::scan::ScanRound;
use crate::model::{LeaseCall, TenantScope};
use crate::names::tenant_names;
use crate::runs::attempts::json;
use crate::tx::Tx;

/// Stands for the tenant or queue of a call that names none.
pub const ALL: i64 = 0;

/// Queues that one command of a call asks. For a call over more of them, a read beside the writer finds those with due
/// runs, and each command gets so many of these.
pub const QUEUES_ASKED_MAX: usize = 64;

/// The last lease call of a queue is written at most this often.
const CALL_NOTED_EVERY_MS: u64 = 10 * SECOND_MS;

/// A queue and a tenant.
pub type QueueTenant = (i64, i64);

/// Where a command looks for due runs.
pub enum DueSources {
    /// These queues, of every tenant.
    Queues(Vec<i64>),
    /// By tenant: the queues in which it has due runs.
    ByTenant(BTreeMap<i64, Vec<i64>>),
}

impl DueSources {
    /// The sources of a call; none if they are too many for one command. Also notes the call.
    pub fn of(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Option<Self>> {
        let Some(scope) = scope_of(tx, call)? else { return Ok(Some(Self::Queues(Vec::new()))) };
        let mut queues = Vec::new();
        if call.queues.is_empty() {
            note_lease_call(tx, ALL, scope, &call.versions)?;
            queues = match scope {
                ALL => tx.rows.queue_numbers(QUEUES_ASKED_MAX + 1)?,
                tenant => tx.rows.queue_numbers_of(tenant, QUEUES_ASKED_MAX + 1)?,
            };
        }
        if queues.len().max(call.queues.len()) > QUEUES_ASKED_MAX {
            return Ok(None);
        }
        for name in &call.queues {
            // A name that only another tenant uses is unknown to this one.
            let named = if scope == ALL { tx.find_queue(name)? } else { tenant_names::queue_seen_by(tx, scope, name)? };
            queues.extend(named.map(|queue| queue.id));
        }
        let queues = worker_queues(tx, queues)?;
        if !call.queues.is_empty() {
            note_lease_calls(tx, call, &queues)?;
        }
        Ok(Some(Self::Queues(queues)))
    }

    /// Those of these places that workers may lease from.
    pub fn only(tx: &mut Tx<'_>, places: &[DuePlace]) -> Result<Self> {
        let mut by_tenant = BTreeMap::<i64, Vec<i64>>::new();
        for DuePlace { at: (queue, tenant), .. } in places {
            if is_for_workers(tx, *queue)? {
                by_tenant.entry(*tenant).or_default().push(*queue);
            }
        }
        Ok(Self::ByTenant(by_tenant))
    }

    pub fn queues_of(&self, tenant: i64) -> &[i64] {
        match self {
            Self::Queues(queues) => queues,
            Self::ByTenant(by_tenant) => by_tenant.get(&tenant).map_or(&[], Vec::as_slice),
        }
    }

    /// The next tenant after `after` with scheduled runs, and when the first of them is due.
    pub fn next_tenant(&self, tx: &mut Tx<'_>, after: i64) -> Result<Option<(i64, Timestamp)>> {
        match self {
            Self::Queues(queues) => Ok(tx.rows.next_tenant(queues, after, tx.now)?),
            Self::ByTenant(by_tenant) => {
                let after = (Bound::Excluded(after), Bound::Unbounded);
                Ok(by_tenant.range(after).next().map(|(tenant, _)| (*tenant, tx.now)))
            }
        }
    }
}

/// A queue in which a tenant has due runs.
#[derive(Debug, Clone, Copy)]
pub struct DuePlace {
    pub at: QueueTenant,
    /// No run there that the call has not examined is due before.
    pub due: i64,
    /// The round of the scan that the call has to finish.
    pub round: Option<ScanRound>,
}

/// Where a call over many queues finds due runs: tenants in turn, each in due order.
#[derive(Debug, Default)]
pub struct DuePlaces {
    by_turn: BTreeMap<(u64, i64, QueueTenant), Option<ScanRound>>,
    /// Of several tenants, a place whose runs were not all examined has its next turn after all others.
    spans_tenants: bool,
    last_turn: u64,
    /// The queues that the call names.
    named: Vec<i64>,
}

impl DuePlaces {
    /// Finds them beside the writer. The first turn is that of the tenant after `after`.
    pub fn find(tx: &mut Tx<'_>, call: &LeaseCall, after: i64) -> Result<Self> {
        let Some(scope) = scope_of(tx, call)? else { return Ok(Self::default()) };
        let mut named: HashSet<i64> = HashSet::new();
        if !call.queues.is_empty() {
            named.extend(tx.rows.queue_numbers_named(&call.queues)?);
        }
        let is_asked = |queue: &i64| call.queues.is_empty() || named.contains(queue);
        let mut by_tenant = BTreeMap::<i64, Vec<(Timestamp, i64)>>::new();
        if scope == ALL {
            let mut at = (i64::MIN, i64::MIN);
            while let Some(((queue, tenant), due)) = tx.rows.next_waiting(at)? {
                at = (queue, tenant);
                if due <= tx.now && is_asked(&queue) {
                    by_tenant.entry(tenant).or_default().push((due, queue));
                }
            }
        } else {
            let mut queues = tx.rows.queue_numbers_of(scope, usize::MAX)?;
            queues.retain(is_asked);
            let first = tx.rows.first_due(scope, &queues)?;
            let due = first.into_iter().filter(|(_, due)| *due <= tx.now).map(|(queue, due)| (due, queue));
            by_tenant.insert(scope, due.collect());
            // A name that only another tenant uses is unknown to this one.
            if !call.queues.is_empty() {
                named = queues.into_iter().collect();
            }
        }
        Ok(Self { named: named.into_iter().collect(), ..Self::in_turn(by_tenant, after) })
    }

    fn in_turn(mut by_tenant: BTreeMap<i64, Vec<(Timestamp, i64)>>, after: i64) -> Self {
        let first = by_tenant.split_off(&after.saturating_add(1));
        let tenants: Vec<_> = first.into_iter().chain(by_tenant).collect();
        let mut places = Self { spans_tenants: tenants.len() > 1, ..Self::default() };
        let count = tenants.len() as u64;
        for (nth_tenant, (tenant, mut queues)) in (0..).zip(tenants) {
            queues.sort_unstable();
            for (nth, (due, queue)) in (0..).zip(queues) {
                let turn = if places.spans_tenants { nth * count + nth_tenant } else { 0 };
                places.last_turn = places.last_turn.max(turn);
                places.by_turn.insert((turn, due.as_millis(), (queue, tenant)), None);
            }
        }
        places
    }

    /// Takes the places of the next command.
    pub fn take(&mut self) -> Vec<DuePlace> {
        let next = std::iter::from_fn(|| self.by_turn.pop_first()).take(QUEUES_ASKED_MAX);
        next.map(|((_, due, at), round)| DuePlace { at, due, round }).collect()
    }

    pub fn put_back(&mut self, place: DuePlace) {
        self.last_turn += u64::from(self.spans_tenants);
        self.by_turn.insert((self.last_turn, place.due, place.at), place.round);
    }

    /// Takes the queues that the call names, to note it for each of them.
    pub fn take_named(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.named)
    }
}

/// The number of the call's tenant; none for an unknown tenant.
pub fn scope_of(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Option<i64>> {
    match &call.scope {
        TenantScope::All => Ok(Some(ALL)),
        TenantScope::One(tenant) => tx.find_tenant(tenant),
    }
}

fn is_for_workers(tx: &mut Tx<'_>, queue: i64) -> Result<bool> {
    Ok(tx.queue_by_id(queue)?.settings.retry_by == RetryBy::Worker)
}

/// Those of the queues that workers may lease from, each once.
fn worker_queues(tx: &mut Tx<'_>, queues: Vec<i64>) -> Result<Vec<i64>> {
    let (mut unique, mut found) = (HashSet::new(), Vec::new());
    for queue in queues {
        if is_for_workers(tx, queue)? && unique.insert(queue) {
            found.push(queue);
        }
    }
    Ok(found)
}

/// Notes a call for each of the queues.
pub fn note_lease_calls(tx: &mut Tx<'_>, call: &LeaseCall, queues: &[i64]) -> Result<()> {
    let Some(scope) = scope_of(tx, call)? else { return Ok(()) };
    for queue in queues {
        if is_for_workers(tx, *queue)? {
            note_lease_call(tx, *queue, scope, &call.versions)?;
        }
    }
    Ok(())
}

fn note_lease_call(tx: &mut Tx<'_>, queue: i64, tenant: i64, versions: &Versions) -> Result<()> {
    let noted = tx.known.lease_calls.get(&(queue, tenant));
    if noted.is_some_and(|at| tx.now.since(*at) < CALL_NOTED_EVERY_MS) {
        return Ok(());
    }
    // A plan compares with the versions of the workers; a call without versions leaves the last known ones.
    let versions = if versions.is_empty() { None } else { Some(json(versions)?) };
    tx.rows.note_lease_call(queue, tenant, versions.as_deref(), tx.now)?;
    tx.known.lease_calls.insert((queue, tenant), tx.now);
    Ok(())
}
