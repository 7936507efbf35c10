//! Backups of a SQLite store beside its server, and their restore.
//!
//! A backup is a database file and, beside it, `FILE.json`: its manifest. Both have other names until they are whole and synced,
//! and the database gets its name last. A backup that is killed leaves a `.partial` file, which the next one overwrites.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redrive_core::time::Timestamp;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::shared::migrations;
use crate::sqlite::connection::{self, folder};
use crate::sqlite::restored::mark_restored;
use crate::sqlite::schema;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::failpoint;

/// Pages per step: short enough that other readers of the disk get their turn.
const PAGES_PER_STEP: i32 = 256;
const PAUSE: Duration = Duration::from_millis(1);
const BUSY_TRIES_MAX: u32 = 1_000;
const BUFFER_BYTES: usize = 1 << 20;
const MANIFEST_MAX_BYTES: u64 = 1 << 20;
const PARTIAL: &str = "partial";
const PREFIX: &str = "redrive-";
const SUFFIX: &str = ".db";

/// What a backup says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupManifest {
    /// The backup holds every commit that was acknowledged before this time.
    pub made_at: Timestamp,
    /// The Redrive version that made it.
    pub version: String,
    /// The version of the schema.
    pub schema: u32,
    pub bytes: u64,
    /// Of the database file, in hex.
    pub sha256: String,
    /// Rows by table.
    pub rows: BTreeMap<String, u64>,
}

/// A complete backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBackup {
    pub path: PathBuf,
    pub manifest: BackupManifest,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredStore {
    pub manifest: BackupManifest,
    /// Runs that had been leased, whose epoch was raised.
    pub leased: u64,
}

/// Pages copied so far, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    pub pages: u64,
    pub of: u64,
}

/// Copies the store of a folder, with or without a running server. `to` is a new file, or a folder, which gets a file named by the
/// time.
pub fn backup(data: &Path, to: &Path, now: Timestamp, mut report: impl FnMut(BackupProgress)) -> Result<StoredBackup> {
    let path = target(to, now)?;
    if path.exists() {
        return Err(refused(format!("{} exists already", path.display())));
    }
    let partial = PartialFile::create(&path)?;
    let source = connection::open_writer(&folder::visit(data)?, false)?;
    connection::disable_checkpoints(&source)?;
    schema::require_current(&source)?;
    // One snapshot for the whole copy: the writer goes on beside it, and nothing of that gets in.
    source.execute_batch("BEGIN")?;
    let rows = row_counts(&source)?;
    copy_pages(&source, &partial.path, &mut report)?;
    verify(&partial.path, &rows)?;
    failpoint::pass("backup_copied");
    let manifest = BackupManifest {
        made_at: now,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        schema: schema::version(&source)?,
        bytes: fs::metadata(&partial.path)?.len(),
        sha256: sha256_of(&partial.path)?,
        rows,
    };
    partial.publish(&path, &manifest)?;
    Ok(StoredBackup { path, manifest })
}

fn target(to: &Path, now: Timestamp) -> Result<PathBuf> {
    let is_folder = to.is_dir() || to.as_os_str().to_string_lossy().ends_with('/');
    if !is_folder {
        return Ok(to.to_owned());
    }
    fs::create_dir_all(to).map_err(|e| refused(format!("{} can't be made: {e}", to.display())))?;
    let time: String = now.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    Ok(to.join(format!("{PREFIX}{time}{SUFFIX}")))
}

/// The database of a backup in the making. Its lock ends with the process, so that a killed backup blocks nobody.
struct PartialFile {
    path: PathBuf,
    file: File,
}

impl PartialFile {
    fn create(path: &Path) -> Result<Self> {
        let partial = with_suffix(path, PARTIAL);
        let failed = |e: io::Error| refused(format!("{} can't be written: {e}", partial.display()));
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&partial).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(refused(format!("another backup is writing {}", path.display())));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // What a killed backup has left.
        file.set_len(0).map_err(failed)?;
        remove_journals(&partial)?;
        Ok(Self { path: partial, file })
    }

    /// Syncs everything, then gives the files their names.
    fn publish(&self, path: &Path, manifest: &BackupManifest) -> Result<()> {
        self.file.sync_all()?;
        let (manifest_path, text) = (manifest_of(path), serde_json::to_string_pretty(manifest)?);
        let fresh = with_suffix(&manifest_path, PARTIAL);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &manifest_path)?;
        failpoint::pass("backup_manifest");
        fs::rename(&self.path, path)?;
        sync_folder(path)
    }
}

