//! May this attempt begin? Asked in the transaction that begins it, so that over all workers one probe goes through.

use redrive_core::breaker::{Admission, Asker, Event, Key, Probe, State, StateName};
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

/// The breakers that an attempt finds out about.
#[derive(Debug, Default)]
pub struct Probes(Vec<Key>);

#[derive(Debug)]
pub enum GateDecision {
    Open(Probes),
    Held(Label),
}

/// Whether the next attempt of a run may begin. Reads nothing while every breaker is closed.
pub fn gate(tx: &mut Tx<'_>, row: &RunRow) -> Result<GateDecision> {
    if !cache::any_breaker_open(tx)? {
        return Ok(GateDecision::Open(Probes::default()));
    }
    let (_, policy) = run_row::rules_of(tx, row)?;
    let asker = if row.run.is_replay() { Asker::Replay } else { Asker::Retry };
    let mut probes = Probes::default();
    for key in standing_open(tx, row, &policy.breaker)? {
        let Some(breaker) = tx.known.breakers.all.get(&key) else { continue };
        match breaker.admits(asker) {
            Admission::Pass => {}
            Admission::Probe => probes.0.push(key),
            Admission::Hold => return Ok(GateDecision::Held(key.name())),
        }
    }
    Ok(GateDecision::Open(probes))
}

/// Breakers are advice to whoever begins by its own clock; it may still be the one that finds out.
pub fn gate_as_advice(tx: &mut Tx<'_>, row: &RunRow, policy: &Policy) -> Result<Probes> {
    if !cache::any_breaker_open(tx)? {
        return Ok(Probes::default());
    }
    let mut keys = standing_open(tx, row, &policy.breaker)?;
    let all = &tx.known.breakers.all;
    keys.retain(|key| all.get(key).is_some_and(|breaker| breaker.admits(Asker::Retry) == Admission::Probe));
    Ok(Probes(keys))
}

/// The run's breakers that are not closed, as they stand now. Where breakers are off only a person's word counts.
fn standing_open(tx: &mut Tx<'_>, row: &RunRow, settings: &BreakerSettings) -> Result<Vec<Key>> {
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

/// An open breaker that names share speaks for those that have none of their own.
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

/// A probe is under way only while its run is, under the same lease: however it ended, the slot is free.
pub fn free_lost_probe(tx: &mut Tx<'_>, key: &Key, settings: &BreakerSettings) -> Result<()> {
    let probe = match tx.known.breakers.all.get(key).map(|breaker| &breaker.state) {
        Some(State::HalfOpen { probe: Some(probe), .. }) => *probe,
        Some(State::HalfOpen { probe: None, .. } | State::Open { .. } | State::Closed { .. }) | None => {
            return Ok(());
        }
    };
    if !tx.rows.is_under_way(probe.run, probe.epoch)? {
        cache::move_breaker(tx, key, &Event::ProbeLost(probe), settings)?;
    }
    Ok(())
}

/// The attempt has begun: it carries its generation, and the slots it was let through for are taken.
pub fn begun(tx: &mut Tx<'_>, row: &mut RunRow, probes: Probes, policy: &Policy) -> Result<()> {
    row.generation = cache::generation(tx)?;
    let probe = Probe { run: row.id, epoch: row.run.epoch };
    for key in probes.0 {
        cache::move_breaker(tx, &key, &Event::ProbeGranted(probe), &policy.breaker)?;
    }
    Ok(())
}

/// A due run waits for its holder instead.
pub fn hold(tx: &mut Tx<'_>, mut row: RunRow, by: Label) -> Result<()> {
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let before = row.clone();
    row.run = row.ask(&Move::Hold { by }, &policy, tx.now)?.run;
    run_row::save(tx, &before, &row)
}

/// What holds the retries of a run, for the verdict on its failure.
pub fn look_at_breakers(tx: &mut Tx<'_>, row: &mut RunRow, policy: &Policy) -> Result<()> {
    if !cache::any_breaker_open(tx)? {
        return Ok(());
    }
    let keys = standing_open(tx, row, &policy.breaker)?;
    let all = &tx.known.breakers.all;
    let holds = keys.iter().filter(|key| {
        all.get(key).is_some_and(|breaker| match breaker.name() {
            StateName::Open => true,
            // One that is half open is asked when the retry is due.
            StateName::HalfOpen | StateName::Closed => false,
        })
    });
    row.run.around.holds = holds.map(|key| Hold { by: key.name(), of_model: key.is_of_a_model() }).collect();
    Ok(())
}

/// How the breakers of a run stand, the worst of them.
pub fn breaker_state(tx: &mut Tx<'_>, row: &RunRow) -> Result<StateName> {
    if !cache::any_breaker_open(tx)? {
        return Ok(StateName::Closed);
    }
    let mut keys = cache::keys_of(tx, row)?;
    add_shared(tx, &mut keys)?;
    let all = &tx.known.breakers.all;
    Ok(worst(keys.iter().filter_map(|key| all.get(key)).map(|breaker| breaker.name())))
}

/// What a plan tells of breakers: the first that stands open, a person's before any other. It moves none: what time
/// has changed is found out by whoever is let through.
pub fn open_breaker(tx: &mut Tx<'_>, row: &RunRow, policy: &Policy) -> Result<Option<OpenBreaker>> {
    if !cache::any_breaker_open(tx)? {
        return Ok(None);
    }
    let keys = cache::keys_of(tx, row)?;
    let (known, now) = (&tx.known.breakers, tx.now);
    let standing = keys.iter().filter(|key| known.open.contains(*key)).filter_map(|key| {
        let breaker = known.all.get(key)?;
        let is_over = matches!(breaker.state, State::Open { until: Some(until), .. } if until <= now);
        let by_hand = breaker.is_by_hand() && !is_over;
        (policy.breaker.on || by_hand).then(|| OpenBreaker { name: key.name(), by_hand })
    });
    let mut open: Vec<OpenBreaker> = standing.collect();
    open.sort_by_key(|breaker| !breaker.by_hand);
    Ok(open.into_iter().next())
}

pub(super) fn worst(states: impl Iterator<Item = StateName>) -> StateName {
    let badness = |state: &StateName| match state {
        StateName::Closed => 0,
        StateName::HalfOpen => 1,
        StateName::Open => 2,
    };
    states.max_by_key(badness).unwrap_or(StateName::Closed)
}
