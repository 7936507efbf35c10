//! A folder on a small file system of its own, so that it can be filled up. Where none may be mounted, the disk stays as
//! it is, and that fault is left out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use tempfile::TempDir;

const LEAST_MIB: u64 = 256;
const MIB_A_MINUTE: u64 = 64;
const MOST_MIB: u64 = 4_096;

pub(crate) struct Place {
    folder: TempDir,
    mounted: bool,
}

impl Place {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "minutes are few and above zero")]
    pub(crate) fn new(minutes: f64) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let size = (LEAST_MIB + MIB_A_MINUTE * minutes.ceil() as u64).min(MOST_MIB);
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}m"), "tmpfs"])
            .arg(folder.path())
            .output();
        let mounted = mount.is_ok_and(|mount| mount.status.success());
        if !mounted {
            println!("no small disk can be mounted here: it will not be filled up");
        }
        Ok(Self { folder, mounted })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn can_be_filled(&self) -> bool {
        self.mounted
    }

    /// All that is left, taken.
    pub(crate) fn fill(&self) -> Result<()> {
        let free = statvfs(self.path())?;
        let file = File::create(self.ballast()).context("no ballast")?;
        // As much as there is; what cannot be had any more is as good as taken.
        let _ = fallocate(&file, FallocateFlags::empty(), 0, free.f_bavail * free.f_frsize);
        Ok(())
    }

    pub(crate) fn make_room(&self) {
        let _ = std::fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.path()).status();
        }
    }
}
