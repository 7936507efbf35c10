//! Opens an existing store beside a running server, for the commands that need no key. It never creates or migrates one.

use std::sync::Arc;

use redrive_core::audit::{ChainPoint, ChainedEntry, Tampered, Verified};
use redrive_core::ids::Tenant;
use redrive_core::time::Timestamp;
use redrive_core::wire::HealthAnswer;
use redrive_engine::audit::CLI;
use redrive_engine::error::PortResult;
use redrive_engine::tx::Tx;
use redrive_engine::{Actor, KeyRecord, KeyRotation, MasterKey, RotatedRecord, SystemClock, access, keys};
use redrive_store::copy::StoreAddress;
use redrive_store::{Miscounted, SecretsStatus, classify, postgres, sqlite};

/// An opened store of either kind.
pub(crate) enum OfflineStore {
    Folder(sqlite::Visit),
    Database(Box<postgres::Visit>),
}

pub(crate) fn open(place: &StoreAddress) -> anyhow::Result<OfflineStore> {
    Ok(match place {
        StoreAddress::Folder(folder) => {
            OfflineStore::Folder(sqlite::Visit::open(folder, Arc::new(SystemClock)).map_err(classify)?)
        }
        StoreAddress::Database(url) => OfflineStore::Database(Box::new(postgres::Visit::open(url).map_err(classify)?)),
    })
}

macro_rules! either {
    ($visit:expr, $store:ident => $ask:expr) => {
        match $visit {
            OfflineStore::Folder($store) => $ask.map_err(classify),
            OfflineStore::Database($store) => $ask.map_err(classify),
        }
    };
}

impl OfflineStore {
    pub(crate) fn now(&mut self) -> redrive_engine::Result<Timestamp> {
        match self {
            Self::Folder(store) => Ok(store.now()),
            Self::Database(store) => store.now().map_err(classify),
        }
    }

    pub(crate) fn keys(&mut self) -> redrive_engine::Result<Vec<KeyRecord>> {
        either!(self, store => store.keys())
    }

    pub(crate) fn put_key(&mut self, key: &KeyRecord) -> redrive_engine::Result<()> {
        self.commit(|tx| keys::create(tx, key, &Actor::from(CLI)))
    }

    pub(crate) fn revoke_key(&mut self, id: &str) -> redrive_engine::Result<bool> {
        self.commit(|tx| keys::revoke(tx, id, &Actor::from(CLI)))
    }

    pub(crate) fn rotate_key(&mut self, rotation: &KeyRotation) -> redrive_engine::Result<RotatedRecord> {
        self.commit(|tx| access::rotate(tx, rotation))
    }

    /// Commits a use case, with its acts in the audit log.
    pub(crate) fn commit<T>(
        &mut self,
        act: impl FnOnce(&mut Tx<'_>) -> redrive_engine::Result<T>,
    ) -> redrive_engine::Result<T> {
        either!(self, store => store.commit(act))
    }

    /// Checks the audit log; `each` sees every entry.
    pub(crate) fn verify_audit(
        &mut self,
        outside: Vec<ChainPoint>,
        each: impl FnMut(&ChainedEntry) -> PortResult<()>,
    ) -> redrive_engine::Result<Result<Verified, Tampered>> {
        either!(self, store => store.verify_audit(outside, each))
    }

    /// None for a store that is not encrypted.
    pub(crate) fn master_key_id(&mut self) -> redrive_engine::Result<Option<String>> {
        either!(self, store => store.master_key_id())
    }

    pub(crate) fn secrets(&mut self) -> redrive_engine::Result<Option<SecretsStatus>> {
        either!(self, store => store.secrets())
    }

    pub(crate) fn rotate_master(&mut self, old: &MasterKey, new: &MasterKey) -> redrive_engine::Result<u64> {
        either!(self, store => store.rotate_master(old, new))
    }

    pub(crate) fn rotate_tenants(
        &mut self,
        master: &MasterKey,
        tenant: Option<&Tenant>,
    ) -> redrive_engine::Result<u64> {
        either!(self, store => store.rotate_tenants(master, tenant))
    }

    pub(crate) fn queues(&mut self) -> redrive_engine::Result<u64> {
        either!(self, store => store.queues())
    }

    pub(crate) fn health(&mut self) -> redrive_engine::Result<HealthAnswer> {
        either!(self, store => store.health())
    }

    pub(crate) fn last_stamp(&mut self) -> redrive_engine::Result<Option<Timestamp>> {
        either!(self, store => store.last_stamp())
    }

    pub(crate) fn miscounted(&mut self) -> redrive_engine::Result<Miscounted> {
        either!(self, store => store.miscounted())
    }

    pub(crate) fn recount(&mut self) -> redrive_engine::Result<()> {
        either!(self, store => store.recount())
    }
}
