//! The store under test: SQLite on a small file system that can fill up, or a private PostgreSQL that is restarted and
//! reached over faulty connections.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use tempfile::TempDir;

use crate::proxy::{DATABASE_CONNECTIONS, Proxy};

pub(crate) enum Store {
    Sqlite(SmallDisk),
    Postgres(Database),
}

pub(crate) struct Database {
    server: private_postgres::Server,
    pub(crate) proxy: Proxy,
    folder: TempDir,
}

impl Store {
    pub(crate) fn of(store: &str, minutes: f64, seed: u64) -> Result<Self> {
        match store {
            "sqlite" => Ok(Self::Sqlite(SmallDisk::new(minutes)?)),
            "postgres" => Ok(Self::Postgres(Database::start(seed)?)),
            other => bail!("--store is sqlite or postgres, not {other}"),
        }
    }

    /// A server's working folder.
    pub(crate) fn folder(&self) -> &Path {
        match self {
            Self::Sqlite(place) => place.path(),
            Self::Postgres(database) => database.folder.path(),
        }
    }

    /// Undisturbed: for what is done before and after.
    pub(crate) fn flags(&self) -> [String; 2] {
        match self {
            Self::Sqlite(place) => ["--data".into(), place.path().join("data").display().to_string()],
            Self::Postgres(database) => ["--database-url".into(), database.server.url().to_owned()],
        }
    }

    /// As it is found while the torture lasts.
    pub(crate) fn flags_under_fault(&self) -> [String; 2] {
        match self {
            Self::Sqlite(_) => self.flags(),
            Self::Postgres(database) => {
                let url = format!("postgres://postgres@{}/postgres", database.proxy.address());
                ["--database-url".into(), url]
            }
        }
    }
}

impl Database {
    fn start(seed: u64) -> Result<Self> {
        let server = private_postgres::Server::start().map_err(|said| anyhow!(said))?;
        let address = server.url().split(['@', '/']).nth(3).context("an address without a host")?;
        let proxy = Proxy::start(address.to_owned(), DATABASE_CONNECTIONS, seed ^ 0x5678)?;
        Ok(Self { proxy, server, folder: tempfile::tempdir()? })
    }

    /// `immediate` is a crash, `fast` an administrator's restart.
    pub(crate) fn restart(&self, mode: &str) -> Result<()> {
        self.server.restart(mode).map_err(|said| anyhow!(said))
    }
}

const LEAST_MIB: u64 = 256;
const MIB_A_MINUTE: u64 = 64;
const MOST_MIB: u64 = 4_096;

pub(crate) struct SmallDisk {
    folder: TempDir,
    mounted: bool,
}

impl SmallDisk {
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

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.path()).status();
        }
    }
}
