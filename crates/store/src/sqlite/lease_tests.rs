//! A call for many runs while others wait for the writer.

use std::collections::HashSet;

use redrive_core::policy::Policies;
use redrive_core::run::StateName;
use redrive_core::wire::Versions;

use super::fixture::{Fixture, NOW_MS, Seed, now, tenant};
use super::rows::{Memory, SqliteRows};
use crate::clock::SeededDice;
use crate::commands::batch::{Batch, Known};
use crate::commands::lease::{Granted, Rest, lease};
use crate::commands::queue::Pace;
use crate::commands::tally::Tally;
use crate::model::LeaseCall;

/// So many runs in one command.
struct Pieces(usize);

impl Pace for Pieces {
    fn is_over(&self) -> bool {
        true
    }

    fn piece(&self, most: usize) -> usize {
        most.min(self.0)
    }
}

fn call(max: u32) -> LeaseCall {
    LeaseCall {
        scope: tenant("acme"),
        queues: Vec::new(),
        agents: None,
        max,
        lease_ms: None,
        worker: None,
        versions: Versions::new(),
        payload_max_bytes: 16 << 20,
        by: None,
        request_id: Some("00000000-0000-4000-8000-000000000001".parse().unwrap()),
    }
}

/// How many each piece gave.
fn lease_all(fixture: &Fixture, call: &LeaseCall, pace: &dyn Pace) -> (Vec<usize>, Vec<Granted>) {
    let (mut memory, mut known) = (Memory::default(), Known::default());
    let (dice, policies) = (SeededDice::new(7), Policies::default());
    let (mut pieces, mut granted, mut rest) = (Vec::new(), Vec::new(), Some(Rest::all(call)));
    while let Some(before) = rest {
        let mut rows = SqliteRows::new(&fixture.conn, &mut memory);
        let mut batch = Batch {
            rows: &mut rows,
            now: now(),
            dice: &dice,
            policies: &policies,
            known: &mut known,
            tally: Tally::default(),
            pace,
            wake: false,
        };
        let piece = lease(&mut batch, call, &before).unwrap();
        pieces.push(piece.granted.len());
        granted.extend(piece.granted);
        rest = piece.rest;
    }
    (pieces, granted)
}

fn waiting(runs: usize) -> Fixture {
    let seed = Seed { state: StateName::Scheduled, due: NOW_MS - 1, ..Seed::default() };
    Fixture::with((0..runs).map(|_| seed.clone()))
}

#[test]
fn a_long_claim_goes_on_in_pieces() {
    let fixture = waiting(10);
    let (pieces, granted) = lease_all(&fixture, &call(8), &Pieces(3));
    assert_eq!(pieces, [3, 3, 2]);
    let runs: HashSet<i64> = granted.iter().map(|granted| granted.row).collect();
    assert_eq!(runs.len(), 8, "each run once");
    // The same call again gets all of its pieces.
    let (again, _) = lease_all(&fixture, &call(8), &Pieces(3));
    assert_eq!(again, [8]);
}

#[test]
fn a_claim_ends_where_nothing_is_left() {
    assert_eq!(lease_all(&waiting(4), &call(8), &Pieces(3)).0, [3, 1]);
    assert_eq!(lease_all(&waiting(3), &call(8), &Pieces(3)).0, [3, 0]);
}

#[test]
fn pieces_share_the_room_of_one_answer() {
    let fixture = waiting(4);
    let small = LeaseCall { payload_max_bytes: 5, ..call(4) };
    // Each payload takes two bytes.
    assert_eq!(lease_all(&fixture, &small, &Pieces(1)).0, [1, 1, 0]);
}
