//! Statements about runs in PostgreSQL's dialect.

use redrive_core::ids::QueueName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Likeness, Sort, Versions};
use tokio_postgres::Row;

use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::columns::{label, number, owned, parsed, time, whole};
use crate::shared::duplicates::{DUPLICATES_MAX, DuplicateKey, DuplicateMatches, SAME_PATTERN_RUNS};
use crate::shared::filter::SearchWords;
use crate::shared::reader::{RunQueries, SqlParam, SqlParams, SqlReader};
use crate::shared::records::{STEP_SIZES, read_payload};
use crate::shared::scan::{RangeSelect, RangeStart, ScannedRun};
use redrive_engine::error::{BoxError, PortResult as Result};
use redrive_engine::model::RunRef;
use redrive_engine::runs::payload::StoredPayload;

/// With more ranges than this, a page's worth of each would read too much.
const WHOLE_PAGE_RANGES: usize = 16;

impl RunQueries for Snapshot<'_> {
    const CHUNK_MAX_ROWS: usize = 1_024;

    /// A page's worth of each of a few ranges costs less than a second round trip.
    fn first_chunk(wanted: usize, ranges: usize) -> usize {
        if ranges > WHOLE_PAGE_RANGES { wanted / ranges + 1 } else { wanted }
    }

    async fn read_ranges(
        &self,
        select: &RangeSelect,
        from: &[RangeStart<'_>],
        chunk: usize,
    ) -> Result<Vec<ScannedRun>> {
        let (sql, params) = ranges_sql(select, from, chunk);
        SqlReader::rows(self, &sql, params.values())
            .await?
            .read(|row| ScannedRun::read(row, 1, whole(row, 0, "range")?))
    }

    fn name_prefix(words: &SearchWords, params: &mut SqlParams) -> String {
        let mut any = Vec::new();
        // No run id holds NUL, which PostgreSQL refuses in a text.
        if !words.prefix.contains('\0') {
            let prefix = params.add(words.prefix.as_str());
            any.extend(["run_id", "idempotency_key"].map(|name| format!("starts_with(runs.{name}, {prefix})")));
        }
        let bytes = words.prefix.as_bytes();
        let prefix = params.add(SqlParam::Bytes(bytes.to_vec()));
        any.push(format!("substr(runs.customer, 1, {}) = {prefix}", bytes.len()));
        any.join(" OR ")
    }

    async fn first_received_from(&self, at: Timestamp, last: i64) -> Result<i64> {
        let sql = "WITH RECURSIVE halved (low, high) AS (
                 SELECT 1::bigint, $2::bigint + 1
                 UNION ALL
                 SELECT CASE WHEN seen.received_at < $1 THEN seen.id + 1 ELSE low END,
                     CASE WHEN seen.received_at < $1 THEN high ELSE low + (high - low) / 2 END
                 FROM halved LEFT JOIN LATERAL (
                     SELECT id, received_at FROM runs WHERE id >= low + (high - low) / 2 AND id < high
                     ORDER BY id LIMIT 1
                 ) seen ON true
                 WHERE low < high
             )
             SELECT max(low) FROM halved";
        let found = SqlReader::row(self, sql, &[at.into(), last.into()]).await?.read(|row| number(row, 0))?;
        Ok(found.unwrap_or(1))
    }

    /// A name is asked for as a range, so that the planner must use the index of names.
    async fn run_numbers(&self, runs: &[RunRef]) -> Result<Vec<i64>> {
        let (tenants, names): (Vec<&str>, Vec<&str>) =
            runs.iter().map(|at| (at.tenant.as_str(), at.run_id.as_str())).unzip();
        let sql = "SELECT run.id FROM (
                       SELECT tenants.id AS q_tenant, q_run, place
                       FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (q_name, q_run, place)
                       JOIN tenants ON tenants.name = q_name OFFSET 0) AS q
                   CROSS JOIN LATERAL (
                       SELECT id FROM runs WHERE tenant = q_tenant AND run_id >= q_run AND run_id <= q_run
                       ORDER BY run_id LIMIT 1) AS run
                   ORDER BY place";
        Snapshot::rows(self, sql, &[&tenants, &names]).await?.iter().map(|row| number(row, 0)).collect()
    }

    async fn queue_of(&self, run: &RunRef) -> Result<Option<QueueName>> {
        let sql = "SELECT queues.name FROM tenants CROSS JOIN LATERAL (
                       SELECT queue FROM runs WHERE tenant = tenants.id AND run_id >= $2 AND run_id <= $2
                       ORDER BY run_id LIMIT 1) AS run
                   JOIN queues ON queues.id = run.queue WHERE tenants.name = $1";
        let values = [run.tenant.as_str().into(), run.run_id.as_str().into()];
        SqlReader::row(self, sql, &values).await?.read(|row| parsed(row, 0, "queue"))
    }

    async fn oldest_due_by_tenant(&self, queue: i64) -> Result<Vec<(i64, Timestamp)>> {
        let sql = "WITH RECURSIVE step (tenant, due) AS (
                 (SELECT tenant, due FROM runs WHERE queue = $1 AND due IS NOT NULL ORDER BY queue, tenant, due LIMIT 1)
                 UNION ALL
                 SELECT next.tenant, next.due FROM step CROSS JOIN LATERAL (
                     SELECT tenant, due FROM runs WHERE queue = $1 AND tenant > step.tenant AND due IS NOT NULL
                     ORDER BY queue, tenant, due LIMIT 1
                 ) next
             )
             SELECT tenant, due FROM step";
        SqlReader::rows(self, sql, &[queue.into()]).await?.read(|row| Ok((number(row, 0)?, time(row, 1)?)))
    }

    async fn same_pattern(&self, own: &DuplicateKey) -> Result<DuplicateMatches> {
        let Some(pattern) = own.pattern else { return Ok(DuplicateMatches::none()) };
        let sql = format!(
            "WITH near AS (
                 SELECT id, idempotency_key FROM runs WHERE pattern IS NOT NULL
                     AND (pattern, id) >= ($1, 0) AND (pattern, id) <= ($1, 9223372036854775807)
                 ORDER BY pattern DESC, id DESC LIMIT {SAME_PATTERN_RUNS}
             ), same AS (
                 SELECT near.id, coalesce(near.idempotency_key = $2, false) AS by_key,
                     EXISTS (SELECT 1 FROM payloads WHERE run = near.id AND revision = 1 AND digest = $3) AS by_payload
                 FROM near WHERE near.id <> $4
             )
             SELECT id, by_key::int::bigint, (SELECT count(*) FROM near) FROM same WHERE by_key OR by_payload
             ORDER BY id DESC LIMIT {}",
            DUPLICATES_MAX + 1
        );
        let rows = Snapshot::rows(self, &sql, &[&pattern, &own.idempotency_key, &own.payload, &own.run]).await?;
        let examined = rows.first().map_or(Ok(0), |row| whole::<usize>(row, 2, "runs"))?;
        let like = |row: &Row| {
            let same = if number(row, 1)? == 1 { Likeness::IdempotencyKey } else { Likeness::Payload };
            Ok((number(row, 0)?, same))
        };
        let runs = rows.iter().map(like).collect::<Result<Vec<_>>>()?;
        let is_complete = runs.len() <= DUPLICATES_MAX && examined < SAME_PATTERN_RUNS;
        Ok(DuplicateMatches { runs, is_complete })
    }

    /// The run's steps are found first, so that no plan walks those of other runs.
    fn step_sizes() -> String {
        format!(
            "{STEP_SIZES} WHERE id = ANY(ARRAY(SELECT id FROM (SELECT id FROM steps WHERE run = $1 OFFSET 0) AS own
                 WHERE id < $2 ORDER BY id DESC LIMIT $3)) ORDER BY id DESC"
        )
    }

    async fn newest_versions(&self, tenant: i64, kinds: Vec<String>) -> Result<Versions> {
        let sql = "SELECT DISTINCT ON (kind) kind, version FROM versions_seen WHERE tenant = $1 AND kind = ANY($2)
                   ORDER BY kind, id DESC";
        let read = SqlReader::rows(self, sql, &[tenant.into(), SqlParam::Labels(kinds)])
            .await?
            .read(|row| Ok::<(String, Label), BoxError>((owned(row, 0)?, label(row, 1)?)));
        Ok(read?.into_iter().collect())
    }

    async fn payloads(&self, revisions: &[(i64, u32)]) -> Result<Vec<(i64, Result<StoredPayload>)>> {
        let (runs, revisions): (Vec<i64>, Vec<i64>) =
            revisions.iter().map(|(run, revision)| (*run, i64::from(*revision))).unzip();
        let sql = "SELECT payload.*, q_run FROM unnest($1::bigint[], $2::bigint[]) AS q(q_run, q_revision)
             CROSS JOIN LATERAL (
                 SELECT kind, about, body FROM payloads WHERE run = q_run AND revision = q_revision LIMIT 1) AS payload";
        let values = [SqlParam::Numbers(runs), SqlParam::Numbers(revisions)];
        SqlReader::rows(self, sql, &values).await?.read(|row| Ok((number(row, 3)?, read_payload(row))))
    }
}

