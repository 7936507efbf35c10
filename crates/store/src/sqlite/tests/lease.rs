//! A call for many runs while others wait for the writer.

use std::collections::HashSet;

use redrive_core::policy::Policies;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::wire::Versions;
use rusqlite::StatementStatus;

use crate::sqlite::rows::{SqliteRows, WriterCache};
use crate::sqlite::tests::fixture::{Fixture, NOW_MS, Seed, now, tenant};
use redrive_engine::clock::SeededDice;
use redrive_engine::counters::CounterDeltas;
use redrive_engine::lease::claim::{ClaimProgress, claim_runs};
use redrive_engine::lease::grant::GrantedLease;
use redrive_engine::model::LeaseCall;
use redrive_engine::ports::backend::{Pace, Unpaced};
use redrive_engine::tx::{Tx, TxCache};

use crate::sqlite::rows::waiting::{DUE_AFTER, DUE_AT_FRONT, END_AFTER, END_AT_FRONT};

/// So many runs in one command.
struct Pieces(usize);

impl Pace for Pieces {
    fn is_over(&self) -> bool {
        true
    }

    fn runs_max(&self, most: usize) -> usize {
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
fn lease_all(fixture: &Fixture, call: &LeaseCall, pace: &dyn Pace) -> (Vec<usize>, Vec<GrantedLease>) {
    lease_on(fixture, call, pace, &mut TxCache::default(), || {})
}

/// With what is known from before; says when a command has ended.
fn lease_on(
    fixture: &Fixture,
    call: &LeaseCall,
    pace: &dyn Pace,
    known: &mut TxCache,
    mut ended: impl FnMut(),
) -> (Vec<usize>, Vec<GrantedLease>) {
    let mut memory = WriterCache::default();
    let (dice, policies) = (SeededDice::new(7), Policies::default());
    let (mut pieces, mut granted, mut rest) = (Vec::new(), Vec::new(), Some(ClaimProgress::new(call)));
    while let Some(before) = rest {
        let mut rows = SqliteRows::new(&fixture.conn, &mut memory);
        let mut batch = Tx {
            rows: &mut rows,
            now: now(),
            dice: &dice,
            policies: &policies,
            known: &mut *known,
            counters: CounterDeltas::default(),
            pace,
            wake: false,
        };
        let piece = claim_runs(&mut batch, call, &before).unwrap();
        pieces.push(piece.granted.len());
        granted.extend(piece.granted);
        rest = piece.next;
        drop(rows);
        ended();
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

/// A wall of runs for another agent, all due at once, with one for `mine` at its end.
fn wall(runs: usize) -> Fixture {
    let fixture = waiting(runs + 1);
    fixture.conn.execute("UPDATE runs SET agent = CASE WHEN id > ?1 THEN 'mine' ELSE 'other' END", [runs]).unwrap();
    fixture
}

/// Steps of SQLite's own machine in the statements that look for due runs.
fn steps(fixture: &Fixture) -> i32 {
    let of = |sql: &str| fixture.conn.prepare_cached(sql).unwrap().reset_status(StatementStatus::VmStep);
    [&DUE_AT_FRONT, &DUE_AFTER, &END_AT_FRONT, &END_AFTER].map(|sql| of(sql)).iter().sum()
}

fn for_agent(agent: &str) -> LeaseCall {
    LeaseCall { agents: Some(vec![Label::from(agent)]), request_id: None, ..call(1) }
}

/// The most steps of one command, and how many commands it took.
fn passed(fixture: &Fixture, known: &mut TxCache) -> (i32, usize) {
    let (mut most, call) = (0, for_agent("mine"));
    steps(fixture);
    let (pieces, granted) = lease_on(fixture, &call, &Unpaced, known, || most = most.max(steps(fixture)));
    assert_eq!(granted.len(), 1);
    (most, pieces.len())
}

#[test]
fn no_command_pays_for_the_whole_wall() {
    let (few, many) = (wall(2_000), wall(5_000));
    let [few, many] = [&few, &many].map(|fixture| passed(fixture, &mut TxCache::default()));
    assert!(many.0 <= few.0 + few.0 / 20, "the longest command took {} steps, and {} behind more runs", few.0, many.0);
    assert!(many.1 > 2 * few.1, "{} and {} commands", few.1, many.1);
}

#[test]
fn the_next_call_goes_on_where_the_last_one_ended() {
    let (fixture, mut known) = (wall(3_000), TxCache::default());
    fixture.add(&Seed { state: StateName::Scheduled, due: NOW_MS - 1, ..Seed::default() });
    fixture.conn.execute("UPDATE runs SET agent = 'mine' WHERE agent IS NULL", []).unwrap();
    assert!(passed(&fixture, &mut known).1 > 1);
    assert_eq!(passed(&fixture, &mut known).1, 1, "the wall is behind it");
}

#[test]
fn a_call_that_gets_nothing_has_looked_at_everything_once() {
    let (fixture, mut known) = (wall(3_000), TxCache::default());
    passed(&fixture, &mut known);
    let nobody = lease_on(&fixture, &for_agent("nobody"), &Unpaced, &mut known, || {});
    assert!(nobody.1.is_empty() && nobody.0.len() < 10, "{:?}", nobody.0);
    // The walk stood behind the wall: what is in front of it is looked at again.
    fixture.conn.execute("UPDATE runs SET agent = 'mine' WHERE id = 7", []).unwrap();
    let (_, granted) = lease_on(&fixture, &for_agent("mine"), &Unpaced, &mut known, || {});
    assert_eq!(granted.iter().map(|granted| granted.row).collect::<Vec<_>>(), [7]);
}
