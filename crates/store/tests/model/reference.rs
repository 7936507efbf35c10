//! The model: a map of runs, written from the promises and not from the code. It takes each action with the store's answer
//! and panics where they disagree. Verdicts (retry or dead letter) come from the answer and are only bounded.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::absence::{Absence, Limit};
use redrive_core::lifecycle::Refused;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::FailureAnswer;
use redrive_engine::{Digest, Error, LeaseToken, Reported, Result, RunRef};

use crate::act::{Do, Said, WORDS, is_resumable};
use crate::steps::Step;
use crate::world::digest;

const MAX_ATTEMPTS: u32 = 4;
const RESEND_MS: u64 = 60_000;

/// How the last lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Succeeded,
    Failed,
    Released,
    Expired,
    Cancelled,
}

#[derive(Debug, Clone)]
pub struct Live {
    pub lease_ms: u64,
    pub expires: Timestamp,
    pub deadline: Limit,
    pub extended: bool,
    pub start_id: Option<Label>,
}

#[derive(Debug, Clone)]
pub struct Kept {
    pub outcome: &'static str,
    digest: Option<Digest>,
    answer: Option<FailureAnswer>,
    at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct Run {
    pub state: StateName,
    pub attempt: u32,
    pub live: Option<Live>,
    pub due: Option<Timestamp>,
    /// Every lease there ever was, in the order of granting.
    pub granted: Vec<LeaseToken>,
    pub ended: Option<Ended>,
    pub kept: BTreeMap<u32, Kept>,
    pub has_failed: bool,
    pub triaged: usize,
    /// What people did to it beside notes.
    pub decisions: u32,
    /// It began with the other payload.
    pub other_payload: bool,
    pub budget_from: u32,
    pub replays: u32,
    pub resumable: bool,
    pub steps: BTreeMap<&'static str, Step>,
    /// In review: when nobody's answer is one.
    pub review_until: Option<Limit>,
}

#[derive(Default)]
pub struct Model {
    pub runs: BTreeMap<(String, String), Run>,
    pub last_seen: Option<Timestamp>,
    pub absences: Vec<Absence>,
    /// The store's own numbers, each of one run only.
    pub numbers: BTreeSet<i64>,
}

pub fn key(at: &RunRef) -> (String, String) {
    (at.tenant.to_string(), at.run_id.to_string())
}

pub fn is_callers(at: &RunRef) -> bool {
    at.run_id.as_str().starts_with('c')
}

impl Run {
    pub fn new(state: StateName) -> Self {
        Self {
            state,
            attempt: 0,
            live: None,
            due: None,
            granted: Vec::new(),
            ended: None,
            kept: BTreeMap::new(),
            has_failed: false,
            triaged: 0,
            decisions: 0,
            other_payload: false,
            budget_from: 0,
            replays: 0,
            resumable: false,
            steps: BTreeMap::new(),
            review_until: None,
        }
    }

    /// A verdict has moved it: L6 bounds where to.
    pub fn judged(&mut self, state: StateName, due: Option<Timestamp>, now: Timestamp) {
        (self.state, self.due, self.live, self.has_failed) = (state, due, None, true);
        self.doubt_what_is_open();
        if self.is_unsafe() {
            assert_eq!(state, StateName::Dead, "an effect must not be repeated by itself: {:?}", self.steps);
        }
        match state {
            StateName::Scheduled => {
                assert!(due.is_some_and(|due| due > now), "the next attempt is in the future: {due:?}, now {now}");
                assert!(self.attempt < self.budget_from + MAX_ATTEMPTS, "attempt {} has a successor", self.attempt);
            }
            StateName::Dead => assert_eq!(due, None),
            other => panic!("a verdict led to {other}"),
        }
    }

    pub fn keep(&mut self, attempt: u32, outcome: &'static str, digest: Option<Digest>, at: Timestamp) {
        self.kept.insert(attempt, Kept { outcome, digest, answer: None, at });
    }

    pub fn keep_failure(&mut self, digest: Digest, answer: &FailureAnswer, at: Timestamp) {
        let kept = Kept { outcome: "failed", digest: Some(digest), answer: Some(answer.clone()), at };
        assert!(self.kept.insert(answer.attempt, kept).is_none(), "an attempt is kept once");
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.state, StateName::Succeeded | StateName::Recovered | StateName::Resolved | StateName::Discarded)
    }

