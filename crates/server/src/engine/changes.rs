//! The log of changes is kept as long as somebody may still ask for it.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::{ROUND_MAX, Service};

pub struct TrimChanges(Arc<dyn Store>);

impl TrimChanges {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Service for TrimChanges {
    fn name(&self) -> &'static str {
        "changes"
    }

    fn every_ms(&self) -> u64 {
        60_000
    }

    async fn run_once(&self) -> Result<Swept> {
        self.0.trim_changes(ROUND_MAX).await
    }
}
