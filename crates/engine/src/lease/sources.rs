//! Which queues and tenants a lease call draws from.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use redrive_core::policy::RetryBy;
use redrive_core::time::{SECOND_MS, Timestamp};
use redrive_core::wire::Versions;

use crate::error::Result;
use crate::model::{LeaseCall, TenantScope};
use crate::names::tenant_names;
use crate::runs::attempts::json;
use crate::tx::{QueueRow, Tx};

/// Stands for the tenant or queue of a call that names none.
pub const ALL: i64 = 0;

/// Up to this many queues are asked one by one; of more, only those with due runs.
const QUEUES_ASKED_MAX: usize = 64;

/// The last lease call of a queue is written at most this often.
const CALL_NOTED_EVERY_MS: u64 = 10 * SECOND_MS;

/// Where a call looks for due runs.
pub enum DueSources {
    /// These queues, of every tenant.
    Queues(Vec<i64>),
    /// By tenant: the queues in which it has due runs.
    ByTenant(BTreeMap<i64, Vec<i64>>),
}

impl DueSources {
    /// The sources of a call. A call for everything costs by where runs are due, not by how many queues exist.
    pub fn of(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Self> {
        let spans_all = call.queues.is_empty() && call.scope == TenantScope::All;
        if !spans_all || tx.rows.queue_numbers(QUEUES_ASKED_MAX + 1)?.len() <= QUEUES_ASKED_MAX {
            let queues = leasable_queues(tx, call)?;
            return Ok(Self::Queues(queues.into_iter().map(|queue| queue.id).collect()));
        }
        note_lease_call(tx, ALL, ALL, &call.versions)?;
        let (mut by_tenant, mut at) = (BTreeMap::<i64, Vec<i64>>::new(), (i64::MIN, i64::MIN));
        while let Some((place, due)) = tx.rows.next_waiting(at)? {
            at = place;
            let (queue, tenant) = place;
            if due <= tx.now && tx.queue_by_id(queue)?.settings.retry_by == RetryBy::Worker {
                by_tenant.entry(tenant).or_default().push(queue);
            }
        }
        Ok(Self::ByTenant(by_tenant))
    }

    /// Only these pairs of queue and tenant.
    pub fn only<'a>(places: impl IntoIterator<Item = &'a (i64, i64)>) -> Self {
        let mut by_tenant = BTreeMap::<i64, Vec<i64>>::new();
        for (queue, tenant) in places {
            by_tenant.entry(*tenant).or_default().push(*queue);
        }
        Self::ByTenant(by_tenant)
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

/// The number of the call's tenant; none for an unknown tenant.
pub fn scope_of(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Option<i64>> {
    match &call.scope {
        TenantScope::All => Ok(Some(ALL)),
        TenantScope::One(tenant) => tx.find_tenant(tenant),
    }
}

/// The queues of a call that workers may lease from. Also notes the call for each of them.
fn leasable_queues(tx: &mut Tx<'_>, call: &LeaseCall) -> Result<Vec<QueueRow>> {
    let Some(scope) = scope_of(tx, call)? else { return Ok(Vec::new()) };
    let mut queues = Vec::new();
    if call.queues.is_empty() {
        let ids = match scope {
            ALL => tx.rows.queue_numbers(QUEUES_ASKED_MAX)?,
            tenant => tx.rows.queue_numbers_of(tenant)?,
        };
        for id in ids {
            queues.push(tx.queue_by_id(id)?);
        }
    }
    for name in &call.queues {
        // A name that only another tenant uses is unknown to this one.
        let named = if scope == ALL { tx.find_queue(name)? } else { tenant_names::queue_seen_by(tx, scope, name)? };
        queues.extend(named);
    }
    let mut unique = HashSet::new();
    queues.retain(|queue| queue.settings.retry_by == RetryBy::Worker && unique.insert(queue.id));
    if call.queues.is_empty() {
        note_lease_call(tx, ALL, scope, &call.versions)?;
    }
    for queue in queues.iter().filter(|_| !call.queues.is_empty()) {
        note_lease_call(tx, queue.id, scope, &call.versions)?;
    }
    Ok(queues)
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
