//! What attempts got in place of their revision's payload: written before it is handed out, fenced by the lease that it
//! goes out under.

use redrive_core::lifecycle::Verb;

use crate::attempt::under_lease::require_live;
use crate::error::Result;
use crate::model::{NewSent, UnderLease};
use crate::tx::Tx;

/// Keeps what an attempt is about to get. A lease that is over keeps nothing: another attempt has its own.
pub fn keep_sent(tx: &mut Tx<'_>, under: &UnderLease, sent: &NewSent) -> Result<()> {
    let row = require_live(tx, under, Verb::Heartbeat)?;
    Ok(tx.rows.put_sent(row.id, under.lease.attempt, under.lease.epoch, sent)?)
}
