//! ScheduleCache, running and held runs, as services and claims find them. Claims skip runs that another claim has locked, and
//! start at the due watermark.

use crate::numbers::{counted, limit};
use crate::shared::records::read_run;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::LazyLock;

use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use tokio_postgres::Row;

use crate::postgres::commit::due_watermarks::TENANTS_MAX;
use crate::postgres::commit::unit_of_work::{COLUMN_COUNT, COLUMNS, UnitOfWork};
use crate::postgres::commit::writer_connection::Values;
use crate::postgres::reads::columns::{bytes, label, number, parsed_or_none, text};
use crate::postgres::rows::PgRows;
use redrive_engine::Map;
use redrive_engine::codec::{HEAD_BYTES, decoded_len};
use redrive_engine::error::PortResult as Result;
use redrive_engine::lease::scan::DuePosition;
use redrive_engine::model::PayloadKind;
use redrive_engine::ports::rows::{DuePage, DueQuery, DueRun, DueScan, ReadRuns, WaitingRows};
use redrive_engine::runs::document::position;
use redrive_engine::runs::run_row::RunRow;
use redrive_engine::runs::set_aside::{CorruptRun, unless_corrupt};

/// The tenants after one that have scheduled runs in a queue, each with its oldest: one index lookup each.
const TENANTS: &str = "SELECT q_queue, tenant, due FROM unnest($1::bigint[], $2::bigint[]) AS q(q_queue, q_mark)
     CROSS JOIN LATERAL (
         WITH RECURSIVE found AS (
             (SELECT tenant, due FROM runs WHERE queue = q_queue AND tenant > $3 AND due >= q_mark
              ORDER BY tenant, due LIMIT 1)
             UNION ALL
             SELECT next.tenant, next.due FROM found CROSS JOIN LATERAL (
                 SELECT runs.tenant, runs.due FROM runs
                 WHERE queue = q_queue AND runs.tenant > found.tenant AND runs.due >= q_mark
                 ORDER BY runs.tenant, runs.due LIMIT 1) AS next
         ) SELECT tenant, due FROM found LIMIT $4) AS t";

/// Every queue and tenant with scheduled runs: one index lookup each.
const WAITING: &str = "WITH RECURSIVE found AS (
         (SELECT queue, tenant, due FROM runs WHERE due IS NOT NULL ORDER BY queue, tenant, due LIMIT 1)
         UNION ALL
         SELECT next.queue, next.tenant, next.due FROM found CROSS JOIN LATERAL (
             SELECT runs.queue, runs.tenant, runs.due FROM runs
             WHERE runs.due IS NOT NULL AND (runs.queue, runs.tenant) > (found.queue, found.tenant)
             ORDER BY runs.queue, runs.tenant, runs.due LIMIT 1) AS next
     ) SELECT queue, tenant, due FROM found";

/// Up to `$7` due runs of each queue and tenant, out of a window of `$8`. Only runs that are returned are locked. The last row
/// of a full window is always returned, empty if its run is not available, to say where the window ended. Runs are joined
/// by id alone: with more conditions the planner took any index that begins with the tenant while the table was new.
static DUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {columns}, idempotency_key, q_queue, q_tenant, w_due, w_id, w_nth
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
             AS q(q_queue, q_tenant, q_due, q_id, q_until)
         CROSS JOIN LATERAL (
             SELECT r.*, w_due, w_id, w_nth FROM (
                 SELECT due AS w_due, id AS w_id, row_number() OVER (ORDER BY due, id) AS w_nth FROM (
                     SELECT due, id FROM runs
                     WHERE queue = q_queue AND tenant = q_tenant AND (due, id) > (q_due, q_id) AND due <= q_until
                     ORDER BY due, id LIMIT $8) AS due_runs) AS w
             LEFT JOIN LATERAL (
                 SELECT {columns}, idempotency_key FROM runs
                 WHERE id = w_id AND due IS NOT DISTINCT FROM w_due AND queue IS NOT DISTINCT FROM q_queue
                     AND unleasable IS NULL AND ($6::bytea[] IS NULL OR agent = ANY($6))
                     AND (order_key IS NULL OR NOT EXISTS (
                         SELECT 1 FROM runs busy WHERE busy.tenant = q_tenant AND busy.order_key = runs.order_key
                             AND busy.order_key IS NOT NULL AND busy.wake IS NOT NULL))
                 LIMIT 1 FOR UPDATE SKIP LOCKED) AS r ON true
             WHERE r.id IS NOT NULL OR w_nth = $8
             LIMIT $7) AS found",
        columns = *COLUMNS
    )
});
/// Payload sizes of runs whose rows do not have them.
static PAYLOAD_BYTES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT q_run, payload.* FROM unnest($1::bigint[], $2::bigint[]) AS q(q_run, q_revision) CROSS JOIN LATERAL (
             SELECT length(body)::bigint, substr(body, 1, {HEAD_BYTES}) FROM payloads
             WHERE run = q_run AND revision = q_revision AND kind <> $3 LIMIT 1) AS payload"
    )
});

