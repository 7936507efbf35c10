//! Copies from SQLite to PostgreSQL and back: every table, with values that are hard to encode.

use private_postgres::Database;
use redrive_core::time::Timestamp;
use rusqlite::Connection;

use super::cell::{Cell, Cells, ColumnType, TableColumn};
use super::run::copy;
use super::store::{CopyStore, StoreAddress};
use super::tables::{NUMBERED, REBUILT, TABLES};
use super::{Copied, sqlite};
use crate::sqlite::FolderPlace;
use redrive_engine::model::KeyMark;

const ROWS: i64 = 2_300;

/// Values that a driver or an encoding may get wrong; numbers refer to existing rows.
fn cell(column_type: ColumnType, row: i64) -> Cell {
    match column_type {
        ColumnType::Number => Cell::Number(row),
        ColumnType::Text => Cell::Bytes(format!("é\u{1f600}'\"\\ {row}").into_bytes()),
        ColumnType::Bytes => Cell::Bytes([&row.to_le_bytes()[..], &[0, 255, b'\\', 0]].concat()),
    }
}

/// Fills every table.
fn fill(folder: &std::path::Path) {
    let mut place = FolderPlace::open(folder, true).unwrap();
    let tx = place.conn.transaction().unwrap();
    for table in TABLES {
        let columns = sqlite::columns(&tx, table.name).unwrap();
        let single = table.name == "breaker_generation";
        let last = if single { 1 } else { ROWS };
        let row = |n| columns.iter().map(|column| cell(column.column_type, n)).collect();
        let rows: Vec<Cells> = (1..=last).map(row).collect();
        sqlite::write(&tx, table, &columns, &rows).unwrap();
    }
    tx.execute("UPDATE sqlite_sequence SET seq = 9000 WHERE name = 'runs'", []).unwrap();
    tx.commit().unwrap();
}

/// All rows, in key order.
async fn all(address: &StoreAddress) -> Vec<(&'static str, Vec<Cells>)> {
    let store = CopyStore::open(address, false).await.unwrap();
    let mut tables = Vec::new();
    for table in TABLES {
        let mut columns = store.columns(table).await.unwrap();
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        tables.push((table.name, store.read(table, &columns, None, usize::MAX / 2).await.unwrap()));
    }
    tables
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn copied(from: &StoreAddress, to: &StoreAddress) -> Copied {
    run(copy(from, to, Timestamp::from_millis(0), |_| {})).unwrap()
}

/// Interrupts the copy after this many batches.
fn interrupt(from: &StoreAddress, to: &StoreAddress, batches: usize) {
    let (from, to) = (from.clone(), to.clone());
    let cut = std::thread::Builder::new().spawn(move || {
        let mut reported = 0;
        run(copy(&from, &to, Timestamp::from_millis(0), |_| {
            reported += 1;
            assert!(reported < batches, "interrupted, as intended");
        }))
    });
    assert!(cut.unwrap().join().is_err());
}

#[test]
fn interrupted_copies_there_and_back_keep_every_row() {
    let folders = tempfile::tempdir().unwrap();
    let (first, second) = (folders.path().join("first"), folders.path().join("second"));
    fill(&first);
    let database = Database::fresh().unwrap();
    let (first, middle, second) =
        (StoreAddress::Folder(first), StoreAddress::Database(database.url().to_owned()), StoreAddress::Folder(second));
    interrupt(&first, &middle, 30);
    let there = copied(&first, &middle);
    assert!(there.resumed);
    interrupt(&middle, &second, 45);
    let back = copied(&middle, &second);
    assert!(back.resumed);
    assert_eq!(there.tables, back.tables);
    let (before, after) = (run(all(&first)), run(all(&second)));
    for ((table, before), (_, after)) in before.iter().zip(&after) {
        assert!(before == after, "{table} differs");
    }
    // A lease names its run by id, so the id of a deleted run is not reused.
    let StoreAddress::Folder(second) = second else { unreachable!() };
    let conn = Connection::open(second.join("redrive.db")).unwrap();
    let last: i64 =
        conn.query_row("SELECT seq FROM sqlite_sequence WHERE name = 'runs'", [], |row| row.get(0)).unwrap();
    assert_eq!(last, 9_000);
}

#[test]
fn filled_stores_and_other_sources_unfinished_copies_are_refused() {
    let folders = tempfile::tempdir().unwrap();
    let folder = |name: &str| StoreAddress::Folder(folders.path().join(name));
    fill(&folders.path().join("a"));
    fill(&folders.path().join("b"));
    let refused = |from: &StoreAddress, to: &StoreAddress| {
        run(copy(from, to, Timestamp::from_millis(0), |_| {})).unwrap_err().to_string()
    };
    assert!(refused(&folder("a"), &folder("b")).contains("not empty"));
    assert!(refused(&folder("a"), &folder("a")).contains("into itself"));
    interrupt(&folder("a"), &folder("c"), 5);
    assert!(refused(&folder("b"), &folder("c")).contains("from another store"));
    copied(&folder("a"), &folder("c"));
}

#[test]
fn every_table_is_copied_and_both_stores_have_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::fresh().unwrap();
    let lite = run(CopyStore::open(&StoreAddress::Folder(folder.path().join("a")), true)).unwrap();
    let CopyStore::Sqlite(place) = &lite else { unreachable!() };
    let mut names = place.conn.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
    let mut found: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    found.retain(|name| !name.starts_with("sqlite_") && !REBUILT.contains(&name.as_str()));
    found.sort_unstable();
    let mut known: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    known.sort_unstable();
    assert_eq!(found, known);
    run(async {
        let pg = CopyStore::open(&StoreAddress::Database(database.url().to_owned()), true).await.unwrap();
        for table in TABLES {
            let names = |columns: Vec<TableColumn>| {
                let mut names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
                names.sort_unstable();
                names
            };
            let (lite, pg) = (lite.columns(table).await.unwrap(), pg.columns(table).await.unwrap());
            assert_eq!(names(lite), names(pg), "{}", table.name);
        }
    });
    // PostgreSQL's own tables are empty after a fold, or filled by the target.
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

/// A rotated key reads the runs of its predecessor.
#[test]
fn copy_keeps_the_keys_that_worked_on_a_run() {
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
    copied(&StoreAddress::Folder(at), &StoreAddress::Database(database.url().to_owned()));
    let kept = "SELECT convert_from(life, 'UTF8') FROM runs WHERE run_id = 'r1'";
    assert_eq!(database.sql(kept).unwrap().trim(), format!(r#"{{"k":[{mark_as_kept}]}}"#));
    assert_eq!(database.sql("SELECT count(*) FROM keys WHERE lineage = 'key-1'").unwrap().trim(), "1");
}
