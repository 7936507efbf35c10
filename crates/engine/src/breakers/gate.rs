//! Decides whether an attempt may begin, in the transaction that begins it, so that one probe passes over all workers.

use redrive_core::breaker::{Admission, Asker, BreakerEvent, BreakerState, BreakerStateName, Key, Probe};
use redrive_core::lifecycle::Event as Move;
use redrive_core::plan::OpenBreaker;
use redrive_core::policy::{BreakerSettings, Policy};
use redrive_core::run::Hold;
use redrive_core::text::Label;

use crate::breakers::cache;
use crate::error::Result;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// The half-open breakers that an attempt probes.
#[derive(Debug, Default)]
pub struct Probes(Vec<Key>);

#[derive(Debug)]
pub enum GateDecision {
    Open(Probes),
    /// By the breaker of this name.
    Held(Label),
}

/// Whether the next attempt of a run may begin. Free while every breaker is closed.
pub fn gate(tx: &mut Tx<'_>, row: &RunRow) -> Result<GateDecision> {
    if !cache::any_breaker_open(tx)? {
        return Ok(GateDecision::Open(Probes::default()));
    }
    let (_, policy) = run_row::rules_of(tx, row)?;
    let asker = if row.run.is_replay() { Asker::Replay } else { Asker::Retry };
    let mut probes = Probes::default();
    for key in open_breakers(tx, row, &policy.breaker)? {
        let Some(breaker) = tx.known.breakers.all.get(&key) else { continue };
        match breaker.admits(asker) {
            Admission::Pass => {}
            Admission::Probe => probes.0.push(key),
            Admission::Hold => return Ok(GateDecision::Held(key.name())),
        }
    }
    Ok(GateDecision::Open(probes))
}

/// For callers that retry by themselves: breakers do not hold the attempt, but it may be the probe.
pub fn gate_as_advice(tx: &mut Tx<'_>, row: &RunRow, policy: &Policy) -> Result<Probes> {
    if !cache::any_breaker_open(tx)? {
        return Ok(Probes::default());
    }
    let mut keys = open_breakers(tx, row, &policy.breaker)?;
    let all = &tx.known.breakers.all;
    keys.retain(|key| all.get(key).is_some_and(|breaker| breaker.admits(Asker::Retry) == Admission::Probe));
    Ok(Probes(keys))
}

/// The run's breakers that are not closed now. Where the policy turns breakers off, only manually opened ones.
fn open_breakers(tx: &mut Tx<'_>, row: &RunRow, settings: &BreakerSettings) -> Result<Vec<Key>> {
    let mut keys = cache::keys_of(tx, row)?;
    add_shared(tx, &mut keys)?;
    keys.retain(|key| tx.known.breakers.open.contains(key));
    if !keys.is_empty() {
        cache::lock_breakers(tx)?;
    }
    for key in &keys {
        cache::tick(tx, key, settings)?;
        free_lost_probe(tx, key, settings)?;
    }
    let known = &tx.known.breakers;
    keys.retain(|key| {
        known.open.contains(key) && (settings.on || known.all.get(key).is_some_and(|it| it.is_by_hand()))
    });
    Ok(keys)
}

/// Adds the shared breaker of further names, for names without a breaker of their own.
fn add_shared(tx: &mut Tx<'_>, keys: &mut Vec<Key>) -> Result<()> {
    let open = &tx.known.breakers.open;
    let is_open = |key: &Key| key.other().is_some_and(|other| open.contains(&other));
    let concerned: Vec<Key> = keys.iter().filter(|key| is_open(key)).cloned().collect();
    if concerned.is_empty() {
        return Ok(());
    }
    cache::know_breakers(tx, &concerned)?;
    let known = &tx.known.breakers;
    keys.extend(concerned.iter().filter(|key| known.is_blank(key)).filter_map(Key::other));
    Ok(())
}

