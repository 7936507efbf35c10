//! The backend of a play: its randomness, all from the seed, and its store, copied from a migrated one so that a thousand
//! plays migrate once.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use redrive_core::policy::Policies;
use redrive_core::time::Timestamp;
use redrive_engine::{Clock, Dice, ManualClock, SeededDice, Store};
use redrive_store::sqlite::{Options, SqliteStore};
use tempfile::TempDir;

use crate::scheduler::alone;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    #[default]
    Sqlite,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "sqlite" => Ok(Self::Sqlite),
            other => Err(format!("no store is called {other} here: sqlite")),
        }
    }
}

/// Where a play's store lives, as long as the play lasts.
pub struct Backend {
    folder: TempDir,
}

impl Backend {
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Sqlite => {
                let folder = folder();
                copy(&new_store(), &folder.path().join("data"));
                Self { folder }
            }
        }
    }

    #[allow(clippy::expect_used, reason = "without its store there is no play")]
    pub fn open(&self, clock: Arc<dyn Clock>, dice: Arc<dyn Dice>, policies: Policies) -> Arc<dyn Store> {
        let options = Options { folder: self.folder.path().join("data"), clock, dice, policies };
        Arc::new(SqliteStore::open_throw_away(options).expect("the store opens"))
    }
}

/// In memory where there is such a place: a play is about what is written, not about a disk.
#[allow(clippy::expect_used, reason = "without its folder there is no play")]
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder of its own")
}

/// A store with its schema and nothing in it.
fn new_store() -> PathBuf {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = folder();
        let backend = Backend { folder };
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let store = backend.open(clock, Arc::new(SeededDice::new(1)), Policies::default());
        alone(store.close());
        backend.folder
    });
    made.path().join("data")
}

#[allow(clippy::expect_used, reason = "without its store there is no play")]
fn copy(from: &PathBuf, to: &PathBuf) {
    fs::create_dir_all(to).expect("a folder for the store");
    for file in fs::read_dir(from).expect("the new store").flatten() {
        // Each process that opens it writes its own.
        if file.path().extension().is_some_and(|ending| ending == "db") {
            fs::copy(file.path(), to.join(file.file_name())).expect("a copy of the new store");
        }
    }
}

pub struct Chance(SeededDice);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(SeededDice::new(seed))
    }

    pub fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    pub fn below(&self, n: u64) -> u64 {
        self.number() % n.max(1)
    }

    pub fn upto(&self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap_or(0)
    }

    /// So many times in a thousand.
    pub fn happens(&self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.upto(from.len())]
    }

    /// Mostly short, now and then long.
    pub fn a_while_ms(&self, longest: u64) -> u64 {
        let most = if self.happens(100) { longest } else { longest / 20 };
        self.below(most.max(1))
    }
}
