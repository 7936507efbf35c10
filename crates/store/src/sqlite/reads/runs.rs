//! Statements about runs in SQLite's dialect.

use std::sync::LazyLock;

use redrive_core::ids::QueueName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Likeness, Sort, Versions};
use rusqlite::{Connection, OptionalExtension, params};

use crate::shared::columns::{number, parsed, time};
use crate::shared::duplicates::{DUPLICATES_MAX, DuplicateKey, DuplicateMatches, SAME_PATTERN_RUNS};
use crate::shared::filter::SearchWords;
use crate::shared::lookup::{key_hash, tenant_number};
use crate::shared::reader::{RunQueries, SqlParam, SqlParams, SqlReader as _};
use crate::shared::records::{STEP_SIZES, read_payload};
use crate::shared::scan::{RangeSelect, RangeStart, ScannedRun};
use crate::sqlite::reads::columns::OwnedRow;
use crate::sqlite::rows::newest_version;
use crate::sqlite::rows::run_names::NAMED;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::RunRef;
use redrive_engine::runs::payload::StoredPayload;

pub(crate) static RUN_BY_NAME: LazyLock<String> =
    LazyLock::new(|| format!("SELECT id FROM runs NOT INDEXED WHERE id IN ({NAMED}) AND tenant = ?2 AND run_id = ?3"));
pub(crate) static QUEUE_OF: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT queues.name FROM runs NOT INDEXED JOIN queues ON queues.id = runs.queue
         WHERE runs.id IN ({NAMED}) AND tenant = ?2 AND run_id = ?3"
    )
});

/// What of a range is read: SQLite steps over rows of the same due time only if these are asked for apart.
#[derive(Clone, Copy)]
enum RangePart {
    Numbers,
    SameDue,
    LaterDue,
}

impl RunQueries for Connection {
    const CHUNK_MAX_ROWS: usize = 512;

    fn first_chunk(wanted: usize, ranges: usize) -> usize {
        (wanted / ranges.max(1)).saturating_add(1)
    }

