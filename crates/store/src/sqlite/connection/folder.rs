//! The folder that a store lives in: made private, owned by one server at a time.

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

/// Makes the folder, readable by its owner alone.
pub(crate) fn create(folder: &Path) -> Result<()> {
    Ok(DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|e| Error::Unexpected(format!("the data folder {} can't be made: {e}", folder.display())))?)
}

/// Closes the store's files to everybody but their owner, whatever made them; SQLite gives its log the database's mode.
/// The folder itself may hold what is not ours: where others can read it, that is said.
pub(crate) fn close_to_others(folder: &Path) {
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(database(folder));
    if let Err(error) = opened {
        tracing::debug!(%error, "the database can't be made ahead");
    }
    for name in [DATABASE, "redrive.db-wal", "redrive.db-shm", LOCK] {
        let path = folder.join(name);
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        if metadata.mode() & 0o077 == 0 {
            continue;
        }
        match std::fs::set_permissions(&path, Permissions::from_mode(0o600)) {
            Ok(()) => {
                tracing::warn!(file = %path.display(), "others could read a file of the store: it is closed to them");
            }
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "others can read a file of the store");
            }
        }
    }
    if std::fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        tracing::warn!(folder = %folder.display(), "others can look into the data folder: chmod 700");
    }
}

/// Holds the folder for this process; ends with it, however it ends.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _folder: File,
    _lock: File,
}

/// Takes the folder, or says that another server has it. The folder itself is locked: no file in it that somebody deletes
/// lets a second server in. The file is locked too, since servers before this one look at it alone.
pub(crate) fn hold(folder: &Path) -> Result<FolderLock> {
    let in_use = || Error::Unexpected(format!("another redrive server is using {}", folder.display()));
    let handle = File::open(folder)
        .map_err(|e| Error::Unexpected(format!("the data folder {} can't be opened: {e}", folder.display())))?;
    match flock(&handle, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(in_use().into()),
        // A file system, such as NFS, that has no locks of folders.
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "the data folder can't be locked: redrive.lock alone guards it");
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

/// For those who only visit: the store must be there, and theirs to open. Files made by another user would lock the
/// server out; the superuser may, since SQLite gives what it makes to the database's owner.
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
