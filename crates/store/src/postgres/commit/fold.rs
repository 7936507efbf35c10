//! Folds appended deltas into the totals: counters, hours, patterns, spending, and the change log. One replica at a time holds
//! the lock and folds. Readers add unfolded deltas, so results do not depend on when folding happens.

use redrive_core::time::{HOUR_MS, Timestamp};
use tokio_postgres::Transaction;

use crate::numbers::counted;
use crate::postgres::connection::failure::classify;
use crate::postgres::reads::columns::number;
use crate::shared::patterns::PATTERN_HOURS_KEPT_MS;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::Swept;

/// Held while folding. The bytes are `redrive`, then a number of ours.
pub(crate) const FOLD_LOCK: i64 = 0x7265_6472_6976_6502;
/// Rows of each table that one transaction folds.
const FOLD_ROWS: u32 = 20_000;
/// Sums are capped here: it is past every budget, and two of them still fit the column.
const SUM_MAX: i64 = i64::MAX / 2;

/// A table of deltas.
#[derive(Debug, Clone, Copy)]
enum DeltaTable {
    Counters,
    Hours,
    Spend,
    Patterns,
}

impl DeltaTable {
    const ALL: [Self; 4] = [Self::Counters, Self::Hours, Self::Spend, Self::Patterns];

    fn table(self) -> &'static str {
        match self {
            Self::Counters => "counter_deltas",
            Self::Hours => "hour_deltas",
            Self::Spend => "spend_deltas",
            Self::Patterns => "pattern_deltas",
        }
    }

    fn sql(self, rows: u32, now: Timestamp) -> String {
        let taken = taken(self.table(), rows);
        match self {
            Self::Counters => counters(&taken),
            Self::Hours => hours(&taken),
            Self::Spend => spend(&taken),
            Self::Patterns => patterns(&taken, now),
        }
    }
}

/// Returns what was folded; None while another replica is folding.
pub(crate) async fn fold(tx: &mut Transaction<'_>, now: Timestamp) -> Result<Option<Swept>> {
    if !take_turn(tx).await? {
        return Ok(None);
    }
    let mut swept = Swept::default();
    for kind in DeltaTable::ALL {
        let (folded, more) = fold_table(tx, kind, now).await?;
        swept.more |= more;
        swept.moved += counted(folded);
    }
    swept.moved += counted(number_changes(tx).await?);
    swept.looked_at = swept.moved;
    Ok(Some(swept))
}

/// Folds up to [`FOLD_ROWS`] rows. If one can't be folded, fewer and fewer are tried until it is alone; then it is set aside.
/// Returns how many rows are gone, and whether there may be more.
async fn fold_table(tx: &mut Transaction<'_>, kind: DeltaTable, now: Timestamp) -> Result<(u64, bool)> {
    let mut rows = FOLD_ROWS;
    loop {
        let piece = tx.transaction().await?;
        let error = match run(&piece, &kind.sql(rows, now)).await.map_err(classify) {
            Ok(folded) => {
                piece.commit().await?;
                return Ok((folded, folded == u64::from(rows)));
            }
            Err(error @ Error::Unavailable(_)) => return Err(error.into()),
            Err(error) => error,
        };
        piece.rollback().await?;
        if rows == 1 {
            set_aside(tx, kind.table(), &error, now).await?;
            return Ok((1, true));
        }
        rows = (rows / 8).max(1);
    }
}

/// Keeps a row that could not be folded for a person, with the reason.
async fn set_aside(tx: &Transaction<'_>, table: &str, why: &Error, now: Timestamp) -> Result<()> {
    let sql = format!(
        "WITH {} INSERT INTO set_aside (at, source, why, body)
         SELECT $1, $2, $3, to_json(taken)::text FROM taken",
        taken(table, 1)
    );
    tracing::error!(table, error = %why, "row set aside: it can't be folded");
    tx.execute(&sql, &[&now.as_millis(), &table, &why.to_string()]).await?;
    Ok(())
}

/// Folds only the change log, so that a read of it sees all earlier commits. Waits for the lock.
pub(crate) async fn log_changes(tx: &Transaction<'_>) -> Result<u64> {
    // A replica that folds may take a while; a suspended one loses its lock within this time.
    tx.batch_execute("SET LOCAL lock_timeout = 8000").await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&FOLD_LOCK]).await?;
    number_changes(tx).await
}

async fn take_turn(tx: &Transaction<'_>) -> Result<bool> {
    Ok(tx.query_one("SELECT pg_try_advisory_xact_lock($1)", &[&FOLD_LOCK]).await?.try_get(0)?)
}

/// Deletes rows of a table of deltas, which the same statement sums up.
fn taken(table: &str, rows: u32) -> String {
    format!("taken AS (DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} LIMIT {rows})) RETURNING *)")
}

async fn run(tx: &Transaction<'_>, sql: &str) -> Result<u64> {
    let row = tx.query_one(sql, &[]).await?;
    Ok(number(&row, 0)?.cast_unsigned())
}

fn counters(taken: &str) -> String {
    format!(
        "WITH {taken}, sums AS (
             SELECT state, tenant, queue, reason, detail, sum(n)::bigint AS n FROM taken
             GROUP BY state, tenant, queue, reason, detail
         ), own AS (
             INSERT INTO counts (state, tenant, queue, reason, detail, n)
             SELECT state, tenant, queue, reason, detail, n FROM sums WHERE n <> 0
             ON CONFLICT (state, tenant, queue, reason, detail) DO UPDATE SET n = counts.n + excluded.n
         ), over_all AS (
             INSERT INTO totals (state, queue, reason, detail, n)
             SELECT state, queue, reason, detail, sum(n)::bigint FROM sums GROUP BY state, queue, reason, detail
             HAVING sum(n) <> 0
             ON CONFLICT (state, queue, reason, detail) DO UPDATE SET n = totals.n + excluded.n
         )
         SELECT count(*) FROM taken"
    )
}

