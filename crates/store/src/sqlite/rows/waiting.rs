//! Scheduled, running and held runs, as services and claims find them: one index seek per step, however many runs lie
//! between.

use crate::shared::records::{FromRow as _, RUN_COLUMN_COUNT, RUN_COLUMNS, read_run};
use std::sync::LazyLock;

use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use rusqlite::{OptionalExtension, Params, Row, params};

use crate::sqlite::reads::columns::{label_or_none, parsed_or_none};
use crate::sqlite::rows::SqliteRows;
use redrive_engine::error::PortResult as Result;
use redrive_engine::lease::scan::DuePosition;
use redrive_engine::model::PayloadKind;
use redrive_engine::ports::rows::{DuePage, DueQuery, DueRun, DueScan, ReadRuns, WaitingRows};
use redrive_engine::runs::document::position;
use redrive_engine::runs::run_row::RunRow;

const NEXT_TENANT: &str = "SELECT tenant, due FROM runs INDEXED BY runs_due
     WHERE queue = ?1 AND tenant > ?2 AND due IS NOT NULL ORDER BY tenant, due LIMIT 1";
const NEXT_WAITING: &str = "SELECT queue, tenant, due FROM runs INDEXED BY runs_due
     WHERE due IS NOT NULL AND (queue, tenant) > (?1, ?2) ORDER BY queue, tenant, due LIMIT 1";

/// The window of a look from the front, in due order.
const WINDOW_AT_FRONT: &str = "SELECT due AS window_due, id AS window_id FROM runs INDEXED BY runs_due
     WHERE queue = ?1 AND tenant = ?2 AND due <= ?3 ORDER BY due, id LIMIT ?6";
/// The window of a look that continues. Runs due at the same moment as the last one are a query of their own: only then does
/// SQLite seek past those already seen.
const WINDOW_AFTER: &str = "SELECT due AS window_due, id AS window_id FROM runs INDEXED BY runs_due
         WHERE queue = ?1 AND tenant = ?2 AND due = ?4 AND id > ?5
     UNION ALL
     SELECT due, id FROM runs INDEXED BY runs_due WHERE queue = ?1 AND tenant = ?2 AND due > ?4 AND due <= ?3
     ORDER BY window_due, window_id LIMIT ?6";

/// The available runs of a window. Rows are produced one by one: none behind the last one is read.
fn due_within(window: &str) -> String {
    format!(
        "SELECT {RUN_COLUMNS}, order_key, agent, idempotency_key FROM ({window}) CROSS JOIN runs ON runs.id = window_id
         WHERE unleasable IS NULL
           AND (?7 IS NULL OR agent IN (SELECT value FROM json_each(?7)))
           AND (order_key IS NULL OR NOT EXISTS (
               SELECT 1 FROM runs busy INDEXED BY runs_order WHERE busy.tenant = ?2
                   AND busy.order_key = runs.order_key AND busy.order_key IS NOT NULL AND busy.wake IS NOT NULL))
         LIMIT ?8"
    )
}

/// The last run of a window that is full.
fn end_of(window: &str) -> String {
    format!("SELECT window_due, window_id FROM ({window}) LIMIT 1 OFFSET ?6 - 1")
}

pub(crate) static DUE_AT_FRONT: LazyLock<String> = LazyLock::new(|| due_within(WINDOW_AT_FRONT));
pub(crate) static DUE_AFTER: LazyLock<String> = LazyLock::new(|| due_within(WINDOW_AFTER));
pub(crate) static END_AT_FRONT: LazyLock<String> = LazyLock::new(|| end_of(WINDOW_AT_FRONT));
pub(crate) static END_AFTER: LazyLock<String> = LazyLock::new(|| end_of(WINDOW_AFTER));

static LEASED_BY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {RUN_COLUMNS}, order_key, agent, idempotency_key FROM runs INDEXED BY runs_request
         WHERE lease_request = ?1 AND lease_request IS NOT NULL AND wake IS NOT NULL ORDER BY id"
    )
});