    async fn read_ranges(
        &self,
        select: &RangeSelect,
        from: &[RangeStart<'_>],
        chunk: usize,
    ) -> Result<Vec<ScannedRun>> {
        let mut found = Vec::new();
        for start in from {
            let mut left = chunk;
            let parts: &[RangePart] = match (select.sort, start.after) {
                (Sort::Due, Some(_)) => &[RangePart::SameDue, RangePart::LaterDue],
                (Sort::Due, None) => &[RangePart::LaterDue],
                (Sort::Received | Sort::NewestFirst, _) => &[RangePart::Numbers],
            };
            for part in parts {
                let (sql, params) = range_sql(select, start, *part, left);
                let rows = self.rows(&sql, params.values()).await?.read(|row| ScannedRun::read(row, 0, start.range))?;
                left = left.saturating_sub(rows.len());
                found.extend(rows);
                if left == 0 {
                    break;
                }
            }
        }
        Ok(found)
    }

    fn name_prefix(words: &SearchWords, params: &mut SqlParams) -> String {
        let chars = params.add(i64::try_from(words.prefix.chars().count()).unwrap_or(i64::MAX));
        let prefix = params.add(words.prefix.as_str());
        ["run_id", "idempotency_key", "customer"]
            .map(|column| format!("substr(runs.{column}, 1, {chars}) = {prefix}"))
            .join(" OR ")
    }

    async fn first_received_from(&self, at: Timestamp, last: i64) -> Result<i64> {
        let mut probe =
            self.prepare_cached("SELECT id, received_at FROM runs WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1")?;
        let (mut low, mut high) = (1, last.saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            let found: Option<(i64, i64)> =
                probe.query_row([middle, high - 1], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            match found {
                Some((id, received_at)) if received_at < at.as_millis() => low = id + 1,
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }

    async fn run_numbers(&self, runs: &[RunRef]) -> Result<Vec<i64>> {
        let mut find = self.prepare_cached(&RUN_BY_NAME)?;
        let mut numbers = Vec::with_capacity(runs.len());
        for at in runs {
            let Some(tenant) = tenant_number(self, &at.tenant).await? else { continue };
            let run_id = at.run_id.as_str();
            let name = params![key_hash(tenant, run_id), tenant, run_id];
            numbers.extend(find.query_row(name, |row| row.get::<_, i64>(0)).optional()?);
        }
        Ok(numbers)
    }

    async fn queue_of(&self, run: &RunRef) -> Result<Option<QueueName>> {
        let Some(tenant) = tenant_number(self, &run.tenant).await? else { return Ok(None) };
        let run_id = run.run_id.as_str();
        let mut find = self.prepare_cached(&QUEUE_OF)?;
        let name = params![key_hash(tenant, run_id), tenant, run_id];
        find.query_row(name, |row| Ok(parsed(row, 0, "queue"))).optional()?.transpose()
    }

    async fn oldest_due_by_tenant(&self, queue: i64) -> Result<Vec<(i64, Timestamp)>> {
        let sql =
            "SELECT tenant, due FROM runs INDEXED BY runs_due WHERE queue = $1 AND tenant > $2 AND due IS NOT NULL
             ORDER BY tenant, due LIMIT 1";
        let (mut found, mut last) = (Vec::new(), i64::MIN);
        while let Some((tenant, due)) = self.row(sql, &[queue.into(), last.into()]).await?.read(oldest_due)? {
            found.push((tenant, due));
            last = tenant;
        }
        Ok(found)
    }

    async fn same_pattern(&self, own: &DuplicateKey) -> Result<DuplicateMatches> {
        let mut of_pattern = self.prepare_cached(
            "SELECT id FROM runs INDEXED BY runs_pattern WHERE pattern = ?1 ORDER BY id DESC LIMIT ?2",
        )?;
        let mut same_key = self.prepare_cached("SELECT 1 FROM runs WHERE id = ?1 AND idempotency_key = ?2")?;
        let mut same_payload =
            self.prepare_cached("SELECT 1 FROM payloads WHERE run = ?1 AND revision = 1 AND digest = ?2")?;
        let mut found = DuplicateMatches::none();
        let mut rows = of_pattern.query(params![own.pattern, SAME_PATTERN_RUNS + 1])?;
        let mut examined = 0;
        while let Some(row) = rows.next()? {
            let other: i64 = row.get(0)?;
            examined += 1;
            if examined > SAME_PATTERN_RUNS || found.runs.len() > DUPLICATES_MAX {
                found.is_complete = false;
                break;
            }
            if other == own.run {
                continue;
            }
            if own.idempotency_key.is_some() && same_key.exists(params![other, own.idempotency_key])? {
                found.runs.push((other, Likeness::IdempotencyKey));
            } else if own.payload.is_some() && same_payload.exists(params![other, own.payload])? {
                found.runs.push((other, Likeness::Payload));
            }
        }
        Ok(found)
    }

    fn step_sizes() -> String {
        format!(
            "{STEP_SIZES} WHERE id IN (SELECT id FROM steps INDEXED BY steps_run_key WHERE run = $1 AND id < $2
                 ORDER BY id DESC LIMIT $3) ORDER BY id DESC"
        )
    }

    async fn newest_versions(&self, tenant: i64, kinds: Vec<String>) -> Result<Versions> {
        let mut newest = Versions::new();
        for kind in kinds {
            let version = newest_version(self, tenant, &kind)?;
            newest.extend(version.map(|version| (kind, Label::from(version.as_str()))));
        }
        Ok(newest)
    }

    async fn payloads(&self, revisions: &[(i64, u32)]) -> Result<Vec<(i64, Result<StoredPayload>)>> {
        let sql = "SELECT kind, about, body FROM payloads WHERE run = $1 AND revision = $2";
        let mut found = Vec::with_capacity(revisions.len());
        for (run, revision) in revisions {
            let values = [SqlParam::from(*run), (*revision).into()];
            found.extend(self.row(sql, &values).await?.read(|row| Ok((*run, read_payload(row))))?);
        }
        Ok(found)
    }
}

fn oldest_due(row: &OwnedRow) -> Result<(i64, Timestamp)> {
    Ok((number(row, 0)?, time(row, 1)?))
}

fn range_sql(select: &RangeSelect, start: &RangeStart<'_>, part: RangePart, limit: usize) -> (String, SqlParams) {
    let mut params = select.params.clone();
    let mut conditions: Vec<String> = select.index.condition().into_iter().map(str::to_owned).collect();
    for (column, value) in select.index.key_columns().iter().zip(start.key) {
        conditions.push(format!("runs.{column} = {}", params.add(*value)));
    }
    let (low, high) = select.bounds(start.after);
    let order = match part {
        RangePart::Numbers => {
            conditions.push(format!("runs.id BETWEEN {} AND {}", params.add(low), params.add(high)));
            if select.sort == Sort::NewestFirst { "runs.id DESC" } else { "runs.id" }
        }
        RangePart::SameDue => {
            conditions.push(format!("runs.due = {} AND runs.id > {}", params.add(low), params.add(high)));
            "runs.id"
        }
        RangePart::LaterDue => {
            conditions.push(format!("runs.due > {}", params.add(low)));
            "runs.due, runs.id"
        }
    };
    let hint = select.index.name().map_or("NOT INDEXED".to_owned(), Connection::index_hint);
    let due = if select.sort == Sort::Due { "runs.due" } else { "0" };
    let pattern = if select.reads_pattern { "runs.pattern" } else { "NULL" };
    let sql = format!(
        "SELECT runs.id, {due}, {}, {pattern} FROM runs {hint} WHERE {} ORDER BY {order} LIMIT {}",
        select.matches,
        conditions.join(" AND "),
        params.add(i64::try_from(limit).unwrap_or(i64::MAX))
    );
    (sql, params)
}
