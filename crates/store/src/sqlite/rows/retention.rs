//! Ended runs, and their removal.

use std::collections::HashSet;

use redrive_core::ids::RunId;
use redrive_core::retention::EndedAs;
use redrive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::numbers::{limit, signed};
use crate::sqlite::rows::SqliteRows;
use redrive_engine::error::PortResult as Result;
use redrive_engine::ports::rows::{EndedScan, OldRows, RetentionNotice, RetentionRows};
use redrive_engine::runs::document::position;

/// What belongs to a run, by tables whose column `run` is its number. Ledger entries stay: deleting the run sets their run to
/// NULL.
const OF_RUN: [&str; 8] =
    ["attempts", "late_failures", "payloads", "revisions", "sent", "history", "reviews", "runs_set_aside"];

/// Runs that ended at the same moment as the last one are a query of their own: only then does SQLite seek past those already
/// seen.
const ENDED: &str = "SELECT ended_at, id FROM runs INDEXED BY runs_ended WHERE ended_at IS NOT NULL AND queue = ?1
         AND tenant = ?2 AND ended_as = ?3 AND ended_at = ?4 AND id > ?5 AND ?4 <= ?6
     UNION ALL
     SELECT ended_at, id FROM runs INDEXED BY runs_ended WHERE ended_at IS NOT NULL AND queue = ?1
         AND tenant = ?2 AND ended_as = ?3 AND ended_at > ?4 AND ended_at <= ?6
     ORDER BY ended_at, id LIMIT ?7";

/// Two seeks: over both columns at once SQLite would read every run of the queue and tenant before.
const NEXT_ENDED: [&str; 2] = [
    "SELECT queue, tenant FROM runs INDEXED BY runs_ended WHERE ended_at IS NOT NULL AND queue = ?1 AND tenant > ?2
     ORDER BY tenant LIMIT 1",
    "SELECT queue, tenant FROM runs INDEXED BY runs_ended WHERE ended_at IS NOT NULL AND queue > ?1 AND ?2 = ?2
     ORDER BY queue, tenant LIMIT 1",
];
const NEXT_NOTICE: &str = "SELECT queue, tenant FROM retention_notices WHERE (queue, tenant) > (?1, ?2)
     ORDER BY queue, tenant LIMIT 1";

