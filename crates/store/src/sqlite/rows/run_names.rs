//! The index of run names. In one large index each new run would change a page of its own, and changed pages are what a commit
//! costs. New names go to a small index whose few pages all commits share; its surplus moves to the large index in key
//! order, so that one changed page there takes many names.

use rusqlite::{Connection, OptionalExtension};

use crate::numbers::signed;
use crate::sqlite::rows::SqliteRows;
use redrive_engine::error::PortResult as Result;

/// Names that stay in the small index. More of them share a page when they move, but need more pages until then: for one to
/// ten million runs this costs least. A debug build keeps few, so that every suite moves names.
const KEPT: i64 = if cfg!(debug_assertions) { 64 } else { 65_536 };
/// A surplus that is worth a move.
const SPARE: i64 = KEPT / 64;

/// The runs of a hash: nearly always one or none.
pub(crate) const NAMED: &str =
    "SELECT run FROM run_names_new WHERE key_hash = ?1 UNION ALL SELECT run FROM run_names WHERE key_hash = ?1";

/// What the writer knows of the small index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewNames {
    pub(crate) count: i64,
    /// Where the next move starts; it wraps around at the end.
    next: i64,
}

impl NewNames {
    fn read(conn: &Connection) -> Result<Self> {
        let count = conn.query_row("SELECT count(*) FROM run_names_new", [], |row| row.get(0))?;
        Ok(Self { count, next: i64::MIN })
    }

    /// Moves `most` names, or those up to the end of the order.
    fn move_on(&mut self, conn: &Connection, most: i64) -> Result<()> {
        let mut find = conn.prepare_cached(
            "SELECT key_hash FROM run_names_new WHERE key_hash >= ?1 ORDER BY key_hash LIMIT 1 OFFSET ?2",
        )?;
        let last = find.query_row([self.next, most - 1], |row| row.get(0)).optional()?.unwrap_or(i64::MAX);
        let span = [self.next, last];
        conn.prepare_cached(
            "INSERT INTO run_names (key_hash, run)
             SELECT key_hash, run FROM run_names_new WHERE key_hash BETWEEN ?1 AND ?2 ORDER BY key_hash, run",
        )?
        .execute(span)?;
        let moved = conn.prepare_cached("DELETE FROM run_names_new WHERE key_hash BETWEEN ?1 AND ?2")?.execute(span)?;
        self.count -= signed(moved);
        self.next = last.checked_add(1).unwrap_or(i64::MIN);
        Ok(())
    }
}

/// Called when a store opens: a copy may have written far more runs than a commit should move.
pub(crate) fn settle(conn: &Connection) -> Result<()> {
    let mut names = NewNames::read(conn)?;
    if names.count >= 2 * KEPT {
        let tx = conn.unchecked_transaction()?;
        names.move_on(&tx, names.count)?;
        tx.commit()?;
    }
    Ok(())
}

impl SqliteRows<'_> {
    /// At the end of each transaction.
    pub(crate) fn move_names(&mut self) -> Result<()> {
        let mut names = match self.memory.new_names {
            Some(names) => names,
            None => NewNames::read(self.conn)?,
        };
        let spare = names.count - KEPT;
        if spare >= SPARE {
            names.move_on(self.conn, spare)?;
        }
        self.memory.new_names = Some(names);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::lookup::run_number;
    use crate::shared::reader::ready;
    use crate::sqlite::rows::WriterCache;
    use crate::sqlite::tests::fixture::{Fixture, Seed};
    use redrive_engine::model::RunRef;

    fn count(conn: &Connection, what: &str) -> i64 {
        conn.query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn runs_are_found_while_names_move_between_indexes() {
        let (fixture, mut memory) = (Fixture::new(), WriterCache::default());
        let (mut ends, mut next) = (0, i64::MIN);
        for commit in 0..40 {
            // Fewer than are kept, and now and then many more.
            let runs = if commit % 10 == 9 { 3 * KEPT } else { KEPT / 4 };
            for _ in 0..runs {
                fixture.add(&Seed::default());
            }
            if let Some(names) = &mut memory.new_names {
                names.count += runs;
            }
            SqliteRows::new(&fixture.conn, &mut memory).move_names().unwrap();
            let known = memory.new_names.unwrap();
            assert_eq!(known.count, count(&fixture.conn, "run_names_new"));
            ends += i64::from(known.next < next);
            next = known.next;
            for run in 1..=count(&fixture.conn, "runs") {
                let at = RunRef { tenant: "acme".parse().unwrap(), run_id: format!("run-{run}").parse().unwrap() };
                assert_eq!(ready(run_number(&fixture.conn, &at)).unwrap(), run);
            }
        }
        let (small, large) = (count(&fixture.conn, "run_names_new"), count(&fixture.conn, "run_names"));
        assert_eq!(small + large, count(&fixture.conn, "runs"), "each name is in one of them");
        assert!(small < 2 * KEPT && ends > 2, "{small} are left, the end was met {ends} times");
    }

    #[test]
    fn opening_a_filled_store_moves_its_names() {
        let fixture = Fixture::with((0..2 * KEPT).map(|_| Seed::default()));
        settle(&fixture.conn).unwrap();
        assert_eq!(count(&fixture.conn, "run_names"), 2 * KEPT);
        assert_eq!(count(&fixture.conn, "run_names_new"), 0);
    }

    #[test]
    fn names_of_one_hash_are_moved_together() {
        let fixture = Fixture::new();
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
                    INSERT INTO run_names_new SELECT 7 - (i = 20), i FROM n";
        fixture.conn.execute_batch(fill).unwrap();
        let mut names = NewNames::read(&fixture.conn).unwrap();
        names.move_on(&fixture.conn, 3).unwrap();
        assert_eq!((names.count, names.next), (0, 8));
        assert_eq!(count(&fixture.conn, "run_names"), 20);
    }

    #[test]
    fn moves_wrap_around_after_the_last_hash() {
        let fixture = Fixture::new();
        let fill = format!("INSERT INTO run_names_new VALUES ({}, 1), ({}, 2)", i64::MIN, i64::MAX);
        fixture.conn.execute_batch(&fill).unwrap();
        let mut names = NewNames::read(&fixture.conn).unwrap();
        names.move_on(&fixture.conn, 1).unwrap();
        assert_eq!((names.count, names.next), (1, i64::MIN + 1));
        names.move_on(&fixture.conn, 1).unwrap();
        assert_eq!((names.count, names.next), (0, i64::MIN));
    }

    /// SQLite would prefer the index of the tenant's runs: it can't know how few runs a hash has.
    #[test]
    fn runs_are_looked_up_by_name_alone() {
        let fixture = Fixture::new();
        for sql in [
            &*crate::sqlite::reads::runs::RUN_BY_NAME,
            &*crate::sqlite::rows::runs::FIND,
            &*crate::sqlite::reads::runs::QUEUE_OF,
        ] {
            let mut plan = fixture.conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = plan.query_map([0; 3], |row| row.get::<_, String>(3)).unwrap();
            let runs: Vec<String> = steps.map(Result::unwrap).filter(|step| step.contains(" runs ")).collect();
            assert_eq!(runs, ["SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"], "{sql}");
        }
    }
}
