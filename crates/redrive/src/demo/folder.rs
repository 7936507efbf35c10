//! A folder that is gone when the demo is.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

pub(crate) struct ThrowAway(TempDir);

impl ThrowAway {
    /// Readable by its owner alone. Dropping it removes it; [`ThrowAway::remove`] also says if that failed.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mine = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("redrive-demo-").permissions(mine).tempdir();
        made.map(Self).with_context(|| format!("no folder in {}", std::env::temp_dir().display()))
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn remove(self) -> anyhow::Result<()> {
        let path = self.path().to_owned();
        self.0.close().with_context(|| format!("{} could not be removed", path.display()))
    }
}