fn copy_pages(source: &Connection, to: &Path, report: &mut impl FnMut(BackupProgress)) -> Result<()> {
    let mut target = Connection::open(to)?;
    // The file counts only once it is synced as a whole.
    target.pragma_update(None, "synchronous", "OFF")?;
    {
        let copy = Backup::new(source, &mut target)?;
        let mut busy = 0;
        loop {
            match copy.step(PAGES_PER_STEP)? {
                StepResult::Done => break,
                StepResult::More => {}
                StepResult::Busy | StepResult::Locked => {
                    busy += 1;
                    if busy > BUSY_TRIES_MAX {
                        return Err(refused("the store is locked".to_owned()));
                    }
                }
                // The library may learn of other results.
                _ => return Err(refused("SQLite gave an unknown answer".to_owned())),
            }
            let progress = copy.progress();
            let (of, left) = (u64::try_from(progress.pagecount)?, u64::try_from(progress.remaining)?);
            report(BackupProgress { pages: of.saturating_sub(left), of });
            failpoint::pass("mid_backup");
            std::thread::sleep(PAUSE);
        }
    }
    // The copy says that it has a write-ahead log: without one it is one file.
    target.pragma_update(None, "journal_mode", "DELETE")?;
    target.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn verify(copy: &Path, rows: &BTreeMap<String, u64>) -> Result<()> {
    let conn = Connection::open_with_flags(copy, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let said: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if said != "ok" {
        return Err(refused(format!("the copy is damaged: {said}")));
    }
    if row_counts(&conn)? != *rows {
        return Err(refused("the copy has other row counts than the store".to_owned()));
    }
    Ok(())
}

fn row_counts(conn: &Connection) -> Result<BTreeMap<String, u64>> {
    let mut tables =
        conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")?;
    let names: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let count = |name: String| {
        let rows = conn.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| row.get::<_, u64>(0))?;
        Ok((name, rows))
    };
    names.into_iter().map(count).collect()
}

/// Restores a backup into a folder without a store. The store is frozen, and has its name only once it is.
pub fn restore(from: &Path, data: &Path, now: Timestamp) -> Result<RestoredStore> {
    let manifest = read_manifest(from)?;
    folder::create(data)?;
    let _held = folder::hold(data)?;
    let path = folder::database(data);
    let taken = [path.clone(), with_suffix_of(&path, "-wal"), with_suffix_of(&path, "-shm")];
    if let Some(taken) = taken.iter().find(|path| path.exists()) {
        return Err(refused(format!("{} exists: restore into a folder without a store", taken.display())));
    }
    let fresh = with_suffix(&path, "restoring");
    remove_journals(&fresh)?;
    copy_checked(from, &fresh, &manifest)?;
    let leased = prepare(&fresh, now, &manifest)?;
    File::open(&fresh)?.sync_all()?;
    failpoint::pass("mid_restore");
    fs::rename(&fresh, &path)?;
    sync_folder(&path)?;
    Ok(RestoredStore { manifest, leased })
}

/// Migrates the copy to this binary's schema, raises its epochs and freezes it.
fn prepare(fresh: &Path, now: Timestamp, manifest: &BackupManifest) -> Result<u64> {
    let mut conn = connection::open_writer(fresh, false)?;
    migrations::refuse_newer(schema::version(&conn)?, schema::newest())?;
    schema::migrate(&mut conn)?;
    let said: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if said != "ok" {
        return Err(refused(format!("the backup is damaged: {said}")));
    }
    let leased = mark_restored(&mut conn, now, manifest.made_at)?;
    // Closing the only connection folds the log into the file and removes it.
    conn.close().map_err(|(_, error)| error)?;
    if with_suffix_of(fresh, "-wal").exists() {
        return Err(refused("the write-ahead log could not be folded in".to_owned()));
    }
    Ok(leased)
}

fn copy_checked(from: &Path, to: &Path, manifest: &BackupManifest) -> Result<()> {
    let mut source = File::open(from).map_err(|e| refused(format!("{}: {e}", from.display())))?;
    let mut target = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; BUFFER_BYTES]);
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        target.write_all(&buffer[..read])?;
    }
    if hex(&hash.finalize()) != manifest.sha256 {
        fs::remove_file(to)?;
        return Err(refused(format!("{} is not what its manifest says: the SHA-256 differs", from.display())));
    }
    Ok(target.sync_all()?)
}

/// The complete backups of a folder, the newest first.
pub fn backups_in(folder: &Path) -> Result<Vec<StoredBackup>> {
    let mut found = Vec::new();
    if !folder.exists() {
        return Ok(found);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(PREFIX)
            && name.ends_with(SUFFIX)
            && let Ok(manifest) = read_manifest(&path)
        {
            found.push(StoredBackup { path, manifest });
        }
    }
    found.sort_by_key(|backup| std::cmp::Reverse(backup.manifest.made_at));
    Ok(found)
}

/// Removes all but the newest `keep` backups of a folder, and what killed ones have left. Returns how many backups it removed.
pub fn prune(folder: &Path, keep: usize) -> Result<usize> {
    let old: Vec<_> = backups_in(folder)?.into_iter().skip(keep).collect();
    for backup in &old {
        fs::remove_file(&backup.path)?;
        fs::remove_file(manifest_of(&backup.path))?;
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(PREFIX) && name.ends_with(&format!("{SUFFIX}.{PARTIAL}")) && is_abandoned(&path) {
            remove_journals(&path)?;
            fs::remove_file(&path)?;
        }
    }
    Ok(old.len())
}

fn is_abandoned(partial: &Path) -> bool {
    File::open(partial).is_ok_and(|file| file.try_lock().is_ok())
}

fn read_manifest(path: &Path) -> Result<BackupManifest> {
    let manifest = manifest_of(path);
    let missing = |e: io::Error| refused(format!("no manifest of {}: {}: {e}", path.display(), manifest.display()));
    let mut text = String::new();
    File::open(&manifest).and_then(|file| file.take(MANIFEST_MAX_BYTES).read_to_string(&mut text)).map_err(missing)?;
    serde_json::from_str(&text).map_err(|e| refused(format!("{}: {e}", manifest.display())))
}

fn manifest_of(path: &Path) -> PathBuf {
    with_suffix(path, "json")
}

/// `a.db` and `json` make `a.db.json`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    with_suffix_of(path, &format!(".{suffix}"))
}

fn with_suffix_of(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// SQLite would apply the journal of a file that is gone to a new one of its name.
fn remove_journals(path: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm", "-journal"] {
        match fs::remove_file(with_suffix_of(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn sha256_of(path: &Path) -> Result<String> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; BUFFER_BYTES]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A renamed file has its new name on disk only once its folder is synced.
fn sync_folder(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(parent)?.sync_all()?)
}

fn refused(what: String) -> redrive_engine::error::BoxError {
    Error::Unexpected(what).into()
}
