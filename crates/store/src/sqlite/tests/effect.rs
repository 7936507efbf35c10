//! What becomes of the ledger once a run is gone.

use rusqlite::{Connection, params};

use crate::sqlite::rows::{SqliteRows, WriterCache};
use crate::sqlite::tests::fixture::{Fixture, NOW_MS, Seed, now};
use redrive_engine::error::PortResult as Result;
use redrive_engine::ledger::effects::{KEPT_MS, effect};
use redrive_engine::model::{EffectRef, Swept};
use redrive_engine::ports::rows::EngineRows as _;

fn rows<T>(conn: &Connection, act: impl FnOnce(&mut SqliteRows<'_>) -> T) -> T {
    act(&mut SqliteRows::new(conn, &mut WriterCache::default()))
}

const DAY: i64 = 86_400_000;

fn keys(conn: &Connection) -> Vec<String> {
    let mut all = conn.prepare("SELECT key FROM steps ORDER BY key").unwrap();
    all.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn trim_at(fixture: &Fixture, most: usize) -> Swept {
    rows(&fixture.conn, |rows| rows.trim_ledger(now().minus_ms(KEPT_MS), most).unwrap())
}

/// An entry of run 1 or 2, used so many days ago.
fn used(fixture: &Fixture, run: i64, key: &str, days_ago: i64) {
    let sql = "INSERT INTO steps (tenant, run, run_id, attempt, epoch, key, named, name, effect, status, holds, at,
                   used_at, used_epoch) VALUES (1, ?1, 'r', 1, 0, ?2, 1, 'n', 1, 1, 1, 0, ?3, 0)";
    fixture.conn.execute(sql, params![run, key, NOW_MS - days_ago * DAY]).unwrap();
}

#[test]
fn an_entry_outlives_its_run_by_ninety_unused_days() {
    let fixture = Fixture::with([Seed::default(), Seed::default()]);
    for (run, key, days_ago) in [(1, "a-old", 91), (1, "b-older", 400), (1, "c-used", 89), (2, "d-of-a-run", 400)] {
        used(&fixture, run, key, days_ago);
    }
    fixture.conn.execute("DELETE FROM runs WHERE id = 1", []).unwrap();
    let first = trim_at(&fixture, 1);
    assert_eq!((first.moved, first.more, keys(&fixture.conn).len()), (1, true, 3), "the oldest first, bounded");
    assert!(trim_at(&fixture, 1).more);
    assert_eq!(trim_at(&fixture, 1).moved, 0);
    assert_eq!(keys(&fixture.conn), ["c-used", "d-of-a-run"]);
}

#[test]
fn ledger_entries_outlive_their_run() {
    let fixture = Fixture::with([Seed::default()]);
    used(&fixture, 1, "charge", 1);
    fixture.conn.execute("DELETE FROM runs WHERE id = 1", []).unwrap();
    let (tenant, key) = ("acme".parse().unwrap(), "charge".parse().unwrap());
    let at = EffectRef { tenant, key, run_id: Some("r".parse().unwrap()) };
    assert_eq!(rows(&fixture.conn, |rows| effect(rows, &at).unwrap()).run_id.as_str(), "r");
}