impl RetentionRows for SqliteRows<'_> {
    fn claim_retention(&mut self, replica: &str, now: Timestamp, until: Timestamp) -> Result<Option<String>> {
        let mut claim = self.conn.prepare_cached(
            "INSERT INTO retention_progress (id, holder, held_until, position) VALUES (1, ?1, ?3, '')
             ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
                 WHERE holder = excluded.holder OR held_until <= ?2 RETURNING position",
        )?;
        let claimed = claim.query_map(params![replica, now.as_millis(), until.as_millis()], |row| row.get(0))?;
        Ok(claimed.collect::<rusqlite::Result<Vec<String>>>()?.pop())
    }

    fn hold_retention(&mut self, replica: &str, position: &str, until: Timestamp) -> Result<bool> {
        let mut hold = self.conn.prepare_cached(
            "UPDATE retention_progress SET position = ?2, held_until = ?3 WHERE id = 1 AND holder = ?1",
        )?;
        Ok(hold.execute(params![replica, position, until.as_millis()])? == 1)
    }

    fn next_ended(&mut self, at: (i64, i64)) -> Result<Option<(i64, i64)>> {
        let place = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let mut ended: Option<(i64, i64)> = None;
        for sql in NEXT_ENDED {
            if ended.is_none() {
                ended = self.conn.prepare_cached(sql)?.query_row([at.0, at.1], place).optional()?;
            }
        }
        let noticed: Option<(i64, i64)> =
            self.conn.prepare_cached(NEXT_NOTICE)?.query_row([at.0, at.1], place).optional()?;
        Ok(ended.into_iter().chain(noticed).min())
    }

    fn ended_runs(&mut self, scan: &EndedScan, most: usize) -> Result<Vec<(Timestamp, i64)>> {
        let mut find = self.conn.prepare_cached(ENDED)?;
        let found = find
            .query_map(ended_params(scan, limit(most)), |row| Ok((Timestamp::from_millis(row.get(0)?), row.get(1)?)))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    fn count_ended(&mut self, scan: &EndedScan, most: u64) -> Result<(u64, Option<Timestamp>)> {
        let sql = format!("SELECT count(*), min(ended_at) FROM ({ENDED})");
        let mut count = self.conn.prepare_cached(&sql)?;
        Ok(count.query_row(ended_params(scan, limit(most)), |row| {
            Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.map(Timestamp::from_millis)))
        })?)
    }

    fn retention_notice(&mut self, place: (i64, i64)) -> Result<Option<RetentionNotice>> {
        let mut find = self.conn.prepare_cached(
            "SELECT due_soon, first_at, kept FROM retention_notices WHERE queue = ?1 AND tenant = ?2",
        )?;
        let read = |row: &rusqlite::Row<'_>| {
            let first_at = row.get::<_, Option<i64>>(1)?.map(Timestamp::from_millis);
            Ok(RetentionNotice { due_soon: row.get(0)?, first_at, kept: row.get(2)? })
        };
        Ok(find.query_row([place.0, place.1], read).optional()?)
    }

    fn put_retention_notice(&mut self, place: (i64, i64), notice: Option<&RetentionNotice>) -> Result<()> {
        let Some(notice) = notice else {
            let mut delete =
                self.conn.prepare_cached("DELETE FROM retention_notices WHERE queue = ?1 AND tenant = ?2")?;
            delete.execute([place.0, place.1])?;
            return Ok(());
        };
        let mut put = self.conn.prepare_cached(
            "INSERT INTO retention_notices (queue, tenant, due_soon, first_at, kept) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (queue, tenant) DO UPDATE SET due_soon = excluded.due_soon, first_at = excluded.first_at,
                 kept = excluded.kept",
        )?;
        let first_at = notice.first_at.map(Timestamp::as_millis);
        put.execute(params![place.0, place.1, signed(notice.due_soon), first_at, signed(notice.kept)])?;
        Ok(())
    }

    /// Only the writer changes runs.
    fn lock_ended(&mut self, _: &[i64]) -> Result<()> {
        Ok(())
    }

    fn in_open_operations(&mut self, runs: &[i64]) -> Result<HashSet<i64>> {
        let mut open = self.conn.prepare_cached("SELECT id FROM operations WHERE open = 1 OR ended_at IS NULL")?;
        let open: Vec<i64> = open.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut find = self.conn.prepare_cached("SELECT 1 FROM operation_items WHERE operation = ?1 AND run = ?2")?;
        let mut found = HashSet::new();
        for operation in open {
            for run in runs {
                if find.exists([operation, *run])? {
                    found.insert(*run);
                }
            }
        }
        Ok(found)
    }

    fn parts_of_run(&mut self, tenant: i64, run_id: &RunId, most: usize) -> Result<Vec<i64>> {
        let mut find = self.conn.prepare_cached(
            "SELECT id FROM runs INDEXED BY runs_merged
             WHERE tenant = ?1 AND merged_into = ?2 AND merged_into IS NOT NULL ORDER BY id LIMIT ?3",
        )?;
        let found = find.query_map(params![tenant, run_id.as_str(), limit(most)], |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    fn remove_runs(&mut self, runs: &[i64]) -> Result<()> {
        for table in OF_RUN {
            delete_each(self.conn, &format!("DELETE FROM {table} WHERE run = ?1"), runs)?;
        }
        delete_each(self.conn, "DELETE FROM merged_steps WHERE run = ?1", runs)?;
        delete_each(self.conn, "DELETE FROM merged_steps WHERE from_run = ?1", runs)?;
        delete_each(self.conn, "DELETE FROM runs WHERE id = ?1", runs)?;
        // The trigger has deleted names, so the count of new ones is not known any more.
        self.memory.new_names = None;
        Ok(())
    }

    fn remove_payloads(&mut self, runs: &[i64]) -> Result<()> {
        delete_each(self.conn, "DELETE FROM payloads WHERE run = ?1", runs)?;
        delete_each(self.conn, "DELETE FROM sent WHERE run = ?1", runs)?;
        delete_each(self.conn, "UPDATE revisions SET patch = NULL WHERE run = ?1", runs)
    }

    fn trim_old(&mut self, of: OldRows, before: Timestamp, most: usize) -> Result<usize> {
        let sql = match of {
            OldRows::Hours => {
                "DELETE FROM hours WHERE (hour, tenant, queue, reason) IN
                     (SELECT hour, tenant, queue, reason FROM hours WHERE hour < ?1 ORDER BY hour LIMIT ?2)"
            }
            OldRows::Keys => {
                "DELETE FROM keys WHERE id IN
                     (SELECT id FROM keys WHERE revoked_at < ?1 OR expires_at < ?1 LIMIT ?2)"
            }
            OldRows::SetAside => {
                "DELETE FROM set_aside WHERE id IN (SELECT id FROM set_aside WHERE at < ?1 ORDER BY id LIMIT ?2)"
            }
            OldRows::Operations => return self.trim_operations(before, most),
        };
        Ok(self.conn.prepare_cached(sql)?.execute(params![before.as_millis(), limit(most)])?)
    }

    /// Free pages are used again. Only where they are many, they go back to the file system, from the end of the file.
    fn release_pages(&mut self, most: usize) -> Result<bool> {
        let ask = |pragma| self.conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let (free, all) = (ask("freelist_count")?, ask("page_count")?);
        let spare = free - all / 10;
        if spare <= 0 || ask("auto_vacuum")? == 0 {
            return Ok(false);
        }
        let pages = spare.min(limit(most));
        let mut release = self.conn.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut released = release.query([])?;
        while released.next()?.is_some() {}
        Ok(pages < spare)
    }
}

impl SqliteRows<'_> {
    /// The items of the oldest operation first, then the operation.
    fn trim_operations(&self, before: Timestamp, most: usize) -> Result<usize> {
        let mut find = self.conn.prepare_cached(
            "SELECT id FROM operations WHERE open = 0 AND (ended_at < ?1 OR (started_at IS NULL AND created_at < ?1))
             ORDER BY id LIMIT 1",
        )?;
        let oldest: Option<i64> = find.query_row([before.as_millis()], |row| row.get(0)).optional()?;
        let Some(operation) = oldest else { return Ok(0) };
        let mut items = self.conn.prepare_cached(
            "DELETE FROM operation_items WHERE operation = ?1 AND run IN
                 (SELECT run FROM operation_items WHERE operation = ?1 ORDER BY run LIMIT ?2)",
        )?;
        let gone = items.execute(params![operation, limit(most)])?;
        if gone < most {
            self.conn.prepare_cached("DELETE FROM operations WHERE id = ?1")?.execute([operation])?;
        }
        // There may be another one.
        Ok(most)
    }
}

fn ended_params(scan: &EndedScan, most: i64) -> [i64; 7] {
    let ended_as = position(EndedAs::ALL, &scan.ended_as);
    [scan.queue, scan.tenant, ended_as, scan.after.0, scan.after.1, scan.by.as_millis(), most]
}

fn delete_each(conn: &Connection, sql: &str, runs: &[i64]) -> Result<()> {
    let mut delete = conn.prepare_cached(sql)?;
    for run in runs {
        delete.execute([*run])?;
    }
    Ok(())
}
