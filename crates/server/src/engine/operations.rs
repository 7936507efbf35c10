//! Bulk actions go on by themselves: their sets, their moves, their outcomes, whoever asked for them has gone or not.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::Service;

pub struct Operations {
    store: Arc<dyn Store>,
    replica: String,
}

impl Operations {
    pub fn new(store: Arc<dyn Store>, replica: &str) -> Self {
        Self { store, replica: replica.to_owned() }
    }
}

#[async_trait]
impl Service for Operations {
    fn name(&self) -> &'static str {
        "operations"
    }

    fn every_ms(&self) -> u64 {
        250
    }

    async fn run_once(&self) -> Result<Swept> {
        self.store.work_operations(&self.replica).await
    }
}
