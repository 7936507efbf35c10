//! Runs that wait for an approval nobody gives are dead letters again.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::{ROUND_MAX, Service};

pub struct Reviews(Arc<dyn Store>);

impl Reviews {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Service for Reviews {
    fn name(&self) -> &'static str {
        "reviews"
    }

    fn every_ms(&self) -> u64 {
        5_000
    }

    async fn run_once(&self) -> Result<Swept> {
        self.0.expire_reviews(ROUND_MAX).await
    }
}
