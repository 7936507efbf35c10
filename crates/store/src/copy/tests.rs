//! Copies over a real PostgreSQL and back: every table, with what is hard to carry.

use private_postgres::Database;
use redrive_core::time::Timestamp;
use rusqlite::Connection;

use super::ends::{End, Place};
use super::run::copy;
use super::tables::{MADE_ANEW, NUMBERED, TABLES};
use super::value::{Cells, Kind, Value};
use super::{Copied, sqlite};
use crate::sqlite::FolderPlace;
use redrive_engine::model::KeyMark;

const ROWS: i64 = 2_300;

/// Values that a driver or an encoding may stumble over; numbers point at rows that are there.
fn cell(kind: Kind, row: i64) -> Value {
    match kind {
        Kind::Number => Value::Number(row),
        Kind::Text => Value::Bytes(format!("é\u{1f600}'\"\\ {row}").into_bytes()),
        Kind::Bytes => Value::Bytes([&row.to_le_bytes()[..], &[0, 255, b'\\', 0]].concat()),
    }
}

/// Fills every table; of those that have a single row, that one.
fn fill(folder: &std::path::Path) {
    let mut place = FolderPlace::open(folder, true).unwrap();
    let tx = place.conn.transaction().unwrap();
    for table in TABLES {
        let columns = sqlite::columns(&tx, table.name).unwrap();
        let single = table.name == "breaker_generation";
        let last = if single { 1 } else { ROWS };
        let row = |n| columns.iter().map(|column| cell(column.kind, n)).collect();
        let rows: Vec<Cells> = (1..=last).map(row).collect();
        sqlite::write(&tx, table, &columns, &rows).unwrap();
    }
    tx.execute("UPDATE sqlite_sequence SET seq = 9000 WHERE name = 'runs'", []).unwrap();
    tx.commit().unwrap();
}

