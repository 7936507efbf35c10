//! A run's row: found by name, changed as a whole, counted as it changes.

use std::sync::{Arc, LazyLock};

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::lifecycle::{self, Event, Moved, Refused};
use redrive_core::policy::Policy;
use redrive_core::reason::{Category, Reason};
use redrive_core::run::{Run, StateName};
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Severity, Versions};
use rusqlite::{OptionalExtension, Row, params};

use crate::error::{Error, Result};
use crate::model::{NewRun, PayloadKind, RunRef};
use crate::sqlite::batch::{Batch, Queue};
use crate::sqlite::columns::{label, label_or_none, text, time_or_none};
use crate::sqlite::life::{Life, StateColumns, position, word};
use crate::sqlite::lookup::{key_hash, numbered};
use crate::sqlite::tally::Standing;

/// A run as its row holds it.
#[derive(Debug, Clone)]
pub(super) struct RunRow {
    pub(super) id: i64,
    pub(super) tenant: i64,
    pub(super) queue: i64,
    pub(super) run_id: RunId,
    pub(super) run: Run,
    /// Of the last failure; empty before the first. Shared by all that counts under it.
    pub(super) reason: Arc<str>,
    pub(super) category: i64,
    pub(super) pattern: Option<i64>,
    pub(super) model: Option<Label>,
    pub(super) provider: Option<Label>,
    pub(super) tool: Option<Label>,
    pub(super) step: Option<Label>,
    /// Who began the attempt under way, and with which request.
    pub(super) worker: Option<Label>,
    pub(super) start_id: Option<Label>,
    /// What the attempt under way runs with, as its worker said.
    pub(super) versions: Versions,
    pub(super) environment: Label,
    /// When the attempt under way began, as breakers count it.
    pub(super) generation: u64,
}

/// In the order in which [`RunRow::read`] takes them: a look-up by name for each would cost more than the query.
pub(super) const COLUMNS: &str = "id, tenant, queue, run_id, state, detail, due, wake, attempt, revision, reason, category, \
     pattern, deferred_until, held_by, merged_into, replays, life, model, provider, tool, step, environment";
pub(super) const COLUMN_COUNT: usize = 23;

static FIND: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {COLUMNS} FROM runs WHERE key_hash = ?1 AND tenant = ?2 AND run_id = ?3"));

static FIND_BY_NUMBER: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"));

impl RunRow {
    pub(super) fn read(row: &Row<'_>) -> Result<Self> {
        let life: Life =
            serde_json::from_str(text(row, 17)?).map_err(|e| Error::Unexpected(format!("a run's life: {e}")))?;
        let columns = StateColumns {
            state: word(StateName::ALL, row.get(4)?, "state")?,
            detail: row.get(5)?,
            due: time_or_none(row, 6)?,
            wake: time_or_none(row, 7)?,
            held_by: label_or_none(row, 14)?,
            merged_into: row.get::<_, Option<String>>(15)?.and_then(|id| id.parse().ok()),
        };
        let run_id = text(row, 3)?;
        Ok(Self {
            id: row.get(0)?,
            tenant: row.get(1)?,
            queue: row.get(2)?,
            run_id: run_id.parse().map_err(|_| Error::Unexpected(format!("run id {run_id:?}")))?,
            run: life.to_run(&columns, row.get(8)?, row.get(9)?, row.get(16)?, time_or_none(row, 13)?)?,
            reason: row.get(10)?,
            category: row.get(11)?,
            pattern: row.get(12)?,
            model: label_or_none(row, 18)?,
            provider: label_or_none(row, 19)?,
            tool: label_or_none(row, 20)?,
            step: label_or_none(row, 21)?,
            worker: life.worker,
            start_id: life.start_id,
            versions: life.versions,
            environment: label(row, 22)?,
            generation: life.generation,
        })
    }

    pub(super) fn standing(&self) -> Standing {
        Standing {
            state: self.run.state.name(),
            tenant: self.tenant,
            queue: self.queue,
            reason: self.reason.clone(),
            detail: StateColumns::of(&self.run).detail,
            pattern: self.pattern,
        }
    }

    /// What only a failure changes.
    fn failure_columns(&self) -> (&str, i64, Option<i64>, [&Option<Label>; 4]) {
        (&self.reason, self.category, self.pattern, [&self.model, &self.provider, &self.tool, &self.step])
    }

    pub(super) fn failed_with(&mut self, reason: &Reason, category: Category) {
        self.reason = Arc::from(reason.as_str());
        self.category = position(&Category::ALL, &category);
    }

    /// Asks the transition table.
    pub(super) fn ask(&self, event: &Event<'_>, policy: &Policy, now: Timestamp) -> Result<Moved, Refused> {
        lifecycle::apply(&self.run, event, policy, now)
    }
}

