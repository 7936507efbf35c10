//! The store opened beside a server, for the few commands that need no key: never made, never migrated.

use std::path::Path;
use std::sync::Arc;

use redrive_store::SystemClock;
use redrive_store::sqlite::Visit;

pub(crate) fn open(folder: &Path) -> anyhow::Result<Visit> {
    Ok(Visit::open(folder, Arc::new(SystemClock))?)
}
