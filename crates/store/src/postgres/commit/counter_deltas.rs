//! Counter changes of a commit, appended as deltas so that no commit waits for another's counter. `fold` sums them up later.

use redrive_core::time::Timestamp;

use crate::postgres::commit::write_out::{Write, column};
use redrive_engine::counters::{CountKey, CounterDeltas, HourCounts, HourKey};

/// The statements of [`append`].
pub(crate) const STATEMENTS: &[&str] = &[COUNTS, HOURS, PATTERNS, SPEND, CHANGES];

pub(crate) fn append(tally: &CounterDeltas, now: Timestamp) -> impl Iterator<Item = Write<'_>> {
    let appended = [counts(tally), hours(tally), patterns(tally, now), spend(tally, now), changes(tally, now)];
    appended.into_iter().flatten()
}

const COUNTS: &str = "INSERT INTO counter_deltas (state, tenant, queue, detail, n, reason)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::bigint[]),
         unnest($6::text[])";

fn counts(tally: &CounterDeltas) -> Option<Write<'_>> {
    let rows: Vec<(&CountKey, i64)> = tally.counts.iter().map(|(at, n)| (at, *n)).filter(|(_, n)| *n != 0).collect();
    let columns = [
        column(&rows, |(at, _)| at.state),
        column(&rows, |(at, _)| at.tenant),
        column(&rows, |(at, _)| at.queue),
        column(&rows, |(at, _)| at.detail),
        column(&rows, |(_, n)| *n),
        column(&rows, |(at, _)| &*at.reason),
    ];
    (!rows.is_empty()).then(|| Write::new(COUNTS, columns))
}

const HOURS: &str = "INSERT INTO hour_deltas (hour, tenant, queue, started, failed, retried, dead, recovered, succeeded, reason)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::bigint[]),
         unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]), unnest($9::bigint[]), unnest($10::text[])";

fn hours(tally: &CounterDeltas) -> Option<Write<'_>> {
    let rows: Vec<(&HourKey, &HourCounts)> = tally.hours.iter().collect();
    let kind = |n: usize| column(&rows, move |(_, kinds)| kinds[n]);
    let columns = [
        column(&rows, |(at, _)| at.hour),
        column(&rows, |(at, _)| at.tenant),
        column(&rows, |(at, _)| at.queue),
        kind(0),
        kind(1),
        kind(2),
        kind(3),
        kind(4),
        kind(5),
        column(&rows, |(at, _)| at.reason.as_deref().unwrap_or_default()),
    ];
    (!rows.is_empty()).then(|| Write::new(HOURS, columns))
}

const PATTERNS: &str = "INSERT INTO pattern_deltas (pattern, hour, count, open, at, group_seen)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::bigint[]),
         unnest($6::bigint[])";

fn patterns(tally: &CounterDeltas, now: Timestamp) -> Option<Write<'_>> {
    let counts =
        |delta: &redrive_engine::counters::PatternDelta| delta.count != 0 || delta.open != 0 || delta.group_seen;
    let rows: Vec<_> = tally.patterns.iter().filter(|(_, delta)| counts(delta)).collect();
    let (hour, now) = (now.hour().as_millis(), now.as_millis());
    let columns = [
        column(&rows, |(pattern, _)| **pattern),
        column(&rows, |_| hour),
        column(&rows, |(_, delta)| delta.count),
        column(&rows, |(_, delta)| delta.open),
        column(&rows, |(_, delta)| if delta.count > 0 { now } else { 0 }),
        column(&rows, |(_, delta)| if delta.group_seen { now } else { 0 }),
    ];
    (!rows.is_empty()).then(|| Write::new(PATTERNS, columns))
}

const SPEND: &str = "INSERT INTO spend_deltas (tenant, day, tokens, cost_micros)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[])";

fn spend(tally: &CounterDeltas, now: Timestamp) -> Option<Write<'_>> {
    // Capped below the column's maximum, which is past every budget.
    let most = |n: u64| i64::try_from(n).unwrap_or(i64::MAX).min(i64::MAX / 2);
    let rows: Vec<_> = tally.spend.iter().collect();
    let day = now.day().as_millis();
    let columns = [
        column(&rows, |(tenant, _)| **tenant),
        column(&rows, |_| day),
        column(&rows, |(_, spend)| most(spend.tokens)),
        column(&rows, |(_, spend)| most(spend.cost.micros())),
    ];
    (!rows.is_empty()).then(|| Write::new(SPEND, columns))
}

const CHANGES: &str = "INSERT INTO change_deltas (at, runs) VALUES ($1, $2)";

fn changes(tally: &CounterDeltas, now: Timestamp) -> Option<Write<'_>> {
    let mut moved = tally.moved.clone();
    moved.sort_unstable();
    moved.dedup();
    let bytes: Vec<u8> = moved.iter().flat_map(|run| run.to_le_bytes()).collect();
    (!moved.is_empty()).then(|| Write::new(CHANGES, []).with(now.as_millis()).with(bytes))
}
