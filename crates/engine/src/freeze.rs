//! The freeze of a restored store. Everything done after its backup is missing from it, effects among them, so the store gives
//! out no lease and retries nothing by itself until an operator releases it. Reports and heartbeats are taken as always.

use std::sync::{Mutex, PoisonError};

use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::StoreFreeze;

use crate::audit::{self, Actor, AuditedAct};
use crate::error::{Error, Result};
use crate::ports::backend::{Backend, Route};
use crate::runs::document::RunDocument;
use crate::tx::Tx;

/// How far a restore raises every epoch: more than can have been granted to one run since the backup.
pub const EPOCHS_RAISED_BY: u64 = 1_000_000;
/// A freeze is put by a command beside the server, or lifted by another replica.
const READ_EVERY_MS: u64 = 1_000;

/// The freeze as it was read last.
#[derive(Debug, Default)]
pub struct FreezeCache(Mutex<Option<(Timestamp, Option<StoreFreeze>)>>);

impl FreezeCache {
    fn fresh(&self, now: Timestamp) -> Option<Option<StoreFreeze>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.filter(|(at, _)| now.since(*at) < READ_EVERY_MS).map(|(_, freeze)| freeze)
    }

    fn keep(&self, now: Timestamp, freeze: Option<StoreFreeze>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, freeze));
    }
}

/// The store's freeze, if there is one; at most a second old.
pub async fn current(store: &impl Backend) -> Result<Option<StoreFreeze>> {
    let now = store.now();
    if let Some(freeze) = store.freeze_cache().fresh(now) {
        return Ok(freeze);
    }
    let freeze = store.read_freeze().await?;
    store.freeze_cache().keep(now, freeze);
    Ok(freeze)
}

/// Lifts the freeze. None if there is none.
pub async fn lift(store: &impl Backend, actor: Actor, reason: Option<Text>) -> Result<Option<StoreFreeze>> {
    let freeze = store.read_freeze().await?;
    let lifted = move |tx: &mut Tx<'_>| {
        tx.rows.lift_freeze()?;
        if let Some(freeze) = freeze {
            let act = AuditedAct {
                action: "store.release".to_owned(),
                tenant: None,
                subject: "store:freeze".to_owned(),
                before: audit::fields([("restored_at", freeze.restored_at.to_string().into())]),
                after: serde_json::Map::new(),
                reason: reason.as_ref(),
            };
            audit::record(tx, &actor, act);
        }
        // Waiting lease calls look again.
        tx.wake = true;
        Ok(())
    };
    store.submit(Route::system(), lifted).await?;
    store.freeze_cache().keep(store.now(), None);
    Ok(freeze)
}

/// A run's stored document after a restore. The higher epoch fences off every lease granted before or after the backup, and no
/// repeated start or lease call gets such a lease again. None if the run was never leased.
pub fn restored_document(life: &str) -> Result<Option<String>> {
    let mut document: RunDocument =
        serde_json::from_str(life).map_err(|error| Error::Unexpected(format!("a run's document: {error}")))?;
    if document.epoch == 0 {
        return Ok(None);
    }
    document.epoch += EPOCHS_RAISED_BY;
    (document.start_id, document.request) = (None, None);
    serde_json::to_string(&document).map(Some).map_err(|error| Error::Unexpected(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_document_has_a_higher_epoch_and_no_caller() {
        let leased = RunDocument {
            epoch: 3,
            epoch_attempt: 2,
            start_id: Some("s".into()),
            request: Some("r".into()),
            lease_secret: Some(7),
            ..RunDocument::default()
        };
        let restored = restored_document(&serde_json::to_string(&leased).unwrap()).unwrap().unwrap();
        let wanted = RunDocument { epoch: 1_000_003, start_id: None, request: None, ..leased };
        assert_eq!(serde_json::from_str::<RunDocument>(&restored).unwrap(), wanted);
        assert_eq!(restored_document("{}").unwrap(), None);
        assert!(restored_document("{").is_err());
    }
}