static LEASED_BY: LazyLock<String> = LazyLock::new(|| {
    let columns = &*COLUMNS;
    format!(
        "SELECT {columns}, idempotency_key FROM runs
         WHERE lease_request = $1 AND lease_request IS NOT NULL AND wake IS NOT NULL ORDER BY tenant, run_id FOR UPDATE"
    )
});
static UNLEASABLE: LazyLock<String> = LazyLock::new(|| {
    let columns = &*COLUMNS;
    format!("SELECT {columns} FROM runs WHERE unleasable IS NOT NULL AND queue = $1 LIMIT $2 FOR UPDATE SKIP LOCKED")
});
static OVERDUE: LazyLock<String> = LazyLock::new(|| {
    let columns = &*COLUMNS;
    format!(
        "SELECT {columns} FROM runs WHERE queue = $1 AND tenant = $2 AND due <= $3
         ORDER BY due LIMIT $4 FOR UPDATE SKIP LOCKED"
    )
});
static TO_WAKE: LazyLock<String> = LazyLock::new(|| {
    let columns = &*COLUMNS;
    format!("SELECT {columns} FROM runs WHERE wake <= $1 ORDER BY wake LIMIT $2 FOR UPDATE SKIP LOCKED")
});
static HELD: LazyLock<String> = LazyLock::new(|| {
    let columns = &*COLUMNS;
    format!(
        "SELECT {columns} FROM runs WHERE held_by = $1 AND held_by IS NOT NULL AND tenant = $2
         ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED"
    )
});

/// What the claims of a batch have read of who has scheduled runs.
#[derive(Default)]
pub(crate) struct ScheduleCache {
    tenants: Option<ScheduledTenants>,
    /// Every queue and tenant that has scheduled runs, with the oldest due time.
    waiting: Option<BTreeMap<(i64, i64), i64>>,
}

/// The tenants after a place that have scheduled runs in some queues.
struct ScheduledTenants {
    queues: Vec<i64>,
    after: i64,
    /// In order, each with its oldest due time.
    found: Vec<(i64, i64)>,
    /// Which of them has scheduled runs in which queue, and since when the oldest is due.
    places: Map<(i64, i64), i64>,
    /// No tenant follows the last one.
    all: bool,
}

impl ScheduledTenants {
    fn reaches(&self, after: i64) -> bool {
        self.after <= after && (self.all || self.found.last().is_some_and(|(last, _)| *last > after))
    }

    /// Nothing was due when the tenants were read; what has fallen due since is found by the next claim.
    fn has_nothing(&self, (queue, tenant): (i64, i64), now: Timestamp) -> bool {
        let looked = self.queues.contains(&queue) && self.found.binary_search_by_key(&tenant, |(own, _)| *own).is_ok();
        looked && self.places.get(&(queue, tenant)).is_none_or(|due| *due > now.as_millis())
    }
}

/// A row of [`DUE`].
struct WindowRow {
    /// Queue and tenant.
    of: (i64, i64),
    run: DuePosition,
    /// Position in the window, from 1.
    nth: i64,
    is_available: bool,
}

