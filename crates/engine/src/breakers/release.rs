//! Releases held runs: all runs of a closed breaker at a limited rate, round robin over tenants; one run of a half-open
//! breaker as its probe.

use std::collections::{HashMap, VecDeque};

use redrive_core::breaker::{BreakerStateName, Key, PREFIX};
use redrive_core::lifecycle::Event as Move;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;

use crate::breakers::cache;
use crate::breakers::cache::{ProbeOffer, ReleaseProgress};
use crate::breakers::gate;
use crate::error::Result;
use crate::ledger::steps;
use crate::model::Swept;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::set_aside;
use crate::tx::Tx;

/// The time between released runs of one breaker: 500 per second.
const APART_MS: u64 = 2;
/// How far ahead runs are released; later ones stay visibly on hold.
const AHEAD_MS: u64 = 2_000;
/// A run offered as the probe that is not begun in this time is followed by others.
const PROBE_TAKEN_WITHIN_MS: u64 = 30_000;

pub fn release_held(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    let most = tx.pace.runs_max(most);
    cache::lock_breakers(tx)?;
    for key in tx.known.breakers.open.iter().cloned().collect::<Vec<_>>() {
        let settings = cache::settings_of(tx, &key);
        cache::tick(tx, &key, &settings)?;
        gate::free_lost_probe(tx, &key, &settings)?;
    }
    let open: HashMap<Label, Key> = tx.known.breakers.open.iter().map(|key| (key.name(), key.clone())).collect();
    let mut swept = Swept::default();
    let mut holder = Label::from(PREFIX);
    let is_breaker = |name: &Label| name.as_str().starts_with(PREFIX);
    while let Some(next) = tx.rows.next_holder(&holder)?.filter(is_breaker) {
        holder = next;
        swept.looked_at += 1;
        swept.moved += match state_of(tx, open.get(&holder)) {
            (BreakerStateName::Closed, _) => release(tx, &holder, most - swept.moved)?,
            (BreakerStateName::HalfOpen, false) => offer(tx, &holder, most - swept.moved)?,
            (BreakerStateName::HalfOpen, true) | (BreakerStateName::Open, _) => 0,
        };
        if swept.moved >= most {
            return Ok(Swept { more: true, ..swept });
        }
    }
    Ok(swept)
}

/// The state of a breaker, and whether a probe is under way. An unknown breaker counts as closed.
fn state_of(tx: &Tx<'_>, open: Option<&Key>) -> (BreakerStateName, bool) {
    open.and_then(|key| tx.known.breakers.all.get(key)).map_or((BreakerStateName::Closed, false), |breaker| {
        let probing = breaker.admits(redrive_core::breaker::Asker::Retry) == redrive_core::breaker::Admission::Hold;
        (breaker.name(), probing)
    })
}

/// Up to `most` tenants with runs that the breaker holds, beginning after the one served last.
fn tenants_in_turn(tx: &mut Tx<'_>, holder: &Label, after: i64, most: usize) -> Result<Vec<i64>> {
    let mut tenants = Vec::new();
    for (from, up_to) in [(after, i64::MAX), (i64::MIN, after)] {
        let mut at = from;
        while tenants.len() < most {
            let next = tx.rows.next_held_tenant(holder, at)?;
            let Some(next) = next.filter(|next| *next <= up_to) else { break };
            tenants.push(next);
            at = next;
        }
    }
    Ok(tenants)
}

/// Releases up to `most` runs: the first of each tenant, then the second of each, spaced in time.
fn release(tx: &mut Tx<'_>, holder: &Label, most: usize) -> Result<usize> {
    let mut at = tx.known.breakers.releases.get(holder).copied().unwrap_or_default();
    let ahead = tx.now.plus_ms(AHEAD_MS);
    let room = usize::try_from(ahead.since(at.up_to.max(tx.now)) / APART_MS).unwrap_or(usize::MAX);
    let most = most.min(room);
    let tenants = tenants_in_turn(tx, holder, at.after, most)?;
    let share = most.div_ceil(tenants.len().max(1));
    let mut by_tenant = Vec::new();
    for tenant in tenants {
        by_tenant.push(VecDeque::from(set_aside::readable(tx, |rows| rows.held_runs(holder, tenant, share))?));
    }
    let mut moved = 0;
    while moved < most && by_tenant.iter().any(|runs| !runs.is_empty()) {
        for runs in &mut by_tenant {
            let Some(row) = runs.pop_front().filter(|_| moved < most) else { continue };
            at.up_to = at.up_to.plus_ms(APART_MS).max(tx.now);
            at.after = row.tenant;
            unhold(tx, row, at.up_to)?;
            moved += 1;
        }
    }
    tx.known.breakers.releases.insert(holder.clone(), ReleaseProgress { offer: None, ..at });
    if moved == 0 && room > 0 {
        tx.known.breakers.releases.remove(holder);
    }
    Ok(moved)
}

/// Makes one run due as the probe, and no other while that one waits for a worker. If no worker takes it in time, twice as
/// many follow, since its queue may have no workers. The first one that begins is the probe; the others are held again.
fn offer(tx: &mut Tx<'_>, holder: &Label, most: usize) -> Result<usize> {
    let mut at = tx.known.breakers.releases.get(holder).copied().unwrap_or_default();
    let now = tx.now;
    let count = match at.offer {
        Some(offer) if tx.rows.is_due(offer.run, now)? => {
            if now.since(offer.at) < PROBE_TAKEN_WITHIN_MS {
                return Ok(0);
            }
            offer.runs.saturating_mul(2).min(most)
        }
        Some(_) | None => 1,
    };
    let tenants = tenants_in_turn(tx, holder, at.after, count)?;
    let share = count.div_ceil(tenants.len().max(1));
    let mut moved = 0;
    for tenant in tenants {
        for row in set_aside::readable(tx, |rows| rows.held_runs(holder, tenant, share.min(count - moved)))? {
            moved += 1;
            (at.after, at.offer) = (tenant, Some(ProbeOffer { run: row.id, runs: moved, at: now }));
            unhold(tx, row, now)?;
        }
    }
    tx.known.breakers.releases.insert(holder.clone(), at);
    Ok(moved)
}

fn unhold(tx: &mut Tx<'_>, mut row: RunRow, due: Timestamp) -> Result<()> {
    let before = row.clone();
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let Some(moved) = set_aside::ask_for_service(tx, &row, &Move::Unhold { due }, &policy)? else { return Ok(()) };
    steps::carry_out(tx, &row, &moved.effects)?;
    row.run = moved.run;
    run_row::save(tx, &before, &row)
}
