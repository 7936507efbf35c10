//! Faults in the server, its disk and its database, one after the other, until the time is up.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;

use crate::chance::Chance;
use crate::check::Record;
use crate::proxy::Proxy;
use crate::server::Server;
use crate::store::{Database, SmallDisk, Store};

/// How long a full disk is waited for to bite: what was written before may leave room inside the store's own files.
const BITE_TRIES: u32 = 400;
const BITE_LOOK: Duration = Duration::from_millis(25);

#[derive(Debug, Default)]
pub(crate) struct FaultCounts {
    kills: u64,
    stops: u64,
    full_disks: u64,
    /// Of those: some client was refused for it.
    bit: u64,
    database_restarts: u64,
    database_cut_off: u64,
    cut_all: u64,
    cuts: u64,
    database_cuts: u64,
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, stops, full_disks, bit, database_restarts, database_cut_off, cut_all, cuts, database_cuts } =
            self;
        write!(
            f,
            "{kills} kills, {stops} stops, {full_disks} full disks of which {bit} bit, {database_restarts} restarts of the \
             database, {database_cut_off} times all its connections cut and {database_cuts} of them in the middle, \
             {cut_all} times every client's connection cut and {cuts} of them in the middle"
        )
    }
}

/// All that faults are done to.
pub(crate) struct FaultInjector<'a> {
    pub(crate) server: &'a Server<'a>,
    pub(crate) proxy: &'a Proxy,
    pub(crate) store: &'a Store,
    pub(crate) record: &'a Record,
    pub(crate) chance: Chance,
    pub(crate) counts: FaultCounts,
}

impl FaultInjector<'_> {
    #[allow(clippy::disallowed_methods, reason = "how long a torture lasts is a matter of the clock on the wall")]
    pub(crate) fn run_for(mut self, time: Duration) -> Result<FaultCounts> {
        let began = Instant::now();
        while began.elapsed() < time {
            self.pause(400, 2_500);
            match self.chance.below(10) {
                0..=3 => self.kill()?,
                4..=5 => self.stop(),
                6..=7 => self.cut_off(),
                _ => match self.store {
                    Store::Sqlite(place) => self.fill(place)?,
                    Store::Postgres(database) => self.restart(database)?,
                },
            }
        }
        self.counts.cuts = self.proxy.cuts();
        if let Store::Postgres(database) = self.store {
            self.counts.database_cuts = database.proxy.cuts();
        }
        Ok(self.counts)
    }

    fn kill(&mut self) -> Result<()> {
        self.counts.kills += 1;
        self.server.kill();
        self.pause(0, 800);
        self.server.restart()
    }

    fn stop(&mut self) {
        self.counts.stops += 1;
        self.server.signal(Signal::STOP);
        self.pause(100, 4_500);
        self.server.signal(Signal::CONT);
    }

    fn cut_off(&mut self) {
        match self.store {
            Store::Postgres(database) if self.chance.happens(500) => {
                self.counts.database_cut_off += 1;
                database.proxy.cut_all();
            }
            Store::Sqlite(_) | Store::Postgres(_) => {
                self.counts.cut_all += 1;
                self.proxy.cut_all();
            }
        }
    }

    fn fill(&mut self, place: &SmallDisk) -> Result<()> {
        if !place.can_be_filled() {
            return Ok(());
        }
        self.counts.full_disks += 1;
        place.fill()?;
        self.record.starving.store(true, Ordering::SeqCst);
        self.counts.bit += u64::from(self.bites());
        self.pause(300, 2_000);
        // Now and then it dies with its disk full, and must come up again once there is room.
        let dies = self.chance.happens(300);
        if dies {
            self.counts.kills += 1;
            self.server.kill();
        }
        self.record.starving.store(false, Ordering::SeqCst);
        place.make_room();
        if dies { self.server.restart() } else { Ok(()) }
    }

    /// Whether somebody is refused while there is no room.
    fn bites(&self) -> bool {
        let before = self.record.starved.load(Ordering::SeqCst);
        (0..BITE_TRIES).any(|_| {
            std::thread::sleep(BITE_LOOK);
            self.record.starved.load(Ordering::SeqCst) > before
        })
    }

    fn restart(&mut self, database: &Database) -> Result<()> {
        self.counts.database_restarts += 1;
        self.record.starving.store(true, Ordering::SeqCst);
        // A server that dies while its database is away waits for both.
        let dies = self.chance.happens(200);
        if dies {
            self.counts.kills += 1;
            self.server.kill();
        }
        database.restart(if self.chance.happens(500) { "immediate" } else { "fast" })?;
        self.record.starving.store(false, Ordering::SeqCst);
        if dies { self.server.restart() } else { Ok(()) }
    }

    fn pause(&self, least_ms: u64, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(least_ms + self.chance.below(most_ms - least_ms)));
    }
}