impl WindowRow {
    fn read(row: &Row) -> Result<Self> {
        let at = |n| number(row, COLUMN_COUNT + 1 + n);
        Ok(Self {
            of: (at(0)?, at(1)?),
            run: DuePosition { due: at(2)?, id: at(3)? },
            nth: at(4)?,
            is_available: row.try_get::<_, Option<i64>>(0)?.is_some(),
        })
    }
}

/// What a look has found, and how far it came.
#[derive(Default)]
struct LookResult {
    candidates: Vec<DueRun>,
    /// Runs that it got, readable or not.
    count: i64,
    /// The last run that it came to.
    last: Option<DuePosition>,
    /// That was the last run of its window.
    window_is_full: bool,
}

/// The tenants that were read of one queue.
struct QueueTenants {
    count: usize,
    last: i64,
    oldest: i64,
}

/// A due run; it joins the unit of work.
fn candidate(unit: &mut UnitOfWork, row: &Row) -> Result<DueRun> {
    let idempotency_key = read_run(row, |row| parsed_or_none(row, COLUMN_COUNT, "idempotency key"))?;
    let kept = unit.take_in(row)?;
    Ok(DueRun {
        row: kept.row.clone(),
        order_key: kept.own.order_key.as_ref().map(|key| key.as_str().to_owned()),
        agent: kept.own.agent.clone(),
        idempotency_key,
        bytes: kept.row.payload_bytes.unwrap_or(0),
    })
}