/// One statement for all ranges. Each is asked for as a range of the whole index (`(tenant, state, id) >= …`) and sorted
/// by all of its columns: for `state = … ORDER BY id` the planner may walk all runs by number and drop those that do not
/// fit, which is slow if the state is rare.
fn ranges_sql(select: &RangeSelect, from: &[RangeStart<'_>], chunk: usize) -> (String, SqlParams) {
    let mut params = select.params.clone();
    let mut lists = Vec::new();
    let mut names = Vec::new();
    let mut add = |name: &str, of: &dyn Fn(&RangeStart<'_>) -> i64| {
        let list: Vec<i64> = from.iter().map(of).collect();
        lists.push(format!("{}::bigint[]", params.add(SqlParam::Numbers(list))));
        names.push(name.to_owned());
    };
    add("number", &|start| i64::try_from(start.range).unwrap_or(0));
    let columns = select.index.key_columns();
    for (at, column) in columns.iter().enumerate() {
        add(column, &|start| start.key.get(at).copied().unwrap_or(0));
    }
    add("low", &|start| select.bounds(start.after).0);
    add("high", &|start| select.bounds(start.after).1);
    let key = |table: &str, more: &[&str]| {
        let columns = columns.iter().chain(more);
        columns.map(|column| format!("{table}.{column}")).collect::<Vec<_>>().join(", ")
    };
    let by_due = select.sort == Sort::Due;
    let range = if by_due {
        format!(
            "({}) > ({}) AND ({}) <= ({})",
            key("runs", &["due", "id"]),
            key("span", &["low", "high"]),
            key("runs", &[]),
            key("span", &[])
        )
    } else {
        let own = key("runs", &["id"]);
        format!("({own}) >= ({}) AND ({own}) <= ({})", key("span", &["low"]), key("span", &["high"]))
    };
    let condition = select.index.condition().map_or(range.clone(), |condition| format!("{condition} AND {range}"));
    let order = key("runs", if by_due { &["due", "id"] } else { &["id"] });
    let order = if select.sort == Sort::NewestFirst { order.replace(", ", " DESC, ") + " DESC" } else { order };
    let due = if by_due { "runs.due" } else { "0::bigint" };
    let pattern = if select.reads_pattern { "runs.pattern" } else { "NULL::bigint" };
    let sql = format!(
        "SELECT span.number, found.* FROM unnest({}) AS span ({}) CROSS JOIN LATERAL (
             SELECT runs.id, {due}, ({})::bigint, {pattern} FROM runs WHERE {condition} ORDER BY {order} LIMIT {chunk}
         ) found",
        lists.join(", "),
        names.join(", "),
        select.matches,
    );
    (sql, params)
}
