//! What commits have appended goes into the figures. A service of its own: a replica whose figures can't be folded is
//! still there, and says so.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};

use super::service::Service;

pub struct FoldFigures(Arc<dyn Store>);

impl FoldFigures {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

#[async_trait]
impl Service for FoldFigures {
    fn name(&self) -> &'static str {
        "fold"
    }

    fn every_ms(&self) -> u64 {
        1_000
    }

    async fn run_once(&self) -> Result<Swept> {
        self.0.fold_figures().await
    }
}
