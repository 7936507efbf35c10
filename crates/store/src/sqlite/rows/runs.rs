//! Runs.

use crate::shared::records::{FromRow as _, RUN_COLUMNS};
use std::sync::LazyLock;

use redrive_core::ids::{OrderKey, RunId};
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::Severity;
use rusqlite::{OptionalExtension, params};

use crate::sqlite::reads::columns::{label_or_none, parsed_or_none};
use crate::sqlite::rows::SqliteRows;
use crate::sqlite::rows::run_names::NAMED;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{NewRun, PayloadKind};
use redrive_engine::ports::rows::{ChangedColumns, RunAttributes, RunRows};
use redrive_engine::runs::document::{StateColumns, position, word};
use redrive_engine::runs::run_row::RunRow;
use redrive_engine::runs::run_row::key_hash;

pub(crate) static FIND: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {RUN_COLUMNS} FROM runs NOT INDEXED WHERE id IN ({NAMED}) AND tenant = ?2 AND run_id = ?3")
});

static FIND_BY_NUMBER: LazyLock<String> = LazyLock::new(|| format!("SELECT {RUN_COLUMNS} FROM runs WHERE id = ?1"));

impl RunRows for SqliteRows<'_> {
    fn find_run(&mut self, tenant: i64, run_id: &RunId) -> Result<Option<RunRow>> {
        let hash = key_hash(tenant, run_id.as_str());
        // A lookup of the name alone first: a reported run is nearly always new.
        if !self.held.is_there.of(self.conn, NAMED)?.exists([hash])? {
            return Ok(None);
        }
        let mut rows = self.held.find_run.of(self.conn, &FIND)?.query(params![hash, tenant, run_id.as_str()])?;
        rows.next()?.map(RunRow::read).transpose()
    }

    /// The pages of a leased row are in the cache; those of the index of names are not.
    fn find_leased(&mut self, tenant: i64, run_id: &RunId, number: i64) -> Result<Option<RunRow>> {
        let leased = self.run_by_number(number)?.filter(|row| row.tenant == tenant && row.run_id == *run_id);
        leased.map_or_else(|| self.find_run(tenant, run_id), |row| Ok(Some(row)))
    }

    fn run_by_number(&mut self, run: i64) -> Result<Option<RunRow>> {
        let mut rows = self.held.run_by_number.of(self.conn, &FIND_BY_NUMBER)?.query([run])?;
        rows.next()?.map(RunRow::read).transpose()
    }

    /// Only the writer assigns numbers; the sequence keeps the highest.
    fn next_run_number(&mut self) -> Result<i64> {
        let last = match self.memory.last_run {
            Some(last) => last,
            None => {
                let mut find = self.conn.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'runs'")?;
                find.query_row([], |row| row.get(0)).optional()?.unwrap_or(0)
            }
        };
        self.memory.last_run = Some(last + 1);
        Ok(last + 1)
    }

    fn insert_run(&mut self, row: &RunRow, new: &NewRun, now: Timestamp) -> Result<()> {
        self.insert_row(row, new, now)?;
        if new.payload.kind == PayloadKind::None && new.about.is_empty() {
            return Ok(());
        }
        let insert = "INSERT INTO payloads (run, revision, kind, digest, about, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.held.insert_payload.of(self.conn, insert)?.execute(params![
            row.id,
            row.run.revision,
            position(PayloadKind::ALL, &new.payload.kind),
            new.payload.digest.as_slice(),
            new.about,
            new.payload.encoded,
        ])?;
        Ok(())
    }

    fn update_run(&mut self, row: &RunRow, changed: ChangedColumns, now: Timestamp) -> Result<()> {
        let changed = match changed {
            ChangedColumns::ByFailure => self.update_all(row, now)?,
            ChangedColumns::ByMove => self.update_move(row, now)?,
            ChangedColumns::RunDocument => self.update_life(row, now)?,
        };
        if changed == 1 {
            Ok(())
        } else {
            Err(Error::Unexpected(format!("{changed} rows changed instead of one")).into())
        }
    }

    fn set_severity(&mut self, run: i64, severity: Severity) -> Result<()> {
        let mut set = self.conn.prepare_cached("UPDATE runs SET severity = ?2 WHERE id = ?1")?;
        set.execute([run, position(Severity::ALL, &severity)])?;
        Ok(())
    }

    fn set_assigned(&mut self, run: i64, to: Option<&Label>, now: Timestamp) -> Result<()> {
        let mut update = self.conn.prepare_cached("UPDATE runs SET assigned_to = ?2, updated_at = ?3 WHERE id = ?1")?;
        update.execute(params![run, to.map(Label::as_str), now.as_millis()])?;
        Ok(())
    }

    fn set_place(&mut self, run: i64, agent: Option<&Label>, queue: i64) -> Result<()> {
        let mut update =
            self.conn.prepare_cached("UPDATE runs SET agent = coalesce(?2, agent), queue = ?3 WHERE id = ?1")?;
        update.execute(params![run, agent.map(Label::as_str), queue])?;
        Ok(())
    }

    fn own_of(&mut self, run: i64) -> Result<Option<RunAttributes>> {
        let mut find =
            self.conn.prepare_cached("SELECT agent, task_type, order_key, severity FROM runs WHERE id = ?1")?;
        let mut rows = find.query([run])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(RunAttributes {
            agent: label_or_none(row, 0)?,
            task_type: label_or_none(row, 1)?,
            order_key: parsed_or_none(row, 2, "order key")?,
            severity: word(Severity::ALL, row.get(3)?, "severity")?,
        }))
    }

    fn busy(&mut self, tenant: i64, order_key: &OrderKey, but: i64) -> Result<Option<RunId>> {
        let mut find = self.conn.prepare_cached(
            "SELECT run_id FROM runs INDEXED BY runs_order
             WHERE tenant = ?1 AND order_key = ?2 AND order_key IS NOT NULL AND wake IS NOT NULL AND id <> ?3 LIMIT 1",
        )?;
        let found: Option<String> =
            find.query_row(params![tenant, order_key.as_str(), but], |found| found.get(0)).optional()?;
        Ok(found.and_then(|id| id.parse().ok()))
    }

    /// Only the writer starts runs.
    fn claim_order_key(&mut self, tenant: i64, order_key: &OrderKey, run: i64) -> Result<bool> {
        Ok(self.busy(tenant, order_key, run)?.is_none())
    }

    fn is_under_way(&mut self, run: i64, epoch: u64) -> Result<bool> {
        let mut find = self.conn.prepare_cached(
            "SELECT 1 FROM runs WHERE id = ?1 AND wake IS NOT NULL
                 AND CASE WHEN json_valid(life) THEN json_extract(life, '$.e') END = ?2",
        )?;
        Ok(find.exists(params![run, epoch.cast_signed()])?)
    }

    fn is_due(&mut self, run: i64, now: Timestamp) -> Result<bool> {
        let mut find = self.conn.prepare_cached("SELECT 1 FROM runs WHERE id = ?1 AND due <= ?2")?;
        Ok(find.exists([run, now.as_millis()])?)
    }
}

