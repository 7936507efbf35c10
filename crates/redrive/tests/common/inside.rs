//! Checks of the store's file beside its server: integrity, and every counter against a recount.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::support::{database, redrive};

pub const DATABASE: &str = "data/redrive.db";

pub fn open(folder: &Path) -> Connection {
    let conn = Connection::open_with_flags(folder.join(DATABASE), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    conn
}

/// Rows that must not be there, with what they would mean.
const WRONG: [(&str, &str); 7] = [
    (
        "a counter that is not what a recount gives",
        "SELECT count(*) FROM (
             SELECT state, tenant, queue, reason, detail, n FROM counts WHERE n <> 0
             EXCEPT SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5)",
    ),
    (
        "runs that no counter knows",
        "SELECT count(*) FROM (
             SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5
             EXCEPT SELECT state, tenant, queue, reason, detail, n FROM counts)",
    ),
    (
        "a total that is not the sum of its tenants",
        "SELECT count(*) FROM (
             SELECT state, queue, reason, detail, n FROM totals WHERE n <> 0
             EXCEPT SELECT state, queue, reason, detail, sum(n) FROM counts GROUP BY 1, 2, 3, 4)",
    ),
    (
        "a run that is not found by its name, or twice",
        "SELECT count(*) FROM runs WHERE 1 <> (
             SELECT count(*) FROM (SELECT * FROM run_names UNION ALL SELECT * FROM run_names_new) names
             WHERE names.key_hash = runs.key_hash AND names.run = runs.id)",
    ),
    (
        "a run without its payload",
        "SELECT count(*) FROM runs WHERE (id, revision) NOT IN (SELECT run, revision FROM payloads)",
    ),
    ("a payload without its run", "SELECT count(*) FROM payloads WHERE run NOT IN (SELECT id FROM runs)"),
    ("an attempt without its run", "SELECT count(*) FROM attempts WHERE run NOT IN (SELECT id FROM runs)"),
];

/// Nothing damaged, nothing half applied.
pub fn check(folder: &Path) {
    check_with(folder, ("NO_COLOR", "1"));
}

/// The same, by a binary with this environment variable.
pub fn check_with(folder: &Path, env: (&str, &str)) {
    if let Some(url) = database(folder) {
        // PostgreSQL's counters include deltas; the command adds them.
        let mut check = redrive();
        let checked =
            check.env(env.0, env.1).args(["store", "check", "--json", "--database-url", &url]).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
        for (what, rows) in &WRONG[4..] {
            assert_eq!(private_postgres::sql(&url, rows).unwrap(), "0", "{what}");
        }
        return;
    }
    let conn = open(folder);
    let said: String = conn.query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
    assert_eq!(said, "ok");
    // All of one moment, however busy the server is meanwhile.
    let moment = conn.unchecked_transaction().unwrap();
    for (what, rows) in WRONG {
        assert_eq!(moment.query_row(rows, [], |row| row.get::<_, i64>(0)).unwrap(), 0, "{what}");
    }
    assert!(!moment.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap(), "a row points nowhere");
}

pub fn number(folder: &Path, query: &str) -> i64 {
    if let Some(url) = database(folder) {
        return private_postgres::sql(&url, query).unwrap().parse().unwrap();
    }
    open(folder).query_row(query, [], |row| row.get(0)).unwrap()
}

/// The schema's version: 0 before the first migration.
pub fn version(folder: &Path) -> i64 {
    match database(folder) {
        Some(_) if number(folder, "SELECT count(*) FROM pg_tables WHERE tablename = 'schema_version'") == 0 => 0,
        Some(_) => number(folder, "SELECT version FROM schema_version"),
        None => number(folder, "PRAGMA user_version"),
    }
}

/// Tables and indexes that are there.
pub fn objects(folder: &Path) -> i64 {
    match database(folder) {
        Some(_) => number(folder, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"),
        None => number(folder, "SELECT count(*) FROM sqlite_schema"),
    }
}

/// As a later binary would leave it.
pub fn set_version(folder: &Path, version: i64) {
    match database(folder) {
        Some(url) => {
            drop(private_postgres::sql(&url, &format!("UPDATE schema_version SET version = {version}")).unwrap());
        }
        None => {
            let conn = Connection::open(folder.join(DATABASE)).unwrap();
            conn.pragma_update(None, "user_version", version).unwrap();
        }
    }
}