impl PgRows<'_> {
    fn runs_where(&mut self, sql: &str, values: Values<'_>) -> Result<ReadRuns<RunRow>> {
        let found = self.ask_after(sql, values)?;
        Ok(ReadRuns::collect(found.iter().map(|row| self.unit.read(row)))?)
    }

    /// The tenants after `after`; read from the first on, since a round of claims wraps around.
    fn tenants_after(&mut self, queues: &[i64], after: i64, now: Timestamp) -> Result<&[(i64, i64)]> {
        if self.scheduled.tenants.as_ref().is_none_or(|known| known.queues != queues) {
            self.scheduled.tenants = Some(self.read_tenants(queues, i64::MIN, now)?);
        }
        if self.scheduled.tenants.as_ref().is_none_or(|known| !known.reaches(after)) {
            self.scheduled.tenants = Some(self.read_tenants(queues, after, now)?);
        }
        let found = self.scheduled.tenants.as_ref().map_or(&[][..], |known| known.found.as_slice());
        let from = found.partition_point(|(tenant, _)| *tenant <= after);
        Ok(found.get(from..).unwrap_or_default())
    }

    fn read_tenants(&mut self, queues: &[i64], after: i64, now: Timestamp) -> Result<ScheduledTenants> {
        let watermarks = self.watermarks.of(queues, now);
        let rows = self.ask_after(TENANTS, &[&queues, &watermarks.at, &after, &limit(TENANTS_MAX)])?;
        let mut oldest: BTreeMap<i64, i64> = BTreeMap::new();
        let mut of_queue: Map<i64, QueueTenants> = Map::default();
        let mut places = Map::default();
        for row in &rows {
            let (queue, tenant, due) = (number(row, 0)?, number(row, 1)?, number(row, 2)?);
            let seen = oldest.entry(tenant).or_insert(due);
            *seen = due.min(*seen);
            places.insert((queue, tenant), due);
            let read = of_queue.entry(queue).or_insert(QueueTenants { count: 0, last: tenant, oldest: due });
            read.count += 1;
            (read.last, read.oldest) = (read.last.max(tenant), read.oldest.min(due));
        }
        // A queue that has more tenants than were read is known only up to the last of them.
        let cut = of_queue.values().filter(|read| read.count >= TENANTS_MAX).map(|read| read.last).min();
        if after == i64::MIN && cut.is_none() {
            let oldest = queues.iter().map(|queue| (*queue, of_queue.get(queue).map(|read| read.oldest)));
            self.watermarks.advance(oldest.collect(), watermarks.full_scan, now);
        }
        let found = oldest.into_iter().filter(|(tenant, _)| cut.is_none_or(|cut| *tenant <= cut)).collect();
        Ok(ScheduledTenants { queues: queues.to_vec(), after, found, places, all: cut.is_none() })
    }

    /// The result of each look, in their order.
    fn look_for_due(&mut self, call: &DueQuery<'_>, corrupt: &mut Vec<CorruptRun>) -> Result<Vec<LookResult>> {
        let mut results: Vec<LookResult> = call.scans.iter().map(|_| LookResult::default()).collect();
        let nothing_due = |look: &DueScan| {
            self.scheduled.tenants.as_ref().is_some_and(|tenants| tenants.has_nothing(look.place(), look.until))
        };
        let (mut at, mut queues, mut tenants) = (Map::default(), Vec::new(), Vec::new());
        let (mut dues, mut ids, mut untils) = (Vec::new(), Vec::new(), Vec::new());
        for (n, look) in call.scans.iter().enumerate().filter(|(_, look)| !nothing_due(look)) {
            at.insert(look.place(), n);
            let watermark = DuePosition { due: self.watermarks.at(look.queue, look.until), id: i64::MIN };
            let after = look.after.max(watermark);
            queues.push(look.queue);
            tenants.push(look.tenant);
            dues.push(after.due);
            ids.push(after.id);
            untils.push(look.until.as_millis());
        }
        if at.is_empty() {
            return Ok(results);
        }
        let agents: Option<Vec<&[u8]>> =
            call.agents.map(|agents| agents.iter().map(|agent| agent.as_str().as_bytes()).collect());
        let (most, window) = (limit(call.most), limit(call.window));
        let values: Values<'_> = &[&queues, &tenants, &dues, &ids, &untils, &agents, &most, &window];
        for row in self.ask_after(&DUE, values)? {
            let window_row = WindowRow::read(&row)?;
            let Some(result) = at.get(&window_row.of).and_then(|n| results.get_mut(*n)) else { continue };
            (result.last, result.window_is_full) = (Some(window_row.run), window_row.nth >= window);
            if !window_row.is_available {
                continue;
            }
            result.count += 1;
            match unless_corrupt(candidate(&mut self.unit, &row))? {
                Ok(candidate) => result.candidates.push(candidate),
                Err(unreadable) => corrupt.push(unreadable),
            }
        }
        Ok(results)
    }

    /// Looks up payload sizes that the runs' rows do not have.
    fn look_up_bytes<'c>(&mut self, candidates: impl Iterator<Item = &'c mut DueRun>) -> Result<()> {
        let mut unsaid: Vec<&mut DueRun> =
            candidates.filter(|candidate| candidate.row.payload_bytes.is_none()).collect();
        if unsaid.is_empty() {
            return Ok(());
        }
        let runs: Vec<i64> = unsaid.iter().map(|candidate| candidate.row.id).collect();
        let revisions: Vec<i64> = unsaid.iter().map(|candidate| candidate.row.run.revision.into()).collect();
        let none = position(PayloadKind::ALL, &PayloadKind::None);
        let mut found: Map<i64, usize> = Map::default();
        for row in self.ask(&PAYLOAD_BYTES, &[&runs, &revisions, &none])? {
            let stored = counted(number(&row, 1)?);
            found.insert(number(&row, 0)?, decoded_len(stored, bytes(&row, 2)?));
        }
        for candidate in &mut unsaid {
            candidate.bytes = found.get(&candidate.row.id).copied().unwrap_or(0);
        }
        Ok(())
    }

    /// Keeps runs with an order key only if no other claim is leasing, or has just leased, a run of that key.
    fn one_at_a_time(&mut self, tenant: i64, mut candidates: Vec<DueRun>) -> Result<Vec<DueRun>> {
        let mut keys: Vec<String> = candidates.iter().filter_map(|candidate| candidate.order_key.clone()).collect();
        if keys.is_empty() {
            return Ok(candidates);
        }
        keys.sort_unstable();
        keys.dedup();
        let sql = "SELECT key FROM unnest($2::text[]) AS key
             WHERE pg_try_advisory_xact_lock(hashtextextended(key, $1))";
        let ours = self.ask(sql, &[&tenant, &keys])?;
        let ours = ours.iter().map(|row| text(row, 0).map(str::to_owned)).collect::<Result<Vec<_>>>()?;
        // Read again under the lock: its last holder may have committed meanwhile.
        let sql = "SELECT order_key FROM runs WHERE tenant = $1 AND order_key = ANY($2) AND order_key IS NOT NULL
             AND wake IS NOT NULL";
        let busy = self.ask(sql, &[&tenant, &ours])?;
        let busy = busy.iter().map(|row| text(row, 0).map(str::to_owned)).collect::<Result<Vec<_>>>()?;
        candidates.retain(|candidate| {
            candidate.order_key.as_ref().is_none_or(|key| ours.contains(key) && !busy.contains(key))
        });
        Ok(candidates)
    }
}

