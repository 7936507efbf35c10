//! One lease: the attempt begins in the run's row, under a new epoch.

use redrive_core::ids::{IdempotencyKey, QueueName, RunId, Tenant};
use redrive_core::lifecycle::{Begin, Event};
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{HandedChange, Versions};

use crate::attempt::start::token;
use crate::breakers::{Probes, gate};
use crate::error::{Error, Result};
use crate::lease::scan::DueRun;
use crate::lease::{contents, limits};
use crate::model::{HourlyKind, LeaseCall, LeaseToken};
use crate::names::versions;
use crate::runs::{run_row, set_aside};
use crate::tx::Tx;

/// A leased run; payload and steps are read after the commit.
#[derive(Debug, Clone)]
pub struct GrantedLease {
    pub row: i64,
    pub run_id: RunId,
    pub tenant: Tenant,
    pub queue: QueueName,
    pub agent: Option<Label>,
    pub idempotency_key: Option<IdempotencyKey>,
    pub model: Option<Label>,
    pub attempt: u32,
    pub revision: u32,
    pub replay: bool,
    pub lease: LeaseToken,
    pub lease_expires_at: Timestamp,
    pub changes: Vec<HandedChange>,
    /// Of the worker.
    pub versions: Versions,
    /// From the due time to this lease; none where an earlier call had leased the run.
    pub overdue_ms: Option<u64>,
}

/// Begins the next attempt of a due run for the caller. `request` identifies the call, if it may be repeated.
pub fn grant(
    tx: &mut Tx<'_>,
    call: &LeaseCall,
    request: Option<&Label>,
    due: DueRun,
    probes: Probes,
) -> Result<GrantedLease> {
    let mut row = due.row;
    let before = row.clone();
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let begin = Begin { lease_ms: call.lease_ms.unwrap_or(policy.lease_ms), ..Begin::default() };
    row.run = row.ask(&Event::Begin(begin), &policy, tx.now)?.run;
    row.ensure_lease_secret(tx.dice);
    row.worker.clone_from(&call.worker);
    row.touch(call.by);
    row.versions.clone_from(&call.versions);
    versions::see_versions(tx, row.tenant, &call.versions)?;
    row.start_id = None;
    row.request = request.cloned();
    gate::begun(tx, &mut row, probes, &policy)?;
    limits::count_lease(tx, row.tenant)?;
    run_row::save(tx, &before, &row)?;
    tx.counters.happened(tx.now, row.tenant, row.queue, HourlyKind::Started, None);
    let overdue_ms = before.run.due_at().map(|due| tx.now.since(due));
    Ok(GrantedLease { overdue_ms, ..granted(tx, call, DueRun { row, ..due })? })
}

/// The live leases that an earlier call with the same request id got; its answer may have been lost.
pub fn leases_of_request(tx: &mut Tx<'_>, call: &LeaseCall, request: &Label) -> Result<Vec<GrantedLease>> {
    let mut leases = Vec::new();
    for leased in set_aside::readable(tx, |rows| rows.leased_by(request.as_str()))? {
        if leased.row.request() == Some(request.as_str()) {
            leases.push(granted(tx, call, leased)?);
        }
    }
    Ok(leases)
}

fn granted(tx: &mut Tx<'_>, call: &LeaseCall, leased: DueRun) -> Result<GrantedLease> {
    let DueRun { row, agent, idempotency_key, .. } = leased;
    let not_leased = || Error::Unexpected(format!("run {} is not under a lease", row.run_id));
    let lease = row.run.lease().ok_or_else(not_leased)?;
    Ok(GrantedLease {
        row: row.id,
        run_id: row.run_id.clone(),
        tenant: tx.tenant_name(row.tenant)?,
        queue: tx.queue_by_id(row.queue)?.name,
        agent,
        idempotency_key,
        model: row.run.target.model.clone().or_else(|| row.model.clone()),
        attempt: row.run.attempt,
        revision: row.run.revision,
        replay: lease.replay,
        lease: token(&row).ok_or_else(not_leased)?,
        lease_expires_at: lease.expires_at,
        changes: contents::wanted(&row),
        versions: call.versions.clone(),
        overdue_ms: None,
    })
}