/// Everything, in the order of the keys.
async fn all(place: &Place) -> Vec<(&'static str, Vec<Cells>)> {
    let end = End::open(place, false).await.unwrap();
    let mut tables = Vec::new();
    for table in TABLES {
        let mut columns = end.columns(table).await.unwrap();
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        tables.push((table.name, end.read(table, &columns, None, usize::MAX / 2).await.unwrap()));
    }
    tables
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn copied(from: &Place, to: &Place) -> Copied {
    run(copy(from, to, Timestamp::from_millis(0), |_| {})).unwrap()
}

/// Stops in the middle of the piece after so many.
fn cut_short(from: &Place, to: &Place, pieces: usize) {
    let (from, to) = (from.clone(), to.clone());
    let cut = std::thread::Builder::new().spawn(move || {
        let mut told = 0;
        run(copy(&from, &to, Timestamp::from_millis(0), |_| {
            told += 1;
            assert!(told < pieces, "cut short, as intended");
        }))
    });
    assert!(cut.unwrap().join().is_err());
}

#[test]
fn a_copy_there_and_back_is_the_same_also_when_it_was_cut_short() {
    let folders = tempfile::tempdir().unwrap();
    let (first, second) = (folders.path().join("first"), folders.path().join("second"));
    fill(&first);
    let database = Database::fresh().unwrap();
    let (first, middle, second) =
        (Place::Folder(first), Place::Database(database.url().to_owned()), Place::Folder(second));
    cut_short(&first, &middle, 30);
    let there = copied(&first, &middle);
    assert!(there.resumed);
    cut_short(&middle, &second, 45);
    let back = copied(&middle, &second);
    assert!(back.resumed);
    assert_eq!(there.tables, back.tables);
    let (before, after) = (run(all(&first)), run(all(&second)));
    for ((table, before), (_, after)) in before.iter().zip(&after) {
        assert!(before == after, "{table} differs");
    }
    // A lease names its run by a number that is never given out again, also when the run is gone.
    let Place::Folder(second) = second else { unreachable!() };
    let conn = Connection::open(second.join("redrive.db")).unwrap();
    let last: i64 =
        conn.query_row("SELECT seq FROM sqlite_sequence WHERE name = 'runs'", [], |row| row.get(0)).unwrap();
    assert_eq!(last, 9_000);
}

#[test]
fn a_store_that_holds_something_is_no_target_and_half_a_copy_none_for_another_source() {
    let folders = tempfile::tempdir().unwrap();
    let place = |name: &str| Place::Folder(folders.path().join(name));
    fill(&folders.path().join("a"));
    fill(&folders.path().join("b"));
    let refused =
        |from: &Place, to: &Place| run(copy(from, to, Timestamp::from_millis(0), |_| {})).unwrap_err().to_string();
    assert!(refused(&place("a"), &place("b")).contains("not empty"));
    assert!(refused(&place("a"), &place("a")).contains("into itself"));
    cut_short(&place("a"), &place("c"), 5);
    assert!(refused(&place("b"), &place("c")).contains("from another store"));
    copied(&place("a"), &place("c"));
}

#[test]
fn every_table_is_copied_and_the_twins_have_the_same_columns() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::fresh().unwrap();
    let lite = run(End::open(&Place::Folder(folder.path().join("a")), true)).unwrap();
    let End::Sqlite(place) = &lite else { unreachable!() };
    let mut names = place.conn.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
    let mut found: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    found.retain(|name| !name.starts_with("sqlite_") && !MADE_ANEW.contains(&name.as_str()));
    found.sort_unstable();
    let mut known: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    known.sort_unstable();
    assert_eq!(found, known);
    run(async {
        let pg = End::open(&Place::Database(database.url().to_owned()), true).await.unwrap();
        for table in TABLES {
            let names = |columns: Vec<super::value::Column>| {
                let mut names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
                names.sort_unstable();
                names
            };
            let (lite, pg) = (lite.columns(table).await.unwrap(), pg.columns(table).await.unwrap());
            assert_eq!(names(lite), names(pg), "{}", table.name);
        }
    });
    // What only PostgreSQL has is either empty after a fold or made anew.
    let only = database.sql(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace ORDER BY 1",
    );
    let mut only: Vec<String> = only.unwrap().lines().map(str::to_owned).collect();
    only.retain(|name| !known.contains(&name.as_str()));
    assert_eq!(
        only,
        [
            "change_deltas",
            "change_head",
            "counter_deltas",
            "hour_deltas",
            "pattern_deltas",
            "schema_version",
            "spend_deltas"
        ]
    );
    let identities = database.sql(
        "SELECT table_name FROM information_schema.columns WHERE identity_generation = 'BY DEFAULT' AND table_schema = 'public' ORDER BY 1",
    );
    let mut numbered = NUMBERED.to_vec();
    numbered.sort_unstable();
    assert_eq!(identities.unwrap().lines().collect::<Vec<_>>(), numbered);
}

/// A key that was rotated before the copy still reads what it worked on.
#[test]
fn a_copy_carries_who_worked_on_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::fresh().unwrap();
    let (at, mark) = (folder.path().join("a"), KeyMark::of_lineage("key-1"));
    fill(&at);
    let conn = Connection::open(at.join("redrive.db")).unwrap();
    let life = "UPDATE runs SET run_id = 'r1', state = 0, life = json_object('k', json_array(json(?1))) WHERE id = 1";
    let mark_as_kept = serde_json::to_string(&mark).unwrap();
    conn.execute(life, [&mark_as_kept]).unwrap();
    conn.execute("UPDATE tenants SET name = 'acme' WHERE id = 1", []).unwrap();
    conn.execute("UPDATE keys SET lineage = 'key-1' WHERE id = (SELECT min(id) FROM keys)", []).unwrap();
    drop(conn);
    copied(&Place::Folder(at), &Place::Database(database.url().to_owned()));
    let kept = "SELECT convert_from(life, 'UTF8') FROM runs WHERE run_id = 'r1'";
    assert_eq!(database.sql(kept).unwrap().trim(), format!(r#"{{"k":[{mark_as_kept}]}}"#));
    assert_eq!(database.sql("SELECT count(*) FROM keys WHERE lineage = 'key-1'").unwrap().trim(), "1");
}