impl WaitingRows for PgRows<'_> {
    fn next_tenant(&mut self, queues: &[i64], after: i64, now: Timestamp) -> Result<Option<(i64, Timestamp)>> {
        let next = self.tenants_after(queues, after, now)?.first();
        Ok(next.map(|(tenant, due)| (*tenant, Timestamp::from_millis(*due))))
    }

    fn leased_by(&mut self, request: &str) -> Result<ReadRuns<DueRun>> {
        // Waits for the same call at another replica: its leases are the answer.
        self.ask("SELECT pg_advisory_xact_lock(hashtextextended($1, 26))", &[&request])?;
        let found = self.ask_after(&LEASED_BY, &[&request])?;
        Ok(ReadRuns::collect(found.iter().map(|row| candidate(&mut self.unit, row)))?)
    }

    fn next_unleasable(&mut self, after: i64) -> Result<Option<i64>> {
        let sql = "SELECT queue FROM runs WHERE unleasable IS NOT NULL AND queue > $1 ORDER BY queue LIMIT 1";
        self.ask_after(sql, &[&after])?.first().map(|row| number(row, 0)).transpose()
    }

    fn unleasable(&mut self, queue: i64, most: usize) -> Result<ReadRuns<RunRow>> {
        self.runs_where(&UNLEASABLE, &[&queue, &limit(most)])
    }

    fn due_runs(&mut self, call: DueQuery<'_>) -> Result<ReadRuns<DuePage>> {
        let mut found = ReadRuns::all(Vec::with_capacity(call.scans.len()));
        let mut results = self.look_for_due(&call, &mut found.corrupt)?;
        self.look_up_bytes(results.iter_mut().flat_map(|result| &mut result.candidates))?;
        for (look, result) in call.scans.iter().zip(results) {
            let LookResult { candidates, count, last, window_is_full } = result;
            let end = last.filter(|_| count >= limit(call.most) || window_is_full);
            found.rows.push(DuePage { runs: self.one_at_a_time(look.tenant, candidates)?, end });
        }
        Ok(found)
    }

    fn next_waiting(&mut self, at: (i64, i64)) -> Result<Option<((i64, i64), Timestamp)>> {
        if self.scheduled.waiting.is_none() {
            let mut waiting = BTreeMap::new();
            for row in self.ask_after(WAITING, &[])? {
                waiting.insert((number(&row, 0)?, number(&row, 1)?), number(&row, 2)?);
            }
            self.scheduled.waiting = Some(waiting);
        }
        let after = (Bound::Excluded(at), Bound::Unbounded);
        let next = self.scheduled.waiting.as_ref().and_then(|waiting| waiting.range(after).next());
        Ok(next.map(|(place, due)| (*place, Timestamp::from_millis(*due))))
    }

    fn overdue(&mut self, queue: i64, tenant: i64, by: Timestamp, most: usize) -> Result<ReadRuns<RunRow>> {
        let oldest = self.scheduled.waiting.as_ref().and_then(|waiting| waiting.get(&(queue, tenant)));
        if oldest.is_some_and(|oldest| *oldest > by.as_millis()) {
            return Ok(ReadRuns::all(Vec::new()));
        }
        self.runs_where(&OVERDUE, &[&queue, &tenant, &by.as_millis(), &limit(most)])
    }

    fn to_wake(&mut self, now: Timestamp, most: usize) -> Result<ReadRuns<RunRow>> {
        self.runs_where(&TO_WAKE, &[&now.as_millis(), &limit(most)])
    }

    fn next_holder(&mut self, after: &Label) -> Result<Option<Label>> {
        let sql = "SELECT held_by FROM runs WHERE held_by IS NOT NULL AND held_by > $1 ORDER BY held_by LIMIT 1";
        let found = self.ask_after(sql, &[&after.as_str().as_bytes()])?;
        found.first().map(|row| label(row, 0)).transpose()
    }

    fn next_held_tenant(&mut self, holder: &Label, after: i64) -> Result<Option<i64>> {
        let sql = "SELECT tenant FROM runs WHERE held_by = $1 AND held_by IS NOT NULL AND tenant > $2
             ORDER BY tenant LIMIT 1";
        let found = self.ask_after(sql, &[&holder.as_str().as_bytes(), &after])?;
        found.first().map(|row| number(row, 0)).transpose()
    }

    fn held_runs(&mut self, holder: &Label, tenant: i64, most: usize) -> Result<ReadRuns<RunRow>> {
        self.runs_where(&HELD, &[&holder.as_str().as_bytes(), &tenant, &limit(most)])
    }

    fn held_count(&mut self, holder: &Label, tenant: Option<i64>, most: u64) -> Result<u64> {
        let of_tenant = if tenant.is_some() { "AND tenant = $3" } else { "AND $3::bigint IS NULL" };
        let sql = format!(
            "SELECT count(*) FROM (
                 SELECT 1 FROM runs WHERE held_by = $1 AND held_by IS NOT NULL {of_tenant} LIMIT $2) AS held"
        );
        let found = self.ask_after(&sql, &[&holder.as_str().as_bytes(), &most.cast_signed(), &tenant])?;
        found.first().map_or(Ok(0), |row| number(row, 0).map(i64::cast_unsigned))
    }

    fn running(&mut self, tenant: i64) -> Result<Option<i64>> {
        // Held until the commit: two claims that count at once would both use the last slot.
        let sql = "SELECT pg_try_advisory_xact_lock(hashtextextended('max_running', $1))";
        let alone = self.ask_one(sql, &[&tenant])?.map_or(Ok(false), |row| row.try_get(0))?;
        if !alone {
            return Ok(None);
        }
        let sql = "SELECT (coalesce((SELECT sum(n) FROM counts WHERE state = $1 AND tenant = $2), 0)
             + coalesce((SELECT sum(n) FROM counter_deltas WHERE state = $1 AND tenant = $2), 0))::bigint";
        let running = position(StateName::ALL, &StateName::Running);
        self.ask_one(sql, &[&running, &tenant])?.map(|row| number(&row, 0)).transpose()
    }

    fn set_run_aside(&mut self, run: i64, why: &str, now: Timestamp) -> Result<()> {
        let keep = "INSERT INTO runs_set_aside AS kept (run, at, why, due, wake, held_by, unleasable, updated_at)
             SELECT id, $2, $3, due, wake, held_by, unleasable, updated_at FROM runs WHERE id = $1
             ON CONFLICT (run) DO UPDATE SET at = excluded.at, why = excluded.why,
                 due = coalesce(excluded.due, kept.due), wake = coalesce(excluded.wake, kept.wake),
                 held_by = coalesce(excluded.held_by, kept.held_by),
                 unleasable = coalesce(excluded.unleasable, kept.unleasable), updated_at = excluded.updated_at";
        self.run(keep, &[&run, &now.as_millis(), &why.replace('\0', "")])?;
        let take_out = "UPDATE runs SET due = NULL, wake = NULL, held_by = NULL, unleasable = NULL WHERE id = $1";
        self.run(take_out, &[&run])?;
        // The unit of work has the old row.
        if let Some(kept) = self.unit.runs.remove(&run) {
            self.unit.named.remove(&(kept.row.tenant, kept.row.run_id));
        }
        Ok(())
    }

    fn put_runs_back(&mut self, before: Timestamp, most: usize) -> Result<Vec<i64>> {
        let find = "SELECT run FROM runs_set_aside WHERE at <= $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED";
        let found = self.ask(find, &[&before.as_millis(), &limit(most)])?;
        let runs = found.iter().map(|row| number(row, 0)).collect::<Result<Vec<_>>>()?;
        if !runs.is_empty() {
            let put_back = "UPDATE runs SET due = kept.due, wake = kept.wake, held_by = kept.held_by,
                     unleasable = kept.unleasable
                 FROM runs_set_aside AS kept
                 WHERE runs.id = kept.run AND kept.run = ANY($1) AND runs.updated_at = kept.updated_at
                     AND runs.due IS NULL AND runs.wake IS NULL AND runs.held_by IS NULL";
            self.run(put_back, &[&runs])?;
            self.run("DELETE FROM runs_set_aside WHERE run = ANY($1)", &[&runs])?;
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use private_postgres::Database;
    use redrive_core::policy::Policies;

    use super::*;
    use crate::postgres::store::{Options, PgStore, WRITER_CONNECTIONS};
    use redrive_engine::clock::SeededDice;
    use redrive_engine::lease::claim::{ClaimProgress, claim_runs};
    use redrive_engine::model::{LeaseCall, TenantScope};
    use redrive_engine::ports::backend::Route;
    use redrive_engine::store::Store as _;

    /// How many commands a call took that passed over so many runs, and how many entries of the index of due runs it read.
    async fn passed(runs: usize) -> (usize, i64) {
        let database = Database::fresh().unwrap();
        let (url, dice) = (database.url().to_owned(), Arc::new(SeededDice::new(7)));
        let options =
            Options { url, clock: None, dice, policies: Policies::default(), writer_connections: WRITER_CONNECTIONS };
        let store = PgStore::open(options).await.unwrap();
        database
            .sql(&format!(
                "INSERT INTO tenants (id, name) VALUES (1, 'acme');
                 INSERT INTO queues (id, name, settings, created_at) VALUES (1, 'default', '{{}}', 0);
                 INSERT INTO runs (id, tenant, queue, key_hash, run_id, state, detail, due, attempt, revision, reason,
                     category, severity, received_at, updated_at, environment, replays, life, agent)
                 SELECT n, 1, 1, n, 'r' || n, 0, 0, 1000, 1, 1, '', -1, 1, 0, 0, 'production', 0, '{{}}',
                     CASE WHEN n > {runs} THEN 'mine' ELSE 'other' END::bytea
                 FROM generate_series(1, {runs} + 1) AS n"
            ))
            .unwrap();
        let call = Arc::new(LeaseCall {
            scope: TenantScope::All,
            queues: vec!["default".parse().unwrap()],
            agents: Some(vec![Label::from("mine")]),
            max: 1,
            lease_ms: None,
            worker: None,
            versions: Default::default(),
            payload_max_bytes: 1 << 20,
            by: None,
            request_id: None,
        });
        let (mut commands, mut rest, mut granted) = (0, Some(ClaimProgress::new(&call)), Vec::new());
        while let Some(before) = rest {
            let call = call.clone();
            let command = move |batch: &mut redrive_engine::tx::Tx<'_>| claim_runs(batch, &call, &before);
            let dealt = store.committer.commit(Route::claims(&TenantScope::All), command).await.unwrap();
            (commands, rest) = (commands + 1, dealt.next);
            granted.extend(dealt.granted.into_iter().map(|granted| granted.run_id.to_string()));
        }
        assert_eq!(granted, [format!("r{}", runs + 1)]);
        store.close().await;
        let ours = "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'redrive'";
        let mut looks = 0;
        while database.sql(ours).unwrap() != "0" {
            looks += 1;
            assert!(looks < 200, "a session of a closed store stays");
        }
        let read = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'runs_due'";
        (commands, database.sql(read).unwrap().parse().unwrap())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_command_pays_for_the_whole_wall() {
        let (commands, read) = passed(5_000).await;
        assert!((9..20).contains(&commands), "{commands} commands");
        assert!(read < 2 * 5_000, "each run is passed over once: {read} entries");
    }
}
