//! What happened to breakers is kept for a season; breakers that have nothing to say any more are forgotten.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::{ROUND_MAX, Service};

pub struct TrimEvents(Arc<dyn Store>);

impl TrimEvents {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Service for TrimEvents {
    fn name(&self) -> &'static str {
        "events"
    }

    fn every_ms(&self) -> u64 {
        60_000
    }

    async fn run_once(&self) -> Result<Swept> {
        self.0.trim_events(ROUND_MAX).await
    }
}