impl SqliteRows<'_> {
    /// A move that is not a failure leaves the indexes of the failure columns untouched.
    fn update_move(&mut self, row: &RunRow, now: Timestamp) -> Result<usize> {
        let columns = StateColumns::of(&row.run);
        let update =
            "UPDATE runs SET state = ?2, detail = ?3, due = ?4, wake = ?5, attempt = ?6, revision = ?7, updated_at = ?8,
                 deferred_until = ?9, held_by = ?10, merged_into = ?11, replays = ?12, life = ?13, unleasable = ?14,
                 lease_request = ?15 WHERE id = ?1";
        Ok(self.held.move_run.of(self.conn, update)?.execute(params![
            row.id,
            position(StateName::ALL, &columns.state),
            columns.detail,
            columns.due.map(Timestamp::as_millis),
            columns.wake.map(Timestamp::as_millis),
            row.run.attempt,
            row.run.revision,
            now.as_millis(),
            row.run.deferred_until.map(Timestamp::as_millis),
            text(&columns.held_by),
            columns.merged_into.as_ref().map(|id| id.as_str()),
            row.run.replays,
            row.life()?,
            columns.unleasable.then_some(1),
            row.request(),
        ])?)
    }

    fn insert_row(&mut self, row: &RunRow, new: &NewRun, now: Timestamp) -> Result<()> {
        let columns = StateColumns::of(&row.run);
        let now = now.as_millis();
        let insert =
            "INSERT INTO runs (id, tenant, queue, key_hash, run_id, state, detail, due, wake, attempt, revision, reason,
                 category, pattern, severity, received_at, updated_at, deferred_until, environment, agent, task_type,
                 customer, model, provider, tool, step, idempotency_key, order_key, held_by, merged_into, replays, life,
                 unleasable)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16, ?17, ?18, ?19, ?20, ?21,
                 ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32)";
        self.held.insert_run.of(self.conn, insert)?.execute(params![
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
            text(&new.agent),
            text(&new.task_type),
            text(&new.customer),
            text(&row.model),
            text(&row.provider),
            text(&row.tool),
            text(&row.step),
            new.idempotency_key.as_ref().map(|key| key.as_str()),
            new.order_key.as_ref().map(|key| key.as_str()),
            text(&columns.held_by),
            columns.merged_into.as_ref().map(|id| id.as_str()),
            row.run.replays,
            row.life()?,
            columns.unleasable.then_some(1),
        ])?;
        if let Some(names) = &mut self.memory.new_names {
            names.count += 1;
        }
        Ok(())
    }

    fn update_all(&mut self, row: &RunRow, now: Timestamp) -> Result<usize> {
        let columns = StateColumns::of(&row.run);
        let mut update = self.conn.prepare_cached(
            "UPDATE runs SET state = ?2, detail = ?3, due = ?4, wake = ?5, attempt = ?6, revision = ?7, reason = ?8,
                 category = ?9, pattern = ?10, updated_at = ?11, deferred_until = ?12, model = ?13, provider = ?14,
                 tool = ?15, step = ?16, held_by = ?17, merged_into = ?18, replays = ?19, life = ?20,
                 unleasable = ?21, lease_request = ?22 WHERE id = ?1",
        )?;
        Ok(update.execute(params![
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
            now.as_millis(),
            row.run.deferred_until.map(Timestamp::as_millis),
            text(&row.model),
            text(&row.provider),
            text(&row.tool),
            text(&row.step),
            text(&columns.held_by),
            columns.merged_into.as_ref().map(|id| id.as_str()),
            row.run.replays,
            row.life()?,
            columns.unleasable.then_some(1),
            row.request(),
        ])?)
    }

    fn update_life(&mut self, row: &RunRow, now: Timestamp) -> Result<usize> {
        let wake = StateColumns::of(&row.run).wake.map(Timestamp::as_millis);
        let mut update =
            self.conn.prepare_cached("UPDATE runs SET wake = ?2, updated_at = ?3, life = ?4 WHERE id = ?1")?;
        Ok(update.execute(params![row.id, wake, now.as_millis(), row.life()?])?)
    }
}

fn text(label: &Option<Label>) -> Option<&str> {
    label.as_ref().map(Label::as_str)
}
