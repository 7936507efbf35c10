//! What closed breakers held goes on, a little at a time.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::{ROUND_MAX, Service};

pub struct Release(Arc<dyn Store>);

impl Release {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Service for Release {
    fn name(&self) -> &'static str {
        "release"
    }

    fn every_ms(&self) -> u64 {
        500
    }

    async fn run_once(&self) -> Result<Swept> {
        self.0.release_held(ROUND_MAX).await
    }
}
