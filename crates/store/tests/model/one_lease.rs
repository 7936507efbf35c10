//! Everything at once under one lease: parallel tool calls, heartbeats, endings and a cancel, committed in any order. The
//! laws: one call at a time does an effect, once in all; an attempt ends once; an effect without an outcome is in doubt.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::wire::StepStatus;
use redrive_engine::{Error, NewStep, Store, Triage, TriageAct, UnderLease};

use crate::lot::Lot;
use crate::play::at_once;
use crate::world::{World, at, failed, start, step, success};

const KEYS: usize = 2;
const WORDS: [&str; 2] = ["Request timed out", "KeyError: 'total'"];

/// What was seen, and how often: an unseen kind fails the test.
pub type Seen = BTreeMap<&'static str, usize>;
pub const KINDS: usize = 12;

/// What the outside world knows of an effect.
#[derive(Debug, Default, Clone)]
struct Effect {
    /// Calls that are doing it right now, or died at it.
    at_it: usize,
    done: usize,
    /// The store has said that it knows.
    acknowledged: bool,
    died_at: bool,
}

#[derive(Default)]
struct Facts {
    effects: BTreeMap<String, Effect>,
    seen: Seen,
    /// Ends that were answered as the attempt's end, by what they said.
    ends: BTreeSet<String>,
}

impl Facts {
    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn effect(&mut self, key: &str) -> &mut Effect {
        self.effects.entry(key.to_owned()).or_default()
    }
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Commits,
    Fails,
    Dies,
}

#[derive(Clone)]
struct Attempt {
    store: Arc<dyn Store>,
    under: UnderLease,
    facts: Rc<RefCell<Facts>>,
}

type Work = Pin<Box<dyn Future<Output = ()>>>;

pub struct OneLease {
    world: World,
    lot: Lot,
    pub seen: Seen,
}

impl OneLease {
    pub async fn new(lot: Lot) -> Self {
        Self { world: crate::play::world().await, lot, seen: Seen::new() }
    }

    pub async fn round(&mut self, n: usize) {
        let (run, lot) = (format!("r{n}"), &self.lot);
        let mut start = start(&run);
        start.run.resumable = Some(lot.one_in(2));
        let lease = self.world.store.start(start).await.unwrap().answer.lease.unwrap().parse().unwrap();
        let under = UnderLease { at: at("acme", &run), lease };
        let facts = Rc::new(RefCell::new(Facts::default()));
        let attempt = Attempt { store: self.world.store.clone(), under, facts: facts.clone() };
        let mut work: Vec<Work> = Vec::new();
        for call in 0..3 + lot.upto(5) {
            let key = format!("{run}:e{}", lot.upto(KEYS));
            let fate = *lot.pick(&[Fate::Commits, Fate::Commits, Fate::Fails, Fate::Dies]);
            let (sends_again, patience) = (lot.one_in(3), lot.upto(6));
            work.push(Box::pin(attempt.clone().call(key, format!("c{call}"), fate, sends_again, patience)));
        }
        for _ in 0..lot.upto(4) {
            work.push(Box::pin(attempt.clone().beats(1 + lot.upto(4))));
        }
        for _ in 0..lot.upto(4) {
            work.push(Box::pin(attempt.clone().ends(lot.upto(6), lot.upto(2), lot.upto(8))));
        }
        at_once(work).await;
        let facts = facts.take();
        self.check(&run, &facts).await;
        for (what, times) in facts.seen {
            *self.seen.entry(what).or_default() += times;
        }
    }

    /// The run's state once all calls are answered.
    async fn check(&self, run: &str, facts: &Facts) {
        let shown = self.world.show(run).await;
        let state = shown.summary.state;
        assert!(facts.ends.len() <= 1, "an attempt ends once: {:?}", facts.ends);
        assert!(facts.ends.is_empty() || state != StateName::Running, "{:?} ended nothing", facts.ends);
        for (key, effect) in &facts.effects {
            assert!(effect.done <= 1, "{run} {key} was done {} times", effect.done);
            let entry = shown.body.steps.iter().find(|step| step.key.as_str() == key);
            let status = entry.map(|entry| entry.status);
            let wanted = match (effect.acknowledged, effect.died_at, state == StateName::Running) {
                (true, ..) => Some(StepStatus::Committed),
                (false, true, true) => Some(StepStatus::Started),
                (false, true, false) => Some(StepStatus::Unknown),
                (false, false, _) => status.filter(|status| *status == StepStatus::Failed),
            };
            assert_eq!(status, wanted, "{run} {key}: {effect:?}, {state}");
        }
        let is = |status: StepStatus| shown.body.steps.iter().any(|step| step.status == status);
        if state == StateName::Scheduled {
            assert!(!is(StepStatus::Unknown), "{run} would be tried again with an effect in doubt");
            assert!(!is(StepStatus::Committed) || shown.body.resumable, "{run} would repeat an effect");
        }
    }
}

impl Attempt {
    /// For as long as so many commits take: others get further meanwhile.
    async fn waits(&self, patience: usize) {
        for _ in 0..patience {
            let _ = self.store.heartbeats(vec![self.under.clone()]).await;
        }
    }