    pub fn stored_answer(&self, attempt: u32) -> Option<&FailureAnswer> {
        self.kept.get(&attempt)?.answer.as_ref()
    }
}

impl Kept {
    pub fn is_failure(&self, digest: &Digest) -> bool {
        self.outcome == "failed" && self.digest.as_ref() == Some(digest)
    }

    pub fn is_success(&self, digest: &Digest) -> bool {
        self.outcome == "succeeded" && self.digest.as_ref() == Some(digest)
    }
}

/// A refusal, by what it is called on the wire.
pub fn refused<T: std::fmt::Debug>(said: &Result<T>, wanted: &Refused) {
    assert!(matches!(said, Err(Error::Refused(found)) if found == wanted), "{said:?} instead of {wanted:?}");
}

impl Model {
    pub fn take(&mut self, act: &Do, said: Said, now: Timestamp) {
        match (act, said) {
            (Do::Report { at, attempt, words }, Said::Report(said)) => self.report(at, *attempt, *words, said, now),
            (Do::Start { at, start_id, other_payload, lease_ms }, Said::Start(said)) => {
                self.start(at, start_id.as_ref(), *other_payload, *lease_ms, said, now);
            }
            (Do::Enqueue { at, due_at }, Said::Start(said)) => self.enqueue(at, *due_at, said, now),
            (Do::Triage { at, triage }, Said::Triage(said)) => self.triage(at, triage, said, now),
            (Do::Under { at, lease, verb, words }, said) => self.under_lease(at, *lease, *verb, *words, said, now),
            (Do::Step { at, lease, key, status, checked, call }, Said::Step(said)) => {
                self.step(at, *lease, (key, *call), *status, *checked, said);
            }
            (Do::Reconcile { at, key, outcome }, Said::Reconcile(said)) => self.reconcile(at, key, *outcome, said),
            (Do::SucceedByCaller { at, attempt, words }, Said::Succeed(said)) => {
                self.succeed_by_caller(at, *attempt, *words, said, now);
            }
            (act, said) => panic!("{act:?} was answered {said:?}"),
        }
    }

    /// Which attempt a report is, and whether it was here before.
    pub fn report(&mut self, at: &RunRef, attempt: Option<u32>, words: usize, said: Result<Reported>, now: Timestamp) {
        let digest = digest(WORDS[words].as_bytes());
        let run = self
            .runs
            .entry(key(at))
            .or_insert_with(|| Run { resumable: is_resumable(at), ..Run::new(StateName::Scheduled) });
        let kept = match attempt {
            Some(attempt) => run.kept.get(&attempt),
            None => run.kept.values().rfind(|kept| kept.outcome == "failed").filter(|kept| {
                let due = kept.answer.as_ref().and_then(|answer| answer.verdict.next_attempt_at);
                let until = kept.at.plus_ms(RESEND_MS);
                kept.digest == Some(digest) && now < due.map_or(until, |due| due.max(until))
            }),
        };
        if let Some(kept) = kept {
            if kept.digest == Some(digest) {
                let said = said.expect("the same again is no mistake");
                assert!(!said.fresh);
                assert_eq!(Some(&said.answer), kept.answer.as_ref());
                return;
            }
            assert!(matches!(said, Err(Error::AttemptConflict { .. })), "{said:?}");
            return;
        }
        let taken =
            attempt.is_some_and(|attempt| attempt < run.attempt || (attempt == run.attempt && run.live.is_none()));
        if taken && run.attempt > 0 {
            assert!(matches!(said, Err(Error::AttemptConflict { .. })), "{said:?}");
            return;
        }
        if run.live.is_some() {
            return refused(&said, &Refused::InFlight);
        }
        let said = said.expect("a failure is never refused");
        assert!(said.fresh);
        assert_eq!(said.answer.attempt, attempt.unwrap_or(run.attempt + 1));
        assert_eq!((said.answer.tenant.to_string(), said.answer.run_id.to_string()), key(at));
        run.attempt = said.answer.attempt;
        if run.state == StateName::Review {
            // Whatever the verdict: automation does not take a run from the person who looks at it and go on with it.
            assert_eq!(said.answer.state, StateName::Dead);
            run.judged(StateName::Dead, None, now);
        } else {
            run.judged(said.answer.state, said.answer.verdict.next_attempt_at, now);
        }
        run.keep_failure(digest, &said.answer, now);
    }
}
