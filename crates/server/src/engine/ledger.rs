//! What was done is known for a long time after its run is gone, and not for ever.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::{ROUND_MAX, Service};

pub struct TrimLedger(Arc<dyn Store>);

impl TrimLedger {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Service for TrimLedger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn every_ms(&self) -> u64 {
        3_600_000
    }

    async fn run_once(&self) -> Result<Swept> {
        self.0.trim_ledger(ROUND_MAX).await
    }
}
