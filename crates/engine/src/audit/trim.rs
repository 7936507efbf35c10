//! Exports seal a prefix of the log; only a sealed prefix is ever removed, and a checkpoint stays in its place.

use redrive_core::audit::{ChainPoint, TRIM};
use redrive_core::time::DAY_MS;
use serde_json::Value;

use crate::audit::{self, Actor, AuditMark, AuditedAct, ENGINE};
use crate::error::Result;
use crate::model::Swept;
use crate::tx::Tx;

/// Entries between two checkpoints; each checkpoint is an entry of the log itself.
const STRIDE: i64 = 10_000;
const SUBJECT: &str = "audit:log";

/// Records that everything up to `point` is in a file with this digest.
pub fn seal(tx: &mut Tx<'_>, point: &ChainPoint, sha256: &str, entries: u64, actor: &Actor) -> Result<()> {
    let sealed = tx.rows.audit_mark(AuditMark::Sealed)?.map_or(0, |sealed| sealed.seq);
    if point.seq > sealed {
        tx.rows.put_audit_mark(AuditMark::Sealed, point, Some(sha256))?;
    }
    let after = audit::fields([
        ("seq", point.seq.into()),
        ("hash", point.hash.to_string().into()),
        ("entries", entries.into()),
        ("sha256", sha256.into()),
    ]);
    audit::record(tx, actor, act("audit.export", after));
    Ok(())
}

/// One bounded round of `audit_days`.
pub fn trim(tx: &mut Tx<'_>, days: u32, most: usize) -> Result<Swept> {
    let checkpoint = tx.rows.audit_mark(AuditMark::Checkpoint)?.unwrap_or_default();
    let gone = tx.rows.delete_audit(checkpoint.seq, most)?;
    if gone > 0 {
        return Ok(Swept { looked_at: gone, moved: gone, more: true });
    }
    let Some(sealed) = tx.rows.audit_mark(AuditMark::Sealed)? else { return Ok(Swept::default()) };
    let up_to = sealed.seq.min(checkpoint.seq + STRIDE);
    let before = tx.now.minus_ms(u64::from(days) * DAY_MS);
    let Some(point) = tx.rows.last_audited(checkpoint.seq, up_to, before)? else { return Ok(Swept::default()) };
    tx.rows.put_audit_mark(AuditMark::Checkpoint, &point, None)?;
    let proof = match serde_json::from_str(&point.trim_proof()) {
        Ok(Value::Object(proof)) => proof,
        Ok(_) | Err(_) => return Err(crate::Error::Unexpected("a checkpoint without a proof".into())),
    };
    audit::record(tx, &Actor::from(ENGINE), act(TRIM, proof));
    Ok(Swept { looked_at: 1, moved: 0, more: true })
}

fn act(action: &str, after: serde_json::Map<String, Value>) -> AuditedAct<'static> {
    AuditedAct {
        action: action.to_owned(),
        tenant: None,
        subject: SUBJECT.to_owned(),
        before: serde_json::Map::new(),
        after,
        reason: None,
    }
}
