//! Queues and custom reasons of a tenant. Each kind has a limit per tenant, so that one tenant's names cost no other
//! tenant.

use std::borrow::Cow;

use redrive_core::ids::QueueName;
use redrive_core::reason::Reason;
use redrive_core::run::StateName;
use redrive_core::text::Text;

use crate::error::{Error, Result};
use crate::model::FailedAttempt;
use crate::ports::rows::NewMove;
use crate::tx::{QueueRow, Tx};

/// Queues that a tenant's runs may create, beside `default` and the declared ones.
pub const TENANT_QUEUES_MAX: usize = 1_000;
/// Reasons `x:<name>` of a tenant; a failure beyond them counts as `x:other`.
pub const TENANT_REASONS_MAX: usize = 1_000;
const OTHER_REASON: &str = "x:other";
/// Beyond this many names the cache is cleared.
const CACHED_MAX: usize = 100_000;

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    Queue,
    Reason,
}

impl NameKind {
    /// Its number in the store.
    pub fn number(self) -> i64 {
        match self {
            Self::Queue => 0,
            Self::Reason => 1,
        }
    }
}

/// The queue that a tenant's run names; none beyond the limit.
fn queue_for(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<Option<QueueRow>> {
    if let Some(queue) = queue_seen_by(tx, tenant, name)? {
        return Ok(Some(queue));
    }
    let is_default = name.as_str() == QueueName::DEFAULT;
    if !is_default && !tx.rows.use_name(tenant, NameKind::Queue, name.as_str(), TENANT_QUEUES_MAX)? {
        return Ok(None);
    }
    let queue = tx.queue(name)?;
    cache_use(tx, tenant, queue.id);
    Ok(Some(queue))
}

/// The queue of a start or an enqueue.
pub fn queue_to_start_in(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<QueueRow> {
    queue_for(tx, tenant, name)?.ok_or(Error::TooManyQueues { most: TENANT_QUEUES_MAX })
}

/// The queue of a failure, and whether it is `default` instead of the named one: beyond the limit a failure is not
/// refused.
pub fn queue_to_fail_in(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<(QueueRow, bool)> {
    match queue_for(tx, tenant, name)? {
        Some(queue) => Ok((queue, false)),
        None => Ok((tx.queue(&QueueName::default_queue())?, true)),
    }
}

/// Records that the run is not in the queue that its report named.
pub fn note_other_queue(tx: &mut Tx<'_>, run: i64, state: StateName, named: &QueueName) -> Result<()> {
    let note = format!(
        "It named queue {named}, and the tenant has {TENANT_QUEUES_MAX} queues of its own already: it is in default."
    );
    let note = Text::from(note.as_str());
    let (actor, event) = ("engine", "queue_limit");
    Ok(tx.rows.insert_move(&NewMove { run, actor, event, from: state, to: state, note: Some(&note) }, tx.now)?)
}

/// A queue that the tenant may see: `default`, a declared one, or one that its runs have used.
pub fn queue_seen_by(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<Option<QueueRow>> {
    let Some(queue) = tx.find_queue(name)? else { return Ok(None) };
    let known =
        queue.declared || name.as_str() == QueueName::DEFAULT || tx.known.queues_used.contains(&(tenant, queue.id));
    if known {
        return Ok(Some(queue));
    }
    let used = tx.rows.knows_name(tenant, NameKind::Queue, name.as_str())?;
    if used {
        cache_use(tx, tenant, queue.id);
    }
    Ok(used.then_some(queue))
}

/// The queue that a verdict or a person sends a run to. It is not subject to the limit.
pub fn queue_sent_to(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<QueueRow> {
    if let Some(queue) = queue_seen_by(tx, tenant, name)? {
        return Ok(queue);
    }
    tx.rows.use_name(tenant, NameKind::Queue, name.as_str(), usize::MAX)?;
    let queue = tx.queue(name)?;
    cache_use(tx, tenant, queue.id);
    Ok(queue)
}

fn cache_use(tx: &mut Tx<'_>, tenant: i64, queue: i64) {
    if tx.known.queues_used.len() >= CACHED_MAX {
        tx.known.queues_used.clear();
    }
    tx.known.queues_used.insert((tenant, queue));
}

/// The failure with its reason; beyond the limit of custom reasons it is `x:other`.
pub fn within_reasons<'f>(tx: &mut Tx<'_>, tenant: i64, failed: &'f FailedAttempt) -> Result<Cow<'f, FailedAttempt>> {
    let Reason::Custom(_) = &failed.failure.reason else { return Ok(Cow::Borrowed(failed)) };
    let reason = &failed.failure.reason;
    if reason.as_str() == OTHER_REASON
        || tx.known.reasons_used.contains(&(tenant, reason.clone()))
        || tx.rows.use_name(tenant, NameKind::Reason, reason.as_str(), TENANT_REASONS_MAX)?
    {
        if tx.known.reasons_used.len() >= CACHED_MAX {
            tx.known.reasons_used.clear();
        }
        tx.known.reasons_used.insert((tenant, reason.clone()));
        return Ok(Cow::Borrowed(failed));
    }
    let mut other = failed.clone();
    other.failure.reason = OTHER_REASON.parse().map_err(|_| Error::Unexpected("x:other is no reason".into()))?;
    Ok(Cow::Owned(other))
}
