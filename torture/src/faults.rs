//! What is done to the server, one after the other, until the time is up.

use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;

use crate::Kept;
use crate::chance::Chance;
use crate::place::Place;
use crate::proxy::Proxy;
use crate::server::Server;

#[derive(Debug, Default)]
pub(crate) struct Struck {
    kills: u64,
    stops: u64,
    cut_all: u64,
    full_disks: u64,
    database_restarts: u64,
    cuts: u64,
}

impl fmt::Display for Struck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, stops, cut_all, full_disks, database_restarts, cuts } = self;
        write!(
            f,
            "{kills} kills, {stops} stops, {full_disks} full disks, {database_restarts} restarts of the database, \
             {cut_all} times every connection cut, {cuts} connections cut in the middle"
        )
    }
}

#[allow(clippy::disallowed_methods, reason = "how long a torture lasts is a matter of the clock on the wall")]
pub(crate) fn strike(server: &Server, proxy: &Proxy, place: &Place, chance: &Chance, time: Duration) -> Result<Struck> {
    let (began, mut struck) = (Instant::now(), Struck::default());
    while began.elapsed() < time {
        pause(chance, 400, 2_500);
        match chance.below(10) {
            0..=3 => {
                struck.kills += 1;
                server.kill();
                pause(chance, 0, 800);
                server.restart()?;
            }
            4..=5 => {
                struck.stops += 1;
                server.signal(Signal::STOP);
                pause(chance, 100, 4_500);
                server.signal(Signal::CONT);
            }
            6..=7 => {
                struck.cut_all += 1;
                proxy.cut_all();
            }
            _ => match server.kept() {
                Kept::Sqlite if place.can_be_filled() => {
                    struck.full_disks += 1;
                    place.fill()?;
                    pause(chance, 300, 2_000);
                    // Now and then it dies with its disk full, and must come up again once there is room.
                    let dies = chance.happens(300);
                    if dies {
                        struck.kills += 1;
                        server.kill();
                    }
                    place.make_room();
                    if dies {
                        server.restart()?;
                    }
                }
                Kept::Postgres { restart: Some(command), .. } => {
                    struck.database_restarts += 1;
                    Command::new("sh").args(["-c", command]).status()?;
                }
                Kept::Sqlite | Kept::Postgres { .. } => {}
            },
        }
    }
    struck.cuts = proxy.cuts();
    Ok(struck)
}

fn pause(chance: &Chance, least_ms: u64, most_ms: u64) {
    std::thread::sleep(Duration::from_millis(least_ms + chance.below(most_ms - least_ms)));
}
