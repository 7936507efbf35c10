//! Silence is a failure: attempts whose lease, idle time or deadline has passed get their verdict.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::{ROUND_MAX, Service};

pub struct Rescue(Arc<dyn Store>);

impl Rescue {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Service for Rescue {
    fn name(&self) -> &'static str {
        "rescue"
    }

    fn every_ms(&self) -> u64 {
        500
    }

    async fn run_once(&self) -> Result<Swept> {
        self.0.rescue_expired(ROUND_MAX).await
    }
}