fn candidate(row: &Row<'_>) -> Result<DueRun> {
    read_run(row, |row| {
        Ok(DueRun {
            order_key: row.get(RUN_COLUMN_COUNT)?,
            agent: label_or_none(row, RUN_COLUMN_COUNT + 1)?,
            idempotency_key: parsed_or_none(row, RUN_COLUMN_COUNT + 2, "idempotency key")?,
            row: RunRow::read(row)?,
            bytes: 0,
        })
    })
}

impl SqliteRows<'_> {
    fn runs_where(&self, condition: &str, values: impl Params) -> Result<ReadRuns<RunRow>> {
        let mut find = self.conn.prepare_cached(&format!("SELECT {RUN_COLUMNS} FROM runs {condition}"))?;
        Ok(ReadRuns::collect(find.query_and_then(values, |row| RunRow::read(row))?)?)
    }

    /// The due runs of one look, and where its window ended.
    fn due_runs_of(&mut self, look: DueScan, call: &DueQuery<'_>) -> Result<(ReadRuns<DueRun>, Option<DuePosition>)> {
        let agents = call.agents.map(|agents| {
            let names: Vec<&str> = agents.iter().map(Label::as_str).collect();
            serde_json::Value::from(names).to_string()
        });
        let DueScan { queue, tenant, after, until } = look;
        let (held, is_front) = (&mut self.held, after == DuePosition::FRONT);
        let find = if is_front {
            held.due_at_front.of(self.conn, &DUE_AT_FRONT)?
        } else {
            held.due_after.of(self.conn, &DUE_AFTER)?
        };
        let until = until.as_millis();
        let values = params![queue, tenant, until, after.due, after.id, call.window, agents, call.most];
        let mut runs = ReadRuns::collect(find.query_and_then(values, candidate)?)?;
        let mut end = None;
        if runs.rows.len() < call.most {
            let find = if is_front {
                held.end_at_front.of(self.conn, &END_AT_FRONT)?
            } else {
                held.end_after.of(self.conn, &END_AFTER)?
            };
            let values = params![queue, tenant, until, after.due, after.id, call.window];
            end = find.query_row(values, |row| Ok(DuePosition { due: row.get(0)?, id: row.get(1)? })).optional()?;
        }
        for candidate in &mut runs.rows {
            candidate.bytes = self.payload_bytes(&candidate.row)?;
        }
        Ok((runs, end))
    }

    /// The size of a payload in an answer: from the run's row, or from the stored length and header.
    fn payload_bytes(&mut self, row: &RunRow) -> Result<usize> {
        if let Some(known) = row.payload_bytes {
            return Ok(known);
        }
        let look =
            "SELECT length(body), substr(body, 1, 5) FROM payloads WHERE run = ?1 AND revision = ?2 AND kind <> ?3";
        let find = self.held.payload_bytes.of(self.conn, look)?;
        let none = position(PayloadKind::ALL, &PayloadKind::None);
        let found = find
            .query_row([row.id, row.run.revision.into(), none], |row| {
                Ok((row.get::<_, usize>(0)?, row.get::<_, Vec<u8>>(1)?))
            })
            .optional()?;
        Ok(found.map_or(0, |(stored, head)| redrive_engine::codec::decoded_len(stored, &head)))
    }
}

