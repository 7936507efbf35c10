//! Names that a tenant makes up: queues, and reasons of its own. Each kind has a cap per tenant, so that nobody's names
//! cost others anything.

use std::borrow::Cow;

use redrive_core::ids::QueueName;
use redrive_core::reason::Reason;
use redrive_core::run::StateName;
use redrive_core::text::Text;

use crate::error::{Error, Result};
use crate::model::FailedAttempt;
use crate::ports::rows::NewMove;
use crate::tx::{QueueRow, Tx};

/// Queues that one tenant's runs may name, beside `default` and those that an admin or the configuration has set.
pub const TENANT_QUEUES_MAX: usize = 1_000;
/// Reasons `x:<name>` that one tenant may use; beyond them a failure counts as `x:other`.
pub const TENANT_REASONS_MAX: usize = 1_000;
const OTHER_REASON: &str = "x:other";
/// Names that a writer remembers; beyond them it asks again.
const REMEMBERED_MAX: usize = 100_000;

/// What a name is of; its number is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    Queue,
    Reason,
}

impl NameKind {
    pub fn number(self) -> i64 {
        match self {
            Self::Queue => 0,
            Self::Reason => 1,
        }
    }
}

/// The queue that a tenant's run names; none where it would be one name too many.
fn queue_for(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<Option<QueueRow>> {
    if let Some(queue) = queue_seen_by(tx, tenant, name)? {
        return Ok(Some(queue));
    }
    let is_default = name.as_str() == QueueName::DEFAULT;
    if !is_default && !tx.rows.use_name(tenant, NameKind::Queue, name.as_str(), TENANT_QUEUES_MAX)? {
        return Ok(None);
    }
    let queue = tx.queue(name)?;
    remember_use(tx, tenant, queue.id);
    Ok(Some(queue))
}

/// The queue that a start or an enqueue names.
pub fn queue_to_start_in(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<QueueRow> {
    queue_for(tx, tenant, name)?.ok_or(Error::TooManyQueues { most: TENANT_QUEUES_MAX })
}

/// The queue that a failure names. A failure is never refused: beyond the cap it goes to `default`.
pub fn queue_to_fail_in(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<(QueueRow, bool)> {
    match queue_for(tx, tenant, name)? {
        Some(queue) => Ok((queue, false)),
        None => Ok((tx.queue(&QueueName::default_queue())?, true)),
    }
}

/// Says in the run's history that it is not in the queue that its report named.
pub fn note_other_queue(tx: &mut Tx<'_>, run: i64, state: StateName, named: &QueueName) -> Result<()> {
    let note = format!(
        "It named queue {named}, and the tenant has {TENANT_QUEUES_MAX} queues of its own already: it is in default."
    );
    let note = Text::from(note.as_str());
    let (actor, event) = ("engine", "queue_limit");
    Ok(tx.rows.insert_move(&NewMove { run, actor, event, from: state, to: state, note: Some(&note) }, tx.now)?)
}

/// A queue that is there for a tenant: set by an admin or the configuration, or one that its own runs were in. Another
/// tenant's looks as if it were not there.
pub fn queue_seen_by(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<Option<QueueRow>> {
    let Some(queue) = tx.find_queue(name)? else { return Ok(None) };
    let known =
        queue.declared || name.as_str() == QueueName::DEFAULT || tx.known.queues_used.contains(&(tenant, queue.id));
    if known {
        return Ok(Some(queue));
    }
    let used = tx.rows.knows_name(tenant, NameKind::Queue, name.as_str())?;
    if used {
        remember_use(tx, tenant, queue.id);
    }
    Ok(used.then_some(queue))
}

/// A verdict or a person sends a tenant's run there.
pub fn queue_sent_to(tx: &mut Tx<'_>, tenant: i64, name: &QueueName) -> Result<QueueRow> {
    if let Some(queue) = queue_seen_by(tx, tenant, name)? {
        return Ok(queue);
    }
    tx.rows.use_name(tenant, NameKind::Queue, name.as_str(), usize::MAX)?;
    let queue = tx.queue(name)?;
    remember_use(tx, tenant, queue.id);
    Ok(queue)
}

fn remember_use(tx: &mut Tx<'_>, tenant: i64, queue: i64) {
    if tx.known.queues_used.len() >= REMEMBERED_MAX {
        tx.known.queues_used.clear();
    }
    tx.known.queues_used.insert((tenant, queue));
}

/// The failure as it counts: one reason too many is `x:other`.
pub fn within_reasons<'f>(tx: &mut Tx<'_>, tenant: i64, failed: &'f FailedAttempt) -> Result<Cow<'f, FailedAttempt>> {
    let Reason::Custom(_) = &failed.failure.reason else { return Ok(Cow::Borrowed(failed)) };
    let reason = &failed.failure.reason;
    if reason.as_str() == OTHER_REASON
        || tx.known.reasons_used.contains(&(tenant, reason.clone()))
        || tx.rows.use_name(tenant, NameKind::Reason, reason.as_str(), TENANT_REASONS_MAX)?
    {
        if tx.known.reasons_used.len() >= REMEMBERED_MAX {
            tx.known.reasons_used.clear();
        }
        tx.known.reasons_used.insert((tenant, reason.clone()));
        return Ok(Cow::Borrowed(failed));
    }
    let mut other = failed.clone();
    other.failure.reason = OTHER_REASON.parse().map_err(|_| Error::Unexpected("a reason that is none".into()))?;
    Ok(Cow::Owned(other))
}
