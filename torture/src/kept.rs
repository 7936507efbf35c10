//! Where runs are kept, and how a server or a command finds them: in a folder that can run out of room, or in a PostgreSQL of
//! the torture's own, which is restarted and reached over connections that break.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use tempfile::TempDir;

use crate::place::Place;
use crate::proxy::{OF_LINES, Proxy};

pub(crate) enum Kept {
    Sqlite(Place),
    Postgres(Database),
}

pub(crate) struct Database {
    server: private_postgres::Server,
    pub(crate) proxy: Proxy,
    folder: TempDir,
}

impl Kept {
    pub(crate) fn of(store: &str, minutes: f64, seed: u64) -> Result<Self> {
        match store {
            "sqlite" => Ok(Self::Sqlite(Place::new(minutes)?)),
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
    pub(crate) fn found(&self) -> [String; 2] {
        match self {
            Self::Sqlite(place) => ["--data".into(), place.path().join("data").display().to_string()],
            Self::Postgres(database) => ["--database-url".into(), database.server.url().to_owned()],
        }
    }

    /// As it is found while the torture lasts.
    pub(crate) fn found_under_fire(&self) -> [String; 2] {
        match self {
            Self::Sqlite(_) => self.found(),
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
        let proxy = Proxy::start(address.to_owned(), OF_LINES, seed ^ 0x5678)?;
        Ok(Self { proxy, server, folder: tempfile::tempdir()? })
    }

    /// `immediate` is a crash, `fast` an administrator's restart.
    pub(crate) fn restart(&self, mode: &str) -> Result<()> {
        self.server.restart(mode).map_err(|said| anyhow!(said))
    }
}
