//! Runs: locked when they are read, changed in memory until the batch is written.

use crate::shared::records::{FromRow as _, read_run};
use std::sync::LazyLock;

use redrive_core::ids::{OrderKey, RunId};
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::Severity;

use crate::postgres::commit::unit_of_work::{COLUMNS, LoadedRun, NewColumns, PendingPayload, UnitOfWork};
use crate::postgres::reads::columns::{number, parsed};
use crate::postgres::rows::PgRows;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{NewRun, PayloadKind};
use redrive_engine::ports::rows::{ChangedColumns, ReadRuns, RunAttributes, RunRows};
use redrive_engine::runs::document::position;
use redrive_engine::runs::run_row::RunRow;
use redrive_engine::runs::set_aside::unless_corrupt;

static BY_NAME: LazyLock<String> = LazyLock::new(|| {
    let columns = &*COLUMNS;
    format!(
        "SELECT {columns} FROM runs WHERE tenant = $1 AND run_id >= $2 AND run_id <= $2 ORDER BY run_id LIMIT 1 FOR UPDATE"
    )
});
static BY_NUMBER: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM runs WHERE id = $1 FOR UPDATE", *COLUMNS));
static UNLOCKED: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM runs WHERE id = $1", crate::shared::records::RUN_COLUMNS));
static MANY_UNLOCKED: LazyLock<String> = LazyLock::new(|| format!("SELECT {} FROM runs WHERE id = ANY($1)", *COLUMNS));
/// Locked in the order of all batches, so that no two deadlock.
static BY_NUMBERS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM runs WHERE id = ANY($1) ORDER BY tenant, run_id FOR UPDATE", *COLUMNS));

/// The sequence is looked up once per statement: looked up for every number, it cost more than the rest of a report.
pub(crate) const NEXT_NUMBERS: &str =
    "SELECT nextval((SELECT pg_get_serial_sequence('runs', 'id')::regclass)) FROM generate_series(1, $1::bigint)";

impl PgRows<'_> {
    /// Reads and locks runs in one statement.
    pub(crate) fn lock_runs(&mut self, runs: &[i64]) -> Result<()> {
        let missing: Vec<i64> = runs.iter().copied().filter(|run| !self.unit.runs.contains_key(run)).collect();
        if !missing.is_empty() {
            for row in self.ask(self.locking(&BY_NUMBERS), &[&missing])? {
                // A run that can't be read fails when a command asks for it.
                let _corrupt = unless_corrupt(self.unit.take_in(&row))?;
            }
        }
        Ok(())
    }

    /// Reads without locking: the transaction that holds the run may be waiting for this one.
    fn read_unlocked(&mut self, run: i64) -> Result<Option<RunRow>> {
        if let Some(known) = self.unit.row(run) {
            return Ok(Some(known));
        }
        self.ask_one(&UNLOCKED, &[&run])?.map(|row| RunRow::read(&row)).transpose()
    }

    /// The same for many runs.
    pub(crate) fn read_many_unlocked(&mut self, runs: &[i64]) -> Result<ReadRuns<RunRow>> {
        let mut found = ReadRuns::all(runs.iter().filter_map(|run| self.unit.row(*run)).collect());
        let others: Vec<i64> = runs.iter().copied().filter(|run| !self.unit.runs.contains_key(run)).collect();
        for row in self.ask(&MANY_UNLOCKED, &[&others])? {
            match unless_corrupt(read_run(&row, |row| Ok((RunRow::read(row)?, UnitOfWork::own(row)?))))? {
                Ok((run, own)) => {
                    self.unit.unlocked.insert(run.id, own);
                    found.rows.push(run);
                }
                Err(corrupt) => found.corrupt.push(corrupt),
            }
        }
        Ok(found)
    }

    fn change(&mut self, run: i64, change: impl FnOnce(&mut LoadedRun)) -> Result<()> {
        self.lock_runs(&[run])?;
        let kept = self.unit.runs.get_mut(&run).ok_or_else(|| Error::Unexpected(format!("no run {run}")))?;
        change(kept);
        kept.dirty = true;
        Ok(())
    }
}

