//! This replica is here: said every second, so that time without any replica is known as such.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::Service;

pub struct Stamp {
    store: Arc<dyn Store>,
    replica: String,
}

impl Stamp {
    pub fn new(store: Arc<dyn Store>, replica: &str) -> Self {
        Self { store, replica: replica.to_owned() }
    }
}

#[async_trait]
impl Service for Stamp {
    fn name(&self) -> &'static str {
        "stamp"
    }

    fn every_ms(&self) -> u64 {
        1_000
    }

    /// A replica that does not say that it is there counts as absent; and who stamps finds out first that a store is back.
    fn back_off_max(&self) -> Duration {
        Duration::from_millis(self.every_ms())
    }

    async fn run_once(&self) -> Result<Swept> {
        self.store.stamp(&self.replica).await?;
        Ok(Swept::default())
    }
}
