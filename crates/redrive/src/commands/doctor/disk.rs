//! Checks of the data folder and its disk.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::time::Instant;

use super::{Finding, FindingLevel};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const LITTLE_BYTES: u64 = GIB;
const NOTHING_BYTES: u64 = 100 * MIB;
/// Free space should allow the store to grow by this share.
const GROWTH_PCT: u64 = 10;
const SYNCS: u32 = 50;
const PAGE_BYTES: usize = 4_096;
/// Below this, commits are noticeably slow.
const SLOW_PER_S: f64 = 50.0;
/// Faster than any disk that really syncs.
const UNLIKELY_PER_S: f64 = 50_000.0;

pub(crate) fn access(folder: &Path) -> Finding {
    let mode = match std::fs::metadata(folder) {
        Ok(metadata) => metadata.permissions().mode() & 0o777,
        Err(error) => return Finding::unreadable("folder", error),
    };
    let seen = format!("{} has mode {mode:o}", folder.display());
    if mode & 0o077 == 0 {
        return Finding::fine("folder", seen);
    }
    let what = format!("It holds payloads: `chmod 700 {}`.", crate::escape::shell(&folder.display().to_string()));
    Finding::new(FindingLevel::Action, "folder", seen, what)
}

pub(crate) fn space(folder: &Path) -> Finding {
    let stat = match rustix::fs::statvfs(folder) {
        Ok(stat) => stat,
        Err(error) => return Finding::unreadable("disk", error),
    };
    match taken(folder) {
        Ok(taken) => room(stat.f_bavail * stat.f_frsize, taken),
        Err(error) => Finding::unreadable("disk", error),
    }
}

/// The bytes of the store's files.
fn taken(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        match entry?.metadata() {
            Ok(metadata) => bytes += metadata.len(),
            // A server that stops removes its log.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn room(free: u64, taken: u64) -> Finding {
    let seen = format!("{} MiB free, {} MiB taken by the store", free / MIB, taken / MIB);
    let what = "Free some space: when the disk is full, reports are refused with 503 until there is room again.";
    if free < NOTHING_BYTES {
        Finding::new(FindingLevel::Danger, "disk", seen, what)
    } else if free < LITTLE_BYTES.max(taken / 100 * GROWTH_PCT) {
        Finding::new(FindingLevel::Action, "disk", seen, what)
    } else {
        Finding::fine("disk", seen)
    }
}

/// Measures syncs per second in the data folder.
pub(crate) fn fsync_rate(folder: &Path) -> Finding {
    match measure(folder) {
        Ok(per_s) => judge(per_s),
        Err(error) => {
            let what = "The store can't be written either: check the folder's owner, mode and disk.";
            Finding::new(FindingLevel::Danger, "fsync", format!("no file could be written: {error}"), what)
        }
    }
}

fn judge(per_s: f64) -> Finding {
    let seen = format!("{per_s:.0} a second");
    if per_s < SLOW_PER_S {
        let what = "Every write waits for it: put the data folder on a faster disk.";
        Finding::new(FindingLevel::Action, "fsync", seen, what)
    } else if per_s > UNLIKELY_PER_S {
        let what = "Memory, or a disk that does not really sync: a power cut may lose acknowledged writes.";
        Finding::new(FindingLevel::Advice, "fsync", seen, what)
    } else {
        Finding::fine("fsync", seen)
    }
}

fn measure(folder: &Path) -> std::io::Result<f64> {
    let (probe, mut file) = ProbeFile::make(folder)?;
    let page = [0; PAGE_BYTES];
    let began = Instant::now();
    for _ in 0..SYNCS {
        file.write_all(&page)?;
        file.sync_data()?;
    }
    let took_s = began.elapsed().as_secs_f64().max(1e-9);
    drop(probe);
    Ok(f64::from(SYNCS) / took_s)
}

/// A test file that is removed on drop.
struct ProbeFile(PathBuf);

impl ProbeFile {
    fn make(folder: &Path) -> std::io::Result<(Self, File)> {
        let path = folder.join(format!(".doctor-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok((Self(path), file))
    }
}

impl Drop for ProbeFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        assert!(measure(folder.path()).unwrap() > 0.0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(measure(&folder.path().join("none")).is_err());
    }

    #[test]
    fn disk_space_is_judged_absolutely_and_relative_to_the_store() {
        let severity = |free, taken| room(free, taken).severity;
        assert_eq!(severity(99 * MIB, 0), FindingLevel::Danger);
        assert_eq!([severity(999 * MIB, 0), severity(10 * GIB, 200 * GIB)], [FindingLevel::Action; 2]);
        assert_eq!([severity(2 * GIB, MIB), severity(10 * GIB, 90 * GIB)], [FindingLevel::Fine; 2]);
    }

    #[test]
    fn what_the_store_takes_is_the_sum_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("redrive.db", 300), ("redrive.db-wal", 50)] {
            std::fs::write(folder.path().join(name), vec![0; bytes]).unwrap();
        }
        assert_eq!(taken(folder.path()).unwrap(), 350);
    }

    #[test]
    fn slow_disk_is_action_and_implausibly_fast_is_advice() {
        let severity = |per_s| judge(per_s).severity;
        assert_eq!(
            [severity(10.0), severity(400.0), severity(1e6)],
            [FindingLevel::Action, FindingLevel::Fine, FindingLevel::Advice]
        );
    }

    #[test]
    fn a_folder_that_others_can_read_needs_action() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, severity) in [(0o700, FindingLevel::Fine), (0o755, FindingLevel::Action)] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(access(folder.path()).severity, severity);
        }
    }
}