impl RunRows for PgRows<'_> {
    fn find_run(&mut self, tenant: i64, run_id: &RunId) -> Result<Option<RunRow>> {
        let name = (tenant, run_id.clone());
        match self.unit.named.get(&name) {
            Some(Some(run)) => return Ok(self.unit.row(*run)),
            Some(None) => return Ok(None),
            None => {}
        }
        match self.ask_one(self.locking(&BY_NAME), &[&tenant, &run_id.as_str()])? {
            Some(row) => self.unit.read(&row).map(Some),
            None => {
                self.unit.named.insert(name, None);
                Ok(None)
            }
        }
    }

    /// Runs are locked by name in one order; a lock by number would be out of order.
    fn find_leased(&mut self, tenant: i64, run_id: &RunId, _: i64) -> Result<Option<RunRow>> {
        self.find_run(tenant, run_id)
    }

    fn run_by_number(&mut self, run: i64) -> Result<Option<RunRow>> {
        if let Some(known) = self.unit.row(run) {
            return Ok(Some(known));
        }
        match self.ask_one(self.locking(&BY_NUMBER), &[&run])? {
            Some(row) => self.unit.read(&row).map(Some),
            None => Ok(None),
        }
    }

    fn next_run_number(&mut self) -> Result<i64> {
        if let Some(next) = self.unit.numbers.pop() {
            return Ok(next);
        }
        let next = self.ask_one(NEXT_NUMBERS, &[&1_i64])?;
        number(&next.ok_or_else(|| Error::Unexpected("no number for a run".into()))?, 0)
    }

    fn insert_run(&mut self, row: &RunRow, new: &NewRun, now: Timestamp) -> Result<()> {
        let own = RunAttributes {
            agent: new.agent.clone(),
            task_type: new.task_type.clone(),
            order_key: new.order_key.clone(),
            severity: new.severity,
        };
        let columns = NewColumns {
            received_at: now,
            customer: new.customer.clone(),
            idempotency_key: new.idempotency_key.as_ref().map(|key| key.as_str().to_owned()),
        };
        self.unit.named.insert((row.tenant, row.run_id.clone()), Some(row.id));
        let kept = LoadedRun {
            row: row.clone(),
            own,
            assigned_to: None,
            updated_at: now,
            new: Some(columns),
            dirty: true,
            has_steps: false,
        };
        self.unit.runs.insert(row.id, Box::new(kept));
        if new.payload.kind == PayloadKind::None && new.about.is_empty() {
            return Ok(());
        }
        let payload = PendingPayload {
            kind: position(PayloadKind::ALL, &new.payload.kind),
            digest: new.payload.digest.to_vec(),
            about: new.about.clone(),
            body: new.payload.encoded.clone(),
        };
        self.unit.out.payloads.insert((row.id, row.run.revision), payload);
        Ok(())
    }

    fn update_run(&mut self, row: &RunRow, _: ChangedColumns, now: Timestamp) -> Result<()> {
        self.change(row.id, |kept| {
            kept.row = row.clone();
            kept.updated_at = now;
        })
    }

    fn set_severity(&mut self, run: i64, severity: Severity) -> Result<()> {
        self.change(run, |kept| kept.own.severity = severity)
    }

    fn set_assigned(&mut self, run: i64, to: Option<&Label>, now: Timestamp) -> Result<()> {
        self.change(run, |kept| {
            kept.assigned_to = to.cloned();
            kept.updated_at = now;
        })
    }

    fn set_place(&mut self, run: i64, agent: Option<&Label>, queue: i64) -> Result<()> {
        self.change(run, |kept| {
            kept.row.queue = queue;
            if agent.is_some() {
                kept.own.agent = agent.cloned();
            }
        })
    }

    fn own_of(&mut self, run: i64) -> Result<Option<RunAttributes>> {
        if let Some(own) = self.unit.unlocked.get(&run).filter(|_| !self.unit.runs.contains_key(&run)) {
            return Ok(Some(own.clone()));
        }
        self.lock_runs(&[run])?;
        Ok(self.unit.runs.get(&run).map(|kept| kept.own.clone()))
    }

    fn busy(&mut self, tenant: i64, order_key: &OrderKey, but: i64) -> Result<Option<RunId>> {
        let sql = "SELECT run_id FROM runs WHERE tenant = $1 AND order_key = $2 AND order_key IS NOT NULL
             AND wake IS NOT NULL AND id <> $3 LIMIT 1";
        let found = self.ask_after(sql, &[&tenant, &order_key.as_str(), &but])?;
        found.first().map(|row| parsed(row, 0, "run_id")).transpose()
    }

    fn claim_order_key(&mut self, tenant: i64, order_key: &OrderKey, run: i64) -> Result<bool> {
        // The holder of the lock is leasing a run of this key.
        let sql = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, $2))";
        let ours = self.ask_one(sql, &[&order_key.as_str(), &tenant])?.map_or(Ok(false), |row| row.try_get(0))?;
        Ok(ours && self.busy(tenant, order_key, run)?.is_none())
    }

    fn is_under_way(&mut self, run: i64, epoch: u64) -> Result<bool> {
        let found = unless_corrupt(self.read_unlocked(run))?.ok().flatten();
        Ok(found.is_some_and(|row| row.run.lease().is_some() && row.run.epoch == epoch))
    }

    fn is_due(&mut self, run: i64, now: Timestamp) -> Result<bool> {
        let found = unless_corrupt(self.read_unlocked(run))?.ok().flatten();
        Ok(found.and_then(|row| row.run.due_at()).is_some_and(|due| due <= now))
    }
}
