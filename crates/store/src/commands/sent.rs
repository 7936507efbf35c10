//! What attempts got in place of their revision's payload: written before it is handed out, fenced by the lease that it
//! goes out under.

use redrive_core::lifecycle::Verb;

use crate::commands::batch::Batch;
use crate::commands::under_lease::require_live;
use crate::error::Result;
use crate::model::{NewSent, UnderLease};

/// Keeps what an attempt is about to get. A lease that is over keeps nothing: another attempt has its own.
pub(crate) fn keep_sent(batch: &mut Batch<'_>, under: &UnderLease, sent: &NewSent) -> Result<()> {
    let row = require_live(batch, under, Verb::Heartbeat)?;
    batch.rows.put_sent(row.id, under.lease.attempt, under.lease.epoch, sent)
}
