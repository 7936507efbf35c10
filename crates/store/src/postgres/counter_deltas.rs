//! What a commit changed in the figures, appended: no commit waits for another's counter. `fold` sums them up later.

use redrive_core::time::Timestamp;
use tokio_postgres::types::ToSql;

use super::array::column;
use super::connection::Session;
use super::write_out::over;
use crate::commands::tally::{Count, Hour, Kinds, Tally};

type Sent = std::result::Result<u64, tokio_postgres::Error>;

/// All that [`append`] may send.
pub(super) const STATEMENTS: &[&str] = &[COUNTS, HOURS, PATTERNS, SPEND, CHANGES];

pub(super) async fn append(session: &Session, counted: Option<&(Tally, Timestamp)>) -> Sent {
    let Some((tally, now)) = counted else { return Ok(0) };
    let sent = tokio::join!(
        biased;
        counts(session, tally),
        hours(session, tally),
        patterns(session, tally, *now),
        spend(session, tally, *now),
        changes(session, tally, *now),
    );
    Ok(sent.0? + sent.1? + sent.2? + sent.3? + sent.4?)
}

const COUNTS: &str = "INSERT INTO counter_deltas (state, tenant, queue, detail, n, reason)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::bigint[]),
         unnest($6::text[])";

async fn counts(session: &Session, tally: &Tally) -> Sent {
    let rows: Vec<(&Count, i64)> = tally.counts.iter().map(|(at, n)| (at, *n)).filter(|(_, n)| *n != 0).collect();
    let values: [&(dyn ToSql + Sync); 6] = [
        &column(&rows, |(at, _)| at.state),
        &column(&rows, |(at, _)| at.tenant),
        &column(&rows, |(at, _)| at.queue),
        &column(&rows, |(at, _)| at.detail),
        &column(&rows, |(_, n)| *n),
        &column(&rows, |(at, _)| &*at.reason),
    ];
    over(session, rows.len(), COUNTS, &values).await
}

const HOURS: &str = "INSERT INTO hour_deltas (hour, tenant, queue, started, failed, retried, dead, recovered, succeeded, reason)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::bigint[]),
         unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]), unnest($9::bigint[]), unnest($10::text[])";

async fn hours(session: &Session, tally: &Tally) -> Sent {
    let rows: Vec<(&Hour, &Kinds)> = tally.hours.iter().collect();
    let kind = |n: usize| column(&rows, move |(_, kinds)| kinds[n]);
    let values: [&(dyn ToSql + Sync); 10] = [
        &column(&rows, |(at, _)| at.hour),
        &column(&rows, |(at, _)| at.tenant),
        &column(&rows, |(at, _)| at.queue),
        &kind(0),
        &kind(1),
        &kind(2),
        &kind(3),
        &kind(4),
        &kind(5),
        &column(&rows, |(at, _)| at.reason.as_deref().unwrap_or_default()),
    ];
    over(session, rows.len(), HOURS, &values).await
}

const PATTERNS: &str = "INSERT INTO pattern_deltas (pattern, hour, count, open, at, group_seen)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::bigint[]),
         unnest($6::bigint[])";

async fn patterns(session: &Session, tally: &Tally, now: Timestamp) -> Sent {
    let told = |delta: &crate::commands::tally::PatternDelta| delta.count != 0 || delta.open != 0 || delta.group_seen;
    let rows: Vec<_> = tally.patterns.iter().filter(|(_, delta)| told(delta)).collect();
    let (hour, now) = (now.hour().as_millis(), now.as_millis());
    let values: [&(dyn ToSql + Sync); 6] = [
        &column(&rows, |(pattern, _)| **pattern),
        &column(&rows, |_| hour),
        &column(&rows, |(_, delta)| delta.count),
        &column(&rows, |(_, delta)| delta.open),
        &column(&rows, |(_, delta)| if delta.count > 0 { now } else { 0 }),
        &column(&rows, |(_, delta)| if delta.group_seen { now } else { 0 }),
    ];
    over(session, rows.len(), PATTERNS, &values).await
}

const SPEND: &str = "INSERT INTO spend_deltas (tenant, day, tokens, cost_micros)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[])";

async fn spend(session: &Session, tally: &Tally, now: Timestamp) -> Sent {
    // A sum that would pass what the column holds stays at its end: past every budget is past every budget.
    let most = |n: u64| i64::try_from(n).unwrap_or(i64::MAX).min(i64::MAX / 2);
    let rows: Vec<_> = tally.spend.iter().collect();
    let day = now.day().as_millis();
    let values: [&(dyn ToSql + Sync); 4] = [
        &column(&rows, |(tenant, _)| **tenant),
        &column(&rows, |_| day),
        &column(&rows, |(_, spend)| most(spend.tokens)),
        &column(&rows, |(_, spend)| most(spend.cost.micros())),
    ];
    over(session, rows.len(), SPEND, &values).await
}

const CHANGES: &str = "INSERT INTO change_deltas (at, runs) VALUES ($1, $2)";

async fn changes(session: &Session, tally: &Tally, now: Timestamp) -> Sent {
    let mut moved = tally.moved.clone();
    moved.sort_unstable();
    moved.dedup();
    let bytes: Vec<u8> = moved.iter().flat_map(|run| run.to_le_bytes()).collect();
    over(session, moved.len(), CHANGES, &[&now.as_millis(), &bytes]).await
}