impl Batch<'_> {
    pub(super) fn find_run(&mut self, tenant: &Tenant, run_id: &RunId) -> Result<Option<RunRow>> {
        let Some(tenant) = self.find_tenant(tenant)? else { return Ok(None) };
        self.find_run_of(tenant, run_id)
    }

    pub(super) fn find_run_of(&mut self, tenant: i64, run_id: &RunId) -> Result<Option<RunRow>> {
        let hash = key_hash(tenant, run_id.as_str());
        let mut find = self.conn.prepare_cached(&FIND)?;
        let mut rows = find.query(params![hash, tenant, run_id.as_str()])?;
        rows.next()?.map(RunRow::read).transpose()
    }

    pub(super) fn run_by_number(&mut self, run: i64) -> Result<Option<RunRow>> {
        let mut find = self.conn.prepare_cached(&FIND_BY_NUMBER)?;
        let mut rows = find.query([run])?;
        rows.next()?.map(RunRow::read).transpose()
    }

    pub(super) fn require_run(&mut self, at: &RunRef) -> Result<RunRow> {
        self.find_run(&at.tenant, &at.run_id)?.ok_or(Error::NotFound("run"))
    }

    /// A run that is not in the store yet: numbered now, written once it stands where its first move leaves it.
    pub(super) fn new_run(&mut self, new: &NewRun, tenant: i64, queue: i64) -> Result<RunRow> {
        let run = Run {
            resumable: new.resumable.unwrap_or(false),
            replayable: new.payload.kind != PayloadKind::Omitted,
            ..Run::new(self.now)
        };
        Ok(RunRow {
            id: self.next_run_number()?,
            tenant,
            queue,
            run_id: new.run_id.clone(),
            run,
            reason: Arc::from(""),
            category: -1,
            pattern: None,
            model: new.model.clone(),
            provider: new.provider.clone(),
            tool: None,
            step: None,
            worker: None,
            start_id: None,
            versions: Versions::new(),
            environment: new.environment.clone(),
            generation: 0,
        })
    }

    /// Numbers are given out by the committer alone, and the sequence keeps the highest for good.
    fn next_run_number(&mut self) -> Result<i64> {
        let last = match self.known.last_run {
            Some(last) => last,
            None => {
                let mut find = self.conn.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'runs'")?;
                find.query_row([], |row| row.get(0)).optional()?.unwrap_or(0)
            }
        };
        self.known.last_run = Some(last + 1);
        Ok(last + 1)
    }

    /// Writes a row that was read as `before`, and counts what changed.
    pub(super) fn save(&mut self, before: &RunRow, row: &RunRow) -> Result<()> {
        if before.failure_columns() == row.failure_columns() {
            self.update_move(row)?;
        } else {
            self.update(row)?;
        }
        self.tally.moved(row.id, Some(&before.standing()), &row.standing());
        Ok(())
    }

    /// A move that is no failure: what the failure columns are indexed by stays untouched.
    fn update_move(&mut self, row: &RunRow) -> Result<()> {
        let columns = StateColumns::of(&row.run);
        let mut update = self.conn.prepare_cached(
            "UPDATE runs SET state = ?2, detail = ?3, due = ?4, wake = ?5, attempt = ?6, revision = ?7, updated_at = ?8,
                 deferred_until = ?9, held_by = ?10, merged_into = ?11, replays = ?12, life = ?13 WHERE id = ?1",
        )?;
        let changed = update.execute(params![
            row.id,
            position(StateName::ALL, &columns.state),
            columns.detail,
            columns.due.map(Timestamp::as_millis),
            columns.wake.map(Timestamp::as_millis),
            row.run.attempt,
            row.run.revision,
            self.now.as_millis(),
            row.run.deferred_until.map(Timestamp::as_millis),
            said(&columns.held_by),
            columns.merged_into.as_ref().map(|id| id.as_str()),
            row.run.replays,
            life(row)?,
        ])?;
        exactly_one(changed)
    }

    /// Writes a new run with its payload; a run that came without one, and with nothing else to say, costs no row for it.
    pub(super) fn insert_run(&mut self, row: &RunRow, new: &NewRun) -> Result<()> {
        self.insert(row, new)?;
        self.tally.moved(row.id, None, &row.standing());
        if new.payload.kind == PayloadKind::None && new.about.is_empty() {
            return Ok(());
        }
        let mut insert = self
            .conn
            .prepare_cached("INSERT INTO payloads (id, kind, digest, about, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        insert.execute(params![
            numbered(row.id, row.run.revision),
            position(PayloadKind::ALL, &new.payload.kind),
            new.payload.digest.as_slice(),
            new.about,
            new.payload.encoded,
        ])?;
        Ok(())
    }

    fn insert(&mut self, row: &RunRow, new: &NewRun) -> Result<()> {
        let columns = StateColumns::of(&row.run);
        let now = self.now.as_millis();
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO runs (id, tenant, queue, key_hash, run_id, state, detail, due, wake, attempt, revision, reason,
                 category, pattern, severity, received_at, updated_at, deferred_until, environment, agent, task_type,
                 customer, model, provider, tool, step, idempotency_key, order_key, held_by, merged_into, replays, life)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16, ?17, ?18, ?19, ?20, ?21,
                 ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31)",
        )?;
        insert.execute(params![
            row.id,
            row.tenant,
            row.queue,
            key_hash(row.tenant, row.run_id.as_str()),
            row.run_id.as_str(),
            position(StateName::ALL, &columns.state),
            columns.detail,
            columns.due.map(Timestamp::as_millis),
            columns.wake.map(Timestamp::as_millis),
            row.run.attempt,
            row.run.revision,
            row.reason,
            row.category,
            row.pattern,
            position(Severity::ALL, &new.severity),
            now,
            row.run.deferred_until.map(Timestamp::as_millis),
            new.environment.as_str(),
            said(&new.agent),
            said(&new.task_type),
            said(&new.customer),
            said(&row.model),
            said(&row.provider),
            said(&row.tool),
            said(&row.step),
            new.idempotency_key.as_ref().map(|key| key.as_str()),
            new.order_key.as_ref().map(|key| key.as_str()),
            said(&columns.held_by),
            columns.merged_into.as_ref().map(|id| id.as_str()),
            row.run.replays,
            life(row)?,
        ])?;
        Ok(())
    }

    fn update(&mut self, row: &RunRow) -> Result<()> {
        let columns = StateColumns::of(&row.run);
        let mut update = self.conn.prepare_cached(
            "UPDATE runs SET state = ?2, detail = ?3, due = ?4, wake = ?5, attempt = ?6, revision = ?7, reason = ?8,
                 category = ?9, pattern = ?10, updated_at = ?11, deferred_until = ?12, model = ?13, provider = ?14,
                 tool = ?15, step = ?16, held_by = ?17, merged_into = ?18, replays = ?19, life = ?20 WHERE id = ?1",
        )?;
        let changed = update.execute(params![
            row.id,
            position(StateName::ALL, &columns.state),
            columns.detail,
            columns.due.map(Timestamp::as_millis),
            columns.wake.map(Timestamp::as_millis),
            row.run.attempt,
            row.run.revision,
            row.reason,
            row.category,
            row.pattern,
            self.now.as_millis(),
            row.run.deferred_until.map(Timestamp::as_millis),
            said(&row.model),
            said(&row.provider),
            said(&row.tool),
            said(&row.step),
            said(&columns.held_by),
            columns.merged_into.as_ref().map(|id| id.as_str()),
            row.run.replays,
            life(row)?,
        ])?;
        exactly_one(changed)
    }

    /// Keeps a lease's new times and a run's effect counts: no state changes, so no counter does and no list index is
    /// touched.
    pub(super) fn save_life(&mut self, row: &RunRow) -> Result<()> {
        let wake = StateColumns::of(&row.run).wake.map(Timestamp::as_millis);
        let mut update =
            self.conn.prepare_cached("UPDATE runs SET wake = ?2, updated_at = ?3, life = ?4 WHERE id = ?1")?;
        let changed = update.execute(params![row.id, wake, self.now.as_millis(), life(row)?])?;
        exactly_one(changed)
    }

    pub(super) fn names_of(&mut self, row: &RunRow) -> Result<(Tenant, QueueName)> {
        Ok((self.tenant_name(row.tenant)?, self.queue_by_id(row.queue)?.name))
    }

    /// A run's queue, with the policy that holds for it there.
    pub(super) fn rules_of(&mut self, row: &RunRow) -> Result<(Queue, Arc<Policy>)> {
        let queue = self.queue_by_id(row.queue)?;
        let policy = self.policy(&queue, row.tenant)?;
        Ok((queue, policy))
    }
}

fn exactly_one(changed: usize) -> Result<()> {
    if changed == 1 { Ok(()) } else { Err(Error::Unexpected(format!("{changed} rows changed instead of one"))) }
}

fn life(row: &RunRow) -> Result<String> {
    let mut life = Life::of(&row.run, row.worker.clone(), row.start_id.clone());
    if row.run.state.name() == StateName::Running {
        life.versions.clone_from(&row.versions);
        life.generation = row.generation;
    }
    serde_json::to_string(&life).map_err(|e| Error::Unexpected(e.to_string()))
}

fn said(label: &Option<Label>) -> Option<&str> {
    label.as_ref().map(Label::as_str)
}
