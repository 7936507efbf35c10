//! Ended runs, and their removal. Rows are deleted directly: retention has the batch nearly for itself.

use std::collections::HashSet;

use redrive_core::ids::RunId;
use redrive_core::retention::EndedAs;
use redrive_core::time::Timestamp;

use crate::numbers::{counted, limit, signed};
use crate::postgres::reads::columns::{Columns as _, number, owned};
use crate::postgres::rows::PgRows;
use redrive_engine::error::PortResult as Result;
use redrive_engine::ports::rows::{EndedScan, OldRows, RetentionNotice, RetentionRows};
use redrive_engine::runs::document::position;

/// What belongs to a run, by tables whose column `run` is its number. Ledger entries stay: deleting the run sets their run to
/// NULL.
const OF_RUN: [&str; 9] = [
    "attempts",
    "late_failures",
    "payloads",
    "revisions",
    "sent",
    "history",
    "reviews",
    "runs_set_aside",
    "merged_steps",
];

const ENDED: &str = "FROM runs WHERE ended_at IS NOT NULL AND queue = $1 AND tenant = $2 AND ended_as = $3
     AND (ended_at, id) > ($4, $5) AND ended_at <= $6 ORDER BY ended_at, id LIMIT $7";

impl RetentionRows for PgRows<'_> {
    fn claim_retention(&mut self, replica: &str, now: Timestamp, until: Timestamp) -> Result<Option<String>> {
        let sql = "INSERT INTO retention_progress AS kept (id, holder, held_until, position) VALUES (1, $1, $3, '')
             ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
                 WHERE kept.holder = excluded.holder OR kept.held_until <= $2 RETURNING position";
        let claimed = self.ask_one(sql, &[&replica, &now.as_millis(), &until.as_millis()])?;
        claimed.map(|row| owned(&row, 0)).transpose()
    }

    fn hold_retention(&mut self, replica: &str, position: &str, until: Timestamp) -> Result<bool> {
        let sql = "UPDATE retention_progress SET position = $2, held_until = $3 WHERE id = 1 AND holder = $1";
        Ok(self.run(sql, &[&replica, &position, &until.as_millis()])? == 1)
    }

    fn next_ended(&mut self, at: (i64, i64)) -> Result<Option<(i64, i64)>> {
        let sql = "SELECT queue, tenant FROM (
                 (SELECT queue, tenant FROM runs WHERE ended_at IS NOT NULL AND (queue, tenant) > ($1, $2)
                     ORDER BY queue, tenant LIMIT 1)
                 UNION ALL (SELECT queue, tenant FROM retention_notices WHERE (queue, tenant) > ($1, $2)
                     ORDER BY queue, tenant LIMIT 1)) AS next
             ORDER BY queue, tenant LIMIT 1";
        let found = self.ask_one(sql, &[&at.0, &at.1])?;
        found.map(|row| Ok((number(&row, 0)?, number(&row, 1)?))).transpose()
    }

    fn ended_runs(&mut self, scan: &EndedScan, most: usize) -> Result<Vec<(Timestamp, i64)>> {
        let (sql, most) = (format!("SELECT ended_at, id {ENDED}"), limit(most));
        let ended_as = position(EndedAs::ALL, &scan.ended_as);
        let by = scan.by.as_millis();
        let found =
            self.ask(&sql, &[&scan.queue, &scan.tenant, &ended_as, &scan.after.0, &scan.after.1, &by, &most])?;
        found.iter().map(|row| Ok((Timestamp::from_millis(number(row, 0)?), number(row, 1)?))).collect()
    }

    fn count_ended(&mut self, scan: &EndedScan, most: u64) -> Result<(u64, Option<Timestamp>)> {
        let sql = format!("SELECT count(*), min(ended_at) FROM (SELECT ended_at {ENDED}) AS ended");
        let (ended_as, by, most) = (position(EndedAs::ALL, &scan.ended_as), scan.by.as_millis(), limit(most));
        let found =
            self.ask_one(&sql, &[&scan.queue, &scan.tenant, &ended_as, &scan.after.0, &scan.after.1, &by, &most])?;
        let Some(row) = found else { return Ok((0, None)) };
        Ok((number(&row, 0)?.cast_unsigned(), row.number_or_none(1)?.map(Timestamp::from_millis)))
    }

    fn retention_notice(&mut self, place: (i64, i64)) -> Result<Option<RetentionNotice>> {
        let sql = "SELECT due_soon, first_at, kept FROM retention_notices WHERE queue = $1 AND tenant = $2";
        let found = self.ask_one(sql, &[&place.0, &place.1])?;
        found
            .map(|row| {
                let first_at = row.number_or_none(1)?.map(Timestamp::from_millis);
                let (due_soon, kept) = (number(&row, 0)?.cast_unsigned(), number(&row, 2)?.cast_unsigned());
                Ok(RetentionNotice { due_soon, first_at, kept })
            })
            .transpose()
    }

    fn put_retention_notice(&mut self, place: (i64, i64), notice: Option<&RetentionNotice>) -> Result<()> {
        let Some(notice) = notice else {
            self.run("DELETE FROM retention_notices WHERE queue = $1 AND tenant = $2", &[&place.0, &place.1])?;
            return Ok(());
        };
        let sql = "INSERT INTO retention_notices (queue, tenant, due_soon, first_at, kept) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (queue, tenant) DO UPDATE SET due_soon = excluded.due_soon, first_at = excluded.first_at,
                 kept = excluded.kept";
        let first_at = notice.first_at.map(Timestamp::as_millis);
        self.run(sql, &[&place.0, &place.1, &signed(notice.due_soon), &first_at, &signed(notice.kept)])?;
        Ok(())
    }

    fn lock_ended(&mut self, runs: &[i64]) -> Result<()> {
        self.lock_runs(runs)
    }

    fn in_open_operations(&mut self, runs: &[i64]) -> Result<HashSet<i64>> {
        let sql = "SELECT item.run FROM operation_items AS item JOIN operations ON operations.id = item.operation
             WHERE (operations.open = 1 OR operations.ended_at IS NULL) AND item.run = ANY($1)";
        self.ask_after(sql, &[&runs])?.iter().map(|row| number(row, 0)).collect()
    }

    fn parts_of_run(&mut self, tenant: i64, run_id: &RunId, most: usize) -> Result<Vec<i64>> {
        let sql = "SELECT id FROM runs WHERE tenant = $1 AND merged_into = $2 AND merged_into IS NOT NULL
             ORDER BY id LIMIT $3";
        let found = self.ask_after(sql, &[&tenant, &run_id.as_str(), &limit(most)])?;
        found.iter().map(|row| number(row, 0)).collect()
    }

    fn remove_runs(&mut self, runs: &[i64]) -> Result<()> {
        // What the batch has changed in memory must not be written after the rows are gone.
        self.write_out()?;
        for table in OF_RUN {
            self.run(&format!("DELETE FROM {table} WHERE run = ANY($1)"), &[&runs])?;
        }
        self.run("DELETE FROM merged_steps WHERE from_run = ANY($1)", &[&runs])?;
        self.run("DELETE FROM runs WHERE id = ANY($1)", &[&runs])?;
        self.unit.forget_runs(runs);
        Ok(())
    }

    fn remove_payloads(&mut self, runs: &[i64]) -> Result<()> {
        self.write_out()?;
        self.run("DELETE FROM payloads WHERE run = ANY($1)", &[&runs])?;
        self.run("DELETE FROM sent WHERE run = ANY($1)", &[&runs])?;
        self.run("UPDATE revisions SET patch = NULL WHERE run = ANY($1)", &[&runs])?;
        Ok(())
    }

    fn trim_old(&mut self, of: OldRows, before: Timestamp, most: usize) -> Result<usize> {
        let sql = match of {
            OldRows::Hours => {
                "DELETE FROM hours WHERE ctid = ANY(ARRAY(
                     SELECT ctid FROM hours WHERE hour < $1 ORDER BY hour LIMIT $2 FOR UPDATE SKIP LOCKED))"
            }
            OldRows::Keys => {
                "DELETE FROM keys WHERE id IN
                     (SELECT id FROM keys WHERE revoked_at < $1 OR expires_at < $1 LIMIT $2)"
            }
            OldRows::SetAside => {
                "DELETE FROM set_aside WHERE id IN (SELECT id FROM set_aside WHERE at < $1 ORDER BY id LIMIT $2)"
            }
            OldRows::Operations => return self.trim_operations(before, most),
        };
        Ok(counted(self.run(sql, &[&before.as_millis(), &limit(most)])?))
    }

    /// Autovacuum frees the space of deleted rows for new ones.
    fn release_pages(&mut self, _: usize) -> Result<bool> {
        Ok(false)
    }
}

impl PgRows<'_> {
    /// The items of the oldest operation first, then the operation.
    fn trim_operations(&mut self, before: Timestamp, most: usize) -> Result<usize> {
        let sql = "SELECT id FROM operations
             WHERE open = 0 AND (ended_at < $1 OR (started_at IS NULL AND created_at < $1)) ORDER BY id LIMIT 1";
        let Some(oldest) = self.ask_one(sql, &[&before.as_millis()])? else { return Ok(0) };
        let operation = number(&oldest, 0)?;
        let items = "DELETE FROM operation_items WHERE operation = $1 AND run IN
             (SELECT run FROM operation_items WHERE operation = $1 ORDER BY run LIMIT $2)";
        let gone = counted(self.run(items, &[&operation, &limit(most)])?);
        if gone < most {
            self.run("DELETE FROM operations WHERE id = $1", &[&operation])?;
        }
        // There may be another one.
        Ok(most)
    }
}