impl WaitingRows for SqliteRows<'_> {
    fn next_tenant(&mut self, queues: &[i64], after: i64, _: Timestamp) -> Result<Option<(i64, Timestamp)>> {
        let find = self.held.next_tenant.of(self.conn, NEXT_TENANT)?;
        let mut nearest: Option<(i64, i64)> = None;
        for queue in queues {
            let found = find.query_row([*queue, after], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            nearest = nearest.into_iter().chain(found).min();
        }
        Ok(nearest.map(|(tenant, due)| (tenant, Timestamp::from_millis(due))))
    }

    fn leased_by(&mut self, request: &str) -> Result<ReadRuns<DueRun>> {
        let mut find = self.conn.prepare_cached(&LEASED_BY)?;
        Ok(ReadRuns::collect(find.query_and_then([request], candidate)?)?)
    }

    fn next_unleasable(&mut self, after: i64) -> Result<Option<i64>> {
        let mut find = self.conn.prepare_cached(
            "SELECT queue FROM runs INDEXED BY runs_unleasable WHERE unleasable IS NOT NULL AND queue > ?1
             ORDER BY queue LIMIT 1",
        )?;
        Ok(find.query_row([after], |row| row.get(0)).optional()?)
    }

    fn unleasable(&mut self, queue: i64, most: usize) -> Result<ReadRuns<RunRow>> {
        let condition = "INDEXED BY runs_unleasable WHERE unleasable IS NOT NULL AND queue = ?1 LIMIT ?2";
        self.runs_where(condition, params![queue, most])
    }

    fn due_runs(&mut self, call: DueQuery<'_>) -> Result<ReadRuns<DuePage>> {
        let mut found = ReadRuns::all(Vec::with_capacity(call.scans.len()));
        for look in call.scans {
            let (runs, end) = self.due_runs_of(*look, &call)?;
            found.rows.push(DuePage { runs: runs.rows, end });
            found.corrupt.extend(runs.corrupt);
        }
        Ok(found)
    }

    fn next_waiting(&mut self, at: (i64, i64)) -> Result<Option<((i64, i64), Timestamp)>> {
        let mut find = self.conn.prepare_cached(NEXT_WAITING)?;
        let place = |row: &Row<'_>| Ok(((row.get(0)?, row.get(1)?), Timestamp::from_millis(row.get(2)?)));
        Ok(find.query_row([at.0, at.1], place).optional()?)
    }

    fn overdue(&mut self, queue: i64, tenant: i64, by: Timestamp, most: usize) -> Result<ReadRuns<RunRow>> {
        let condition = "WHERE queue = ?1 AND tenant = ?2 AND due <= ?3 ORDER BY due LIMIT ?4";
        self.runs_where(condition, params![queue, tenant, by.as_millis(), most])
    }

    fn to_wake(&mut self, now: Timestamp, most: usize) -> Result<ReadRuns<RunRow>> {
        self.runs_where("WHERE wake <= ?1 ORDER BY wake LIMIT ?2", params![now.as_millis(), most])
    }

    fn next_holder(&mut self, after: &Label) -> Result<Option<Label>> {
        let mut find = self.conn.prepare_cached(
            "SELECT held_by FROM runs INDEXED BY runs_held WHERE held_by IS NOT NULL AND held_by > ?1
             ORDER BY held_by LIMIT 1",
        )?;
        let found: Option<String> = find.query_row([after.as_str()], |row| row.get(0)).optional()?;
        Ok(found.map(|name| Label::from(name.as_str())))
    }

    fn next_held_tenant(&mut self, holder: &Label, after: i64) -> Result<Option<i64>> {
        let mut find = self.conn.prepare_cached(
            "SELECT tenant FROM runs INDEXED BY runs_held WHERE held_by = ?1 AND held_by IS NOT NULL AND tenant > ?2
             ORDER BY tenant LIMIT 1",
        )?;
        Ok(find.query_row(params![holder.as_str(), after], |row| row.get(0)).optional()?)
    }

    fn held_runs(&mut self, holder: &Label, tenant: i64, most: usize) -> Result<ReadRuns<RunRow>> {
        let condition = "INDEXED BY runs_held
             WHERE held_by = ?1 AND held_by IS NOT NULL AND tenant = ?2 ORDER BY id LIMIT ?3";
        self.runs_where(condition, params![holder.as_str(), tenant, most])
    }

    fn held_count(&mut self, holder: &Label, tenant: Option<i64>, most: u64) -> Result<u64> {
        let of_tenant = if tenant.is_some() { "AND tenant = ?3" } else { "AND ?3 IS NULL" };
        let mut count = self.conn.prepare_cached(&format!(
            "SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_held
             WHERE held_by = ?1 AND held_by IS NOT NULL {of_tenant} LIMIT ?2)"
        ))?;
        let n: i64 = count.query_row(params![holder.as_str(), most.cast_signed(), tenant], |row| row.get(0))?;
        Ok(n.cast_unsigned())
    }

    fn running(&mut self, tenant: i64) -> Result<Option<i64>> {
        let mut find =
            self.conn.prepare_cached("SELECT coalesce(sum(n), 0) FROM counts WHERE state = ?1 AND tenant = ?2")?;
        let running = position(StateName::ALL, &StateName::Running);
        Ok(Some(find.query_row(params![running, tenant], |row| row.get(0))?))
    }

    fn set_run_aside(&mut self, run: i64, why: &str, now: Timestamp) -> Result<()> {
        let mut keep = self.conn.prepare_cached(
            "INSERT INTO runs_set_aside (run, at, why, due, wake, held_by, unleasable, updated_at)
             SELECT id, ?2, ?3, due, wake, held_by, unleasable, updated_at FROM runs WHERE id = ?1
             ON CONFLICT DO UPDATE SET at = excluded.at, why = excluded.why, due = coalesce(excluded.due, due),
                 wake = coalesce(excluded.wake, wake), held_by = coalesce(excluded.held_by, held_by),
                 unleasable = coalesce(excluded.unleasable, unleasable), updated_at = excluded.updated_at",
        )?;
        keep.execute(params![run, now.as_millis(), why])?;
        let mut take_out = self.conn.prepare_cached(
            "UPDATE runs SET due = NULL, wake = NULL, held_by = NULL, unleasable = NULL WHERE id = ?1",
        )?;
        take_out.execute([run])?;
        Ok(())
    }

    fn put_runs_back(&mut self, before: Timestamp, most: usize) -> Result<Vec<i64>> {
        let mut find =
            self.conn.prepare_cached("SELECT run FROM runs_set_aside WHERE at <= ?1 ORDER BY at LIMIT ?2")?;
        let found = find.query_map(params![before.as_millis(), most], |row| row.get(0))?;
        let runs = found.collect::<Result<Vec<i64>, _>>()?;
        let mut put_back = self.conn.prepare_cached(
            "UPDATE runs SET due = kept.due, wake = kept.wake, held_by = kept.held_by, unleasable = kept.unleasable
             FROM runs_set_aside AS kept WHERE runs.id = ?1 AND kept.run = ?1 AND runs.updated_at = kept.updated_at
                 AND runs.due IS NULL AND runs.wake IS NULL AND runs.held_by IS NULL",
        )?;
        let mut forget = self.conn.prepare_cached("DELETE FROM runs_set_aside WHERE run = ?1")?;
        for run in &runs {
            put_back.execute([run])?;
            forget.execute([run])?;
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::policy::Policies;
    use redrive_core::wire::Versions;
    use rusqlite::StatementStatus;

    use super::*;
    use crate::sqlite::rows::WriterCache;
    use crate::sqlite::tests::fixture::{Fixture, NOW_MS, Seed, now};
    use redrive_engine::clock::SeededDice;
    use redrive_engine::counters::CounterDeltas;
    use redrive_engine::lease::claim::{ClaimProgress, claim_runs};
    use redrive_engine::model::{LeaseCall, TenantScope};
    use redrive_engine::ports::backend::Unpaced;
    use redrive_engine::tx::{Tx, TxCache};

    #[test]
    fn payload_size_comes_from_the_row_or_the_payload() {
        let due = |life| Seed { state: StateName::Scheduled, life, ..Seed::default() };
        let fixture = Fixture::with([due("{}"), due(r#"{"pb":7}"#)]);
        for run in [1, 2] {
            fixture.payload(run, 1, PayloadKind::Json, &[b'x'; 600]);
        }
        let mut memory = WriterCache::default();
        let at = DueScan { queue: 1, tenant: 1, after: DuePosition::FRONT, until: now() };
        let call = DueQuery { scans: &[at], agents: None, most: 10, window: 10 };
        let found = SqliteRows::new(&fixture.conn, &mut memory).due_runs(call).unwrap().rows;
        let mut bytes: Vec<(i64, usize)> = found[0].runs.iter().map(|run| (run.row.id, run.bytes)).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, [(1, 600), (2, 7)]);
    }

    /// Leases due runs of all queues and tenants, and says how many.
    fn lease_of_all(fixture: &Fixture, max: u32) -> usize {
        let (mut memory, mut known) = (WriterCache::default(), TxCache::default());
        let mut rows = SqliteRows::new(&fixture.conn, &mut memory);
        let (dice, policies) = (SeededDice::new(7), Policies::default());
        let mut batch = Tx {
            rows: &mut rows,
            now: now(),
            dice: &dice,
            policies: &policies,
            known: &mut known,
            counters: CounterDeltas::default(),
            pace: &Unpaced,
            wake: false,
        };
        let call = LeaseCall {
            scope: TenantScope::All,
            queues: Vec::new(),
            agents: None,
            max,
            lease_ms: None,
            worker: None,
            versions: Versions::new(),
            payload_max_bytes: 1 << 20,
            by: None,
            request_id: None,
        };
        claim_runs(&mut batch, &call, &ClaimProgress::new(&call)).unwrap().granted.len()
    }

    fn status_of(fixture: &Fixture, statements: &[&str], status: StatementStatus) -> i32 {
        statements.iter().map(|sql| fixture.conn.prepare_cached(sql).unwrap().get_status(status)).sum()
    }

    /// Runs leased by a call, and the statements that it ran to find them.
    fn statements_of_a_spanning_call(queue_names: i64) -> (usize, i32) {
        let fixture = Fixture::with([1, 2, 3].map(|_| Seed { state: StateName::Scheduled, ..Seed::default() }));
        for n in 0..queue_names {
            let insert = "INSERT INTO queues (id, name, settings, created_at) VALUES (?1, 'q' || ?1, '{}', 0)";
            fixture.conn.execute(insert, [100 + n]).unwrap();
        }
        let leased = lease_of_all(&fixture, 2);
        (leased, status_of(&fixture, &[NEXT_TENANT, NEXT_WAITING, &DUE_AT_FRONT], StatementStatus::Run))
    }

    #[test]
    fn a_spanning_lease_does_not_pay_for_queue_names() {
        let (few, many) = (statements_of_a_spanning_call(100), statements_of_a_spanning_call(2_000));
        assert_eq!(few, many);
        assert!(many.0 == 2 && many.1 <= 8, "{many:?}");
    }

    /// Steps of SQLite's machine that a call for 60 runs takes to read due runs of 600 queues.
    fn steps_over_queues_with(runs_each: i64) -> i32 {
        let due = |n: i64| Seed {
            queue: Box::leak(format!("q{}", n % 600).into_boxed_str()),
            state: StateName::Scheduled,
            due: NOW_MS - 600 * runs_each + n,
            ..Seed::default()
        };
        let fixture = Fixture::with((0..600 * runs_each).map(due));
        assert_eq!(lease_of_all(&fixture, 60), 60);
        status_of(&fixture, &[&DUE_AT_FRONT, &DUE_AFTER], StatementStatus::VmStep)
    }

    #[test]
    fn a_lease_over_many_queues_reads_few_runs_of_each() {
        let (one, eight) = (steps_over_queues_with(1), steps_over_queues_with(8));
        assert!(eight < 2 * one, "{one} steps with one run in each queue, {eight} with eight");
    }
}