    async fn say(&self, key: &str, call: &str, status: StepStatus) -> Result<bool, Error> {
        let call_id = Some(call.parse().unwrap());
        let said = self.store.step(self.under.clone(), NewStep { call_id, ..step(key, true, status) }).await;
        said.map(|view| view.replayed)
    }

    /// One call of a tool: asks for leave, does it, tells how it went; or dies at it.
    async fn call(self, key: String, call: String, fate: Fate, sends_again: bool, patience: usize) {
        self.waits(patience).await;
        let said = self.say(&key, &call, StepStatus::Started).await;
        if sends_again && matches!(said, Ok(false)) {
            match self.say(&key, &call, StepStatus::Started).await {
                Ok(false) => self.facts.borrow_mut().saw("a lost answer"),
                again => assert!(is_over(&again, false), "{again:?}"),
            }
        }
        match said {
            Ok(true) => {
                let mut facts = self.facts.borrow_mut();
                assert_eq!(facts.effect(&key).done, 1, "{key} was skipped, and nobody has done it");
                facts.saw("replayed");
            }
            Ok(false) => self.execute(&key, &call, fate, patience).await,
            Err(Error::EffectInProgress { run_id, call_id }) => {
                assert_eq!(run_id, self.under.at.run_id.as_str());
                assert!(call_id.is_some_and(|holder| holder != call));
                self.facts.borrow_mut().saw("in progress");
            }
            said => {
                assert!(is_over(&said, false), "{said:?}");
                self.facts.borrow_mut().saw("the lease is over");
            }
        }
    }

    async fn execute(&self, key: &str, call: &str, fate: Fate, patience: usize) {
        {
            let mut facts = self.facts.borrow_mut();
            let effect = facts.effect(key);
            assert_eq!((effect.at_it, effect.done), (0, 0), "{key} was offered to a second call");
            effect.at_it += 1;
        }
        self.waits(patience).await;
        let status = match fate {
            Fate::Commits => StepStatus::Committed,
            Fate::Fails => StepStatus::Failed,
            Fate::Dies => {
                let mut facts = self.facts.borrow_mut();
                facts.effect(key).died_at = true;
                return facts.saw("died at it");
            }
        };
        {
            let mut facts = self.facts.borrow_mut();
            let effect = facts.effect(key);
            effect.at_it -= 1;
            effect.done += usize::from(status == StepStatus::Committed);
        }
        let said = self.say(key, call, status).await;
        let mut facts = self.facts.borrow_mut();
        match said {
            Ok(replayed) => {
                assert!(!replayed, "{key}: its own outcome");
                facts.saw("outcome");
            }
            said => {
                assert!(is_over(&said, true), "{said:?}");
                facts.saw("late outcome");
            }
        }
        facts.effect(key).acknowledged |= status == StepStatus::Committed;
    }

    async fn beats(self, beats: usize) {
        for _ in 0..beats {
            match self.store.heartbeats(vec![self.under.clone()]).await.remove(0) {
                Ok(_) => self.facts.borrow_mut().saw("heartbeat"),
                said => return assert!(is_over(&said, false), "{said:?}"),
            }
        }
    }

    async fn ends(self, how: usize, words: usize, patience: usize) {
        self.waits(patience).await;
        let ended = |by: &str| self.facts.borrow_mut().ends.insert(format!("{by} {words}"));
        match how {
            0 | 1 => match self.store.succeed(success(&self.under, ["1", "2"][words])).await {
                Ok(answer) if answer.late => self.facts.borrow_mut().saw("late success"),
                Ok(_) => drop(ended("succeed")),
                said => {
                    assert!(matches!(said, Err(Error::AttemptConflict { .. })), "{said:?}");
                    self.facts.borrow_mut().saw("another end");
                }
            },
            2 | 3 => match self.store.fail(self.under.clone(), failed(WORDS[words])).await {
                Ok(_) => drop(ended("fail")),
                Err(Error::AttemptConflict { .. }) => self.facts.borrow_mut().saw("another end"),
                // A late success may stand where the failure stood.
                said => assert!(is_over(&said, true) || is_over(&said, false), "{said:?}"),
            },
            4 => match self.store.release(self.under.clone()).await {
                Ok(_) => {
                    self.facts.borrow_mut().ends.insert("release".to_owned());
                    self.facts.borrow_mut().saw("released");
                }
                said => assert!(is_over(&said, false), "{said:?}"),
            },
            _ => {
                let (at, actor) = (self.under.at.clone(), "key:ops".to_owned());
                let act = TriageAct { at, triage: Triage::Cancel, actor, reason: Some(Text::from("enough")) };
                match self.store.triage(act).await {
                    Ok(_) => self.facts.borrow_mut().saw("cancelled"),
                    said => assert!(matches!(said, Err(Error::Refused(_))), "{said:?}"),
                }
            }
        }
    }
}

fn is_over<T>(said: &Result<T, Error>, recorded: bool) -> bool {
    matches!(said, Err(Error::LeaseLost { recorded: kept } | Error::Cancelled { recorded: kept }) if *kept == recorded)
}
