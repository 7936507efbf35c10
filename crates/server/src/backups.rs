//! How the scheduled backups of this server are doing, for `/v1/health`.

use std::sync::{Mutex, PoisonError};

use redrive_core::wire::BackupHealth;

/// Empty where no backups are configured.
#[derive(Debug, Default)]
pub struct BackupMonitor(Mutex<Option<BackupHealth>>);

impl BackupMonitor {
    pub fn record(&self, health: BackupHealth) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(health);
    }

    pub fn health(&self) -> Option<BackupHealth> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