fn hours(taken: &str) -> String {
    format!(
        "WITH {taken}, own AS (
             INSERT INTO hours (hour, tenant, queue, reason, started, failed, retried, dead, recovered, succeeded)
             SELECT hour, tenant, queue, reason, sum(started)::bigint, sum(failed)::bigint, sum(retried)::bigint,
                 sum(dead)::bigint, sum(recovered)::bigint, sum(succeeded)::bigint
             FROM taken GROUP BY hour, tenant, queue, reason
             ON CONFLICT (hour, tenant, queue, reason) DO UPDATE SET started = hours.started + excluded.started,
                 failed = hours.failed + excluded.failed, retried = hours.retried + excluded.retried,
                 dead = hours.dead + excluded.dead, recovered = hours.recovered + excluded.recovered,
                 succeeded = hours.succeeded + excluded.succeeded
         )
         SELECT count(*) FROM taken"
    )
}

fn spend(taken: &str) -> String {
    format!(
        "WITH {taken}, own AS (
             INSERT INTO retry_spend (tenant, day, tokens, cost_micros)
             SELECT tenant, day, least(sum(tokens), {SUM_MAX})::bigint, least(sum(cost_micros), {SUM_MAX})::bigint
             FROM taken GROUP BY tenant, day
             ON CONFLICT (tenant, day) DO UPDATE SET
                 tokens = least(retry_spend.tokens::numeric + excluded.tokens, {SUM_MAX})::bigint,
                 cost_micros = least(retry_spend.cost_micros::numeric + excluded.cost_micros, {SUM_MAX})::bigint
         )
         SELECT count(*) FROM taken"
    )
}

/// Failures are counted in their hour. Hours that no read asks for any more are deleted, of patterns that have failed.
fn patterns(taken: &str, now: Timestamp) -> String {
    let oldest = now.hour().minus_ms(PATTERN_HOURS_KEPT_MS).as_millis();
    format!(
        "WITH {taken}, sums AS (
             SELECT pattern, sum(count)::bigint AS count, sum(open)::bigint AS open, max(at) AS at,
                 max(group_seen) AS group_seen
             FROM taken GROUP BY pattern
         ), own AS (
             UPDATE patterns SET count = patterns.count + sums.count, open = patterns.open + sums.open,
                 last_seen = greatest(patterns.last_seen, sums.at),
                 group_seen = greatest(patterns.group_seen, sums.group_seen)
             FROM sums WHERE patterns.id = sums.pattern
         ), by_hour AS (
             INSERT INTO pattern_hourly (pattern, hour, n)
             SELECT pattern, hour, sum(count)::bigint FROM taken WHERE count > 0 GROUP BY pattern, hour
             ON CONFLICT (pattern, hour) DO UPDATE SET n = pattern_hourly.n + excluded.n
         ), forgotten AS (
             DELETE FROM pattern_hourly WHERE hour < {oldest}
                 AND pattern IN (SELECT pattern FROM sums WHERE count > 0)
         )
         SELECT count(*) FROM taken"
    )
}

/// Numbers new changes without gaps. Only the holder of the lock does, so that a reader who has seen a number has seen all
/// lower ones: a commit that is still under way gets a later number.
async fn number_changes(tx: &Transaction<'_>) -> Result<u64> {
    let rows = tx.query(&format!("SELECT id, at FROM change_deltas LIMIT {FOLD_ROWS}"), &[]).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let mut ids = Vec::with_capacity(rows.len());
    let mut hours = Vec::new();
    for row in &rows {
        ids.push(number(row, 0)?);
        hours.push(Timestamp::from_millis(number(row, 1)?).hour());
    }
    hours.sort_unstable();
    hours.dedup();
    for hour in hours {
        create_partition(tx, hour).await?;
    }
    let moved = tx
        .execute(
            "WITH taken AS (DELETE FROM change_deltas WHERE id = ANY($1) RETURNING id, at, runs),
             head AS (UPDATE change_head SET seq = seq + (SELECT count(*) FROM taken) RETURNING seq)
             INSERT INTO changes (seq, at, runs)
             SELECT head.seq - (SELECT count(*) FROM taken) + row_number() OVER (ORDER BY taken.id), at, runs
             FROM taken CROSS JOIN head",
            &[&ids],
        )
        .await?;
    Ok(moved)
}

/// Creates the partition of an hour, then attaches it, so that no reader of the log waits.
pub(crate) async fn create_partition(tx: &Transaction<'_>, hour: Timestamp) -> Result<()> {
    let (from, to) = (hour.as_millis(), hour.plus_ms(HOUR_MS).as_millis());
    let name = partition_name(hour);
    let known = tx.query_one("SELECT to_regclass($1) IS NOT NULL", &[&name]).await?;
    if known.try_get(0)? {
        return Ok(());
    }
    tx.batch_execute(&format!(
        "CREATE TABLE {name} (LIKE changes INCLUDING ALL);
         ALTER TABLE changes ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({to})"
    ))
    .await?;
    Ok(())
}

pub(crate) fn partition_name(hour: Timestamp) -> String {
    format!("changes_{}", hour.as_millis())
}

/// The hour of a partition.
pub(crate) fn hour_of_partition(name: &str) -> Option<Timestamp> {
    name.strip_prefix("changes_")?.parse().ok().map(Timestamp::from_millis)
}
