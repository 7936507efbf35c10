//! Scheduled runs that nobody begins in time are given to a person.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::{ROUND_MAX, Service};

pub struct Unclaimed(Arc<dyn Store>);

impl Unclaimed {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Service for Unclaimed {
    fn name(&self) -> &'static str {
        "unclaimed"
    }

    fn every_ms(&self) -> u64 {
        30_000
    }

    async fn run_once(&self) -> Result<Swept> {
        self.0.reject_unclaimed(ROUND_MAX).await
    }
}
