//! A breaker lets go: held runs become due again, the tenants in turn, a little apart so that no crowd comes at once. One
//! that is half open lets go of one run, to find out.

use std::collections::{HashMap, VecDeque};

use redrive_core::breaker::{BreakerStateName, Key, PREFIX};
use redrive_core::lifecycle::Event as Move;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;

use crate::breakers::cache;
use crate::breakers::cache::{Offer, Releasing};
use crate::breakers::gate;
use crate::error::Result;
use crate::ledger::steps;
use crate::model::Swept;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::set_aside;
use crate::tx::Tx;

/// How far apart released runs come up: five hundred a second of one holder.
const APART_MS: u64 = 2;
/// How far ahead of the clock runs are let go; what comes later waits where everybody sees it is held.
const AHEAD_MS: u64 = 2_000;
/// A run that is offered as the probe and not begun for so long makes way for others.
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
    let ours = |name: &Label| name.as_str().starts_with(PREFIX);
    while let Some(next) = tx.rows.next_holder(&holder)?.filter(ours) {
        holder = next;
        swept.looked_at += 1;
        swept.moved += match stands(tx, open.get(&holder)) {
            (BreakerStateName::Closed, _) => let_go(tx, &holder, most - swept.moved)?,
            (BreakerStateName::HalfOpen, false) => offer(tx, &holder, most - swept.moved)?,
            (BreakerStateName::HalfOpen, true) | (BreakerStateName::Open, _) => 0,
        };
        if swept.moved >= most {
            return Ok(Swept { more: true, ..swept });
        }
    }
    Ok(swept)
}

/// How a holder stands, and whether a probe is under way. One that nobody knows any more holds nothing.
fn stands(tx: &Tx<'_>, open: Option<&Key>) -> (BreakerStateName, bool) {
    open.and_then(|key| tx.known.breakers.all.get(key)).map_or((BreakerStateName::Closed, false), |breaker| {
        let probing = breaker.admits(redrive_core::breaker::Asker::Retry) == redrive_core::breaker::Admission::Hold;
        (breaker.name(), probing)
    })
}

/// The tenants with runs that the holder holds, beginning after the one served last; at most so many.
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

/// Lets go of up to `most` runs, the first of each tenant, then the second of each, each a little after the last.
fn let_go(tx: &mut Tx<'_>, holder: &Label, most: usize) -> Result<usize> {
    let mut at = tx.known.breakers.releases.get(holder).copied().unwrap_or_default();
    let ahead = tx.now.plus_ms(AHEAD_MS);
    let room = usize::try_from(ahead.since(at.up_to.max(tx.now)) / APART_MS).unwrap_or(usize::MAX);
    let most = most.min(room);
    let tenants = tenants_in_turn(tx, holder, at.after, most)?;
    let share = most.div_ceil(tenants.len().max(1));
    let mut hands = Vec::new();
    for tenant in tenants {
        hands.push(VecDeque::from(set_aside::readable(tx, |rows| rows.held_runs(holder, tenant, share))?));
    }
    let mut moved = 0;
    while moved < most && hands.iter().any(|hand| !hand.is_empty()) {
        for hand in &mut hands {
            let Some(row) = hand.pop_front().filter(|_| moved < most) else { continue };
            at.up_to = at.up_to.plus_ms(APART_MS).max(tx.now);
            at.after = row.tenant;
            unhold(tx, row, at.up_to)?;
            moved += 1;
        }
    }
    tx.known.breakers.releases.insert(holder.clone(), Releasing { offer: None, ..at });
    if moved == 0 && room > 0 {
        tx.known.breakers.releases.remove(holder);
    }
    Ok(moved)
}

/// Makes one run due, and no other while that one may still be taken. One that was deferred, given back or closed makes
/// way at once. One that nobody takes in time makes way for twice as many: they may lie in a queue that nobody serves, and
/// whichever is begun first is the probe, the others are held again.
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
            (at.after, at.offer) = (tenant, Some(Offer { run: row.id, runs: moved, at: now }));
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
