//! The folder of a store: private, and used by one server at a time.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use redrive_engine::error::{Error, PortResult as Result};

const DATABASE: &str = "redrive.db";
const LOCK: &str = "redrive.lock";

pub(crate) fn database(folder: &Path) -> PathBuf {
    folder.join(DATABASE)
}

/// Creates the folder, readable by its owner alone.
pub(crate) fn create(folder: &Path) -> Result<()> {
    Ok(DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|e| Error::Unexpected(format!("the data folder {} can't be made: {e}", folder.display())))?)
}

/// Makes the store's files readable by their owner alone. The folder may hold other files: if others can read it, that is
/// only logged.
pub(crate) fn close_to_others(folder: &Path) {
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(database(folder));
    if let Err(error) = opened {
        tracing::debug!(%error, "database file not created ahead");
    }
    for name in [DATABASE, "redrive.db-wal", "redrive.db-shm", LOCK] {
        let path = folder.join(name);
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        if metadata.mode() & 0o077 == 0 {
            continue;
        }
        match std::fs::set_permissions(&path, Permissions::from_mode(0o600)) {
            Ok(()) => {
                tracing::warn!(file = %path.display(), "a file of the store was readable by others; permissions tightened");
            }
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "a file of the store is readable by others");
            }
        }
    }
    if std::fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        tracing::warn!(folder = %folder.display(), "the data folder is readable by others: chmod 700");
    }
}

/// The lock on a folder; ends with the process.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _folder: File,
    _lock: File,
}

/// Locks the folder, or fails if another server has it. The folder itself is locked, so that deleting a file in it lets no
/// second server in. The file is locked too, since older servers check it alone.
pub(crate) fn hold(folder: &Path) -> Result<FolderLock> {
    let in_use = || Error::Unexpected(format!("another redrive server is using {}", folder.display()));
    let handle = File::open(folder)
        .map_err(|e| Error::Unexpected(format!("the data folder {} can't be opened: {e}", folder.display())))?;
    match flock(&handle, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(in_use().into()),
        // A file system without folder locks, such as NFS.
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "the data folder can't be locked; redrive.lock alone guards it");
        }
    }
    let path = folder.join(LOCK);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| Error::Unexpected(format!("{} can't be opened: {e}", path.display())))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| in_use())?;
    Ok(FolderLock { _folder: handle, _lock: lock })
}

/// The database of an existing store, for commands beside a server. Files made by another user would lock the server out;
/// root may open it, since SQLite gives new files to the database's owner.
pub(crate) fn visit(folder: &Path) -> Result<PathBuf> {
    let path = database(folder);
    let owner = std::fs::metadata(&path)
        .map_err(|_| Error::Unexpected(format!("no store in {}: start `redrive serve` there first", folder.display())))?
        .uid();
    let me = rustix::process::geteuid();
    if me.is_root() || me.as_raw() == owner {
        return Ok(path);
    }
    Err(Error::Unexpected(format!("the store in {} belongs to user {owner}: run this as that user", folder.display()))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_server_is_refused_whatever_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let first = hold(folder.path()).unwrap();
        let refused =
            format!("unexpected state of the store: another redrive server is using {}", folder.path().display());
        assert_eq!(hold(folder.path()).unwrap_err().to_string(), refused);
        std::fs::remove_file(folder.path().join(LOCK)).unwrap();
        assert_eq!(hold(folder.path()).unwrap_err().to_string(), refused);
        drop(first);
        hold(folder.path()).unwrap();
    }

    #[test]
    fn the_stores_files_are_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().mode() & 0o777;
        for name in ["redrive.db-wal", "redrive.lock", "theirs.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
            std::fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o644)).unwrap();
        }
        close_to_others(folder.path());
        assert_eq!([mode("redrive.db"), mode("redrive.db-wal"), mode("redrive.lock")], [0o600; 3]);
        assert_eq!(mode("theirs.txt"), 0o644);
    }
}