/// Frees the slot of a probe whose run is no longer under the same lease.
pub fn free_lost_probe(tx: &mut Tx<'_>, key: &Key, settings: &BreakerSettings) -> Result<()> {
    let probe = match tx.known.breakers.all.get(key).map(|breaker| &breaker.state) {
        Some(BreakerState::HalfOpen { probe: Some(probe), .. }) => *probe,
        Some(BreakerState::HalfOpen { probe: None, .. } | BreakerState::Open { .. } | BreakerState::Closed { .. })
        | None => {
            return Ok(());
        }
    };
    if !tx.rows.is_under_way(probe.run, probe.epoch)? {
        cache::move_breaker(tx, key, &BreakerEvent::ProbeLost(probe), settings)?;
    }
    Ok(())
}

/// Records the generation of an attempt that begins, and takes the slots of its probes.
pub fn begun(tx: &mut Tx<'_>, row: &mut RunRow, probes: Probes, policy: &Policy) -> Result<()> {
    row.generation = cache::generation(tx)?;
    let probe = Probe { run: row.id, epoch: row.run.epoch };
    for key in probes.0 {
        cache::move_breaker(tx, &key, &BreakerEvent::ProbeGranted(probe), &policy.breaker)?;
    }
    Ok(())
}

/// Puts a due run on hold.
pub fn hold(tx: &mut Tx<'_>, mut row: RunRow, by: Label) -> Result<()> {
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let before = row.clone();
    row.run = row.ask(&Move::Hold { by }, &policy, tx.now)?.run;
    run_row::save(tx, &before, &row)
}

/// Loads the breakers that hold retries of a run, for its verdict.
pub fn load_holds(tx: &mut Tx<'_>, row: &mut RunRow, policy: &Policy) -> Result<()> {
    if !cache::any_breaker_open(tx)? {
        return Ok(());
    }
    let keys = open_breakers(tx, row, &policy.breaker)?;
    let all = &tx.known.breakers.all;
    let holds = keys.iter().filter(|key| {
        all.get(key).is_some_and(|breaker| match breaker.name() {
            BreakerStateName::Open => true,
            // A half-open breaker is checked when the retry is due.
            BreakerStateName::HalfOpen | BreakerStateName::Closed => false,
        })
    });
    row.run.around.holds = holds.map(|key| Hold { by: key.name(), of_model: key.is_of_a_model() }).collect();
    Ok(())
}

/// The worst state of the breakers of a run.
pub fn breaker_state(tx: &mut Tx<'_>, row: &RunRow) -> Result<BreakerStateName> {
    if !cache::any_breaker_open(tx)? {
        return Ok(BreakerStateName::Closed);
    }
    let mut keys = cache::keys_of(tx, row)?;
    add_shared(tx, &mut keys)?;
    let all = &tx.known.breakers.all;
    Ok(worst(keys.iter().filter_map(|key| all.get(key)).map(|breaker| breaker.name())))
}

/// The open breaker that a plan shows; a manually opened one first. It changes no breaker.
pub fn open_breaker(tx: &mut Tx<'_>, row: &RunRow, policy: &Policy) -> Result<Option<OpenBreaker>> {
    if !cache::any_breaker_open(tx)? {
        return Ok(None);
    }
    let keys = cache::keys_of(tx, row)?;
    let (known, now) = (&tx.known.breakers, tx.now);
    let standing = keys.iter().filter(|key| known.open.contains(*key)).filter_map(|key| {
        let breaker = known.all.get(key)?;
        let is_over = matches!(breaker.state, BreakerState::Open { until: Some(until), .. } if until <= now);
        let by_hand = breaker.is_by_hand() && !is_over;
        (policy.breaker.on || by_hand).then(|| OpenBreaker { name: key.name(), by_hand })
    });
    let mut open: Vec<OpenBreaker> = standing.collect();
    open.sort_by_key(|breaker| !breaker.by_hand);
    Ok(open.into_iter().next())
}

pub(super) fn worst(states: impl Iterator<Item = BreakerStateName>) -> BreakerStateName {
    let badness = |state: &BreakerStateName| match state {
        BreakerStateName::Closed => 0,
        BreakerStateName::HalfOpen => 1,
        BreakerStateName::Open => 2,
    };
    states.max_by_key(badness).unwrap_or(BreakerStateName::Closed)
}
