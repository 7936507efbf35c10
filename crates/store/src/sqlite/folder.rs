//! The folder that a store lives in: made private, owned by one server at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};

const DATABASE: &str = "redrive.db";
const LOCK: &str = "redrive.lock";

pub(super) fn database(folder: &Path) -> PathBuf {
    folder.join(DATABASE)
}

/// Makes the folder, readable by its owner alone.
pub(super) fn create(folder: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|e| Error::Unexpected(format!("the data folder {} can't be made: {e}", folder.display())))
}

/// Holds the folder for this process; ends with it, however it ends.
#[derive(Debug)]
pub(super) struct Held {
    _lock: File,
}

/// Takes the folder, or says that another server has it.
pub(super) fn hold(folder: &Path) -> Result<Held> {
    let path = folder.join(LOCK);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| Error::Unexpected(format!("{} can't be opened: {e}", path.display())))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Error::Unexpected(format!("another redrive server is using {}", folder.display())))?;
    Ok(Held { _lock: lock })
}

/// For those who only visit: the store must be there, and theirs to open. Files made by another user would lock the
/// server out; the superuser may, since SQLite gives what it makes to the database's owner.
pub(super) fn visit(folder: &Path) -> Result<PathBuf> {
    let path = database(folder);
    let owner = std::fs::metadata(&path)
        .map_err(|_| Error::Unexpected(format!("no store in {}: start `redrive serve` there first", folder.display())))?
        .uid();
    let me = rustix::process::geteuid();
    if me.is_root() || me.as_raw() == owner {
        return Ok(path);
    }
    Err(Error::Unexpected(format!("the store in {} belongs to user {owner}: run this as that user", folder.display())))
}
