//! Opens an existing store beside a running server, for the commands that need no key. It never creates or migrates one.

use std::sync::Arc;

use redrive_core::time::Timestamp;
use redrive_core::wire::HealthAnswer;
use redrive_engine::{KeyRecord, SystemClock};
use redrive_store::copy::StoreAddress;
use redrive_store::{Miscounted, classify, postgres, sqlite};

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
        either!(self, store => store.put_key(key))
    }

    pub(crate) fn revoke_key(&mut self, id: &str) -> redrive_engine::Result<bool> {
        either!(self, store => store.revoke_key(id))
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
