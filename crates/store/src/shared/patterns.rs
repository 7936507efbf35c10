//! Patterns as they are shown: one tenant's, or all tenants' of one fingerprint as one.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::ids::Tenant;
use redrive_core::reason::Category;
use redrive_core::time::{DAY_MS, HOUR_MS, SECOND_MS, Timestamp};
use redrive_core::wire::{MergedPattern, PatternEntry, PatternEvent, PatternHour, PatternState, PatternView};

use crate::shared::columns::{
    Columns, flag, json, label_or_none, number, owned, owned_or_none, packed_note, parsed, time, time_or_none, whole,
};
use redrive_engine::error::PortResult as Result;
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::runs::document::word;

/// How far back a pattern's failures are told by the hour.
pub(crate) const PATTERN_HOURS_KEPT_MS: u64 = 7 * DAY_MS;
/// How far a pattern's place in lists may lag behind its last failure.
pub(crate) const GROUP_SEEN_LAG_MS: u64 = SECOND_MS;
/// Tenants that a row over all of them names.
const TENANTS_MAX: usize = 20;
/// Parts that a page names.
pub(crate) const PARTS_MAX: usize = 100;
/// Of many events, the last are shown.
pub(crate) const EVENTS_MAX: usize = 200;

/// A pattern as it is shown, and the rows behind it: one, or each tenant's.
pub(crate) struct Shown {
    pub(crate) view: PatternView,
    pub(crate) rows: Vec<i64>,
}

/// All tenants' patterns of one fingerprint as one, the last seen first; words are those of the last seen. Where every
/// tenant has merged it into another, what is left is what they merged.
pub(crate) fn rolled_up(key: FingerprintKey, mut parts: Vec<(i64, PatternView)>) -> Option<Shown> {
    if parts.iter().any(|(_, part)| part.merged_into.is_none()) {
        parts.retain(|(_, part)| part.merged_into.is_none());
    }
    let rows = parts.iter().map(|(id, _)| *id).collect();
    let tenants: BTreeSet<Tenant> = parts.iter().flat_map(|(_, part)| part.tenants.clone()).collect();
    let mut parts = parts.into_iter().map(|(_, part)| part);
    let mut whole = PatternView { id: key.to_string(), ..parts.next()? };
    parts.for_each(|part| fold(&mut whole, part));
    whole.tenants = tenants.into_iter().take(TENANTS_MAX).collect();
    Some(Shown { view: whole, rows })
}

fn fold(whole: &mut PatternView, part: PatternView) {
    whole.count += part.count;
    whole.open += part.open;
    whole.first_seen = whole.first_seen.min(part.first_seen);
    whole.regression |= part.regression;
    whole.owner = whole.owner.take().or(part.owner);
    if urgency(part.state) > urgency(whole.state) {
        whole.state = part.state;
        whole.muted_until = part.muted_until;
        whole.resolved_at = part.resolved_at;
        whole.resolved_in = part.resolved_in;
    }
}

pub(crate) fn urgency(state: PatternState) -> u8 {
    match state {
        PatternState::Resolved => 0,
        PatternState::Muted => 1,
        PatternState::Acknowledged => 2,
        PatternState::New => 3,
    }
}

pub(crate) fn view(row: &impl Columns) -> Result<PatternView> {
    let key = FingerprintKey { version: whole(row, 1, "fingerprint version")?, hash: number(row, 2)? };
    let state = word(PatternState::ALL, number(row, 10)?, "pattern state")?;
    let versions = owned_or_none(row, 17)?;
    Ok(PatternView {
        id: owned(row, 0)?,
        fingerprint: key.to_string(),
        template: owned(row, 3)?,
        reason: parsed(row, 4, "reason")?,
        category: word(&Category::ALL, number(row, 5)?, "category")?,
        count: whole(row, 6, "count")?,
        open: whole(row, 7, "open")?,
        first_seen: time(row, 8)?,
        last_seen: time(row, 9)?,
        state,
        regression: flag(row, 11)?,
        owner: label_or_none(row, 12)?,
        tenants: vec![parsed(row, 13, "tenant")?],
        muted_until: time_or_none(row, 15)?.filter(|_| state == PatternState::Muted),
        resolved_at: time_or_none(row, 16)?,
        resolved_in: versions.map(|text| json(&text, "resolved_in")).transpose()?,
        merged_into: owned_or_none(row, 18)?,
    })
}

/// What happened to a pattern, as a row has it.
pub(crate) fn event(row: &impl Columns) -> Result<PatternEntry> {
    Ok(PatternEntry {
        at: time(row, 0)?,
        tenant: parsed(row, 1, "tenant")?,
        actor: owned(row, 2)?,
        event: word(PatternEvent::ALL, number(row, 3)?, "pattern event")?,
        about: owned_or_none(row, 4)?,
        note: packed_note(row, 5)?,
    })
}

/// Of all these events, the oldest first, the last that are shown.
pub(crate) fn last_events(mut events: Vec<PatternEntry>) -> Vec<PatternEntry> {
    events.sort_by_key(|event| event.at);
    events.split_off(events.len().saturating_sub(EVENTS_MAX))
}

/// `row`: its number, id, fingerprint's version and hash, template, count, open.
pub(crate) fn part(row: &impl Columns) -> Result<(i64, MergedPattern)> {
    let part = MergedPattern {
        id: owned(row, 1)?,
        fingerprint: FingerprintKey { version: whole(row, 2, "fingerprint version")?, hash: number(row, 3)? }
            .to_string(),
        template: owned(row, 4)?,
        count: whole(row, 5, "count")?,
        open: whole(row, 6, "open")?,
    };
    Ok((number(row, 0)?, part))
}

/// The hours that a pattern's failures are told by: the first of them, and the one after the last.
pub(crate) fn hours_told(now: Timestamp) -> (Timestamp, Timestamp) {
    let before = now.hour().plus_ms(HOUR_MS);
    (before.minus_ms(PATTERN_HOURS_KEPT_MS), before)
}

/// Every hour of the span, also those in which nothing happened.
pub(crate) fn each_hour(failed: &BTreeMap<Timestamp, u64>, now: Timestamp) -> Vec<PatternHour> {
    let (first, before) = hours_told(now);
    let each = std::iter::successors(Some(first), |hour| Some(hour.plus_ms(HOUR_MS))).take_while(|hour| *hour < before);
    each.map(|hour| PatternHour { hour, failed: failed.get(&hour).copied().unwrap_or(0) }).collect()
}
