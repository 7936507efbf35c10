//! The model of starts and triage: who gets a lease (L1), and what a person may move.

use redrive_core::absence::Limit;
use redrive_core::lifecycle::Refused;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_engine::{Error, LeaseToken, Result, RunRef, Started, Triage, Triaged};

use crate::act::is_resumable;
use crate::reference::{Ended, Live, Model, Run, is_callers, key, refused};

const MAX_REPLAYS: u32 = 10;
const DEADLINE_MS: u64 = 3_600_000;
const REVIEW_MS: u64 = 24 * 3_600_000;

impl Model {
    pub fn start(
        &mut self,
        at: &RunRef,
        start_id: Option<&Label>,
        other_payload: bool,
        lease_ms: u64,
        said: Result<Started>,
        now: Timestamp,
    ) {
        let Some(run) = self.runs.get(&key(at)) else {
            let said = said.unwrap();
            assert!(said.created && said.answer.attempt == 1);
            let resumable = is_resumable(at);
            self.runs.insert(key(at), Run { other_payload, resumable, ..Run::new(StateName::Scheduled) });
            return self.granted(at, said.answer.lease.as_deref(), start_id.cloned(), lease_ms, now);
        };
        if other_payload != run.other_payload {
            assert!(matches!(said, Err(Error::RunConflict)), "{said:?}");
            return;
        }
        match run.state {
            StateName::Scheduled if !is_callers(at) && run.due.is_none_or(|due| due > now) => {
                refused(&said, &Refused::NotDue);
            }
            StateName::Scheduled => {
                let said = said.unwrap();
                assert!(!said.created);
                self.granted(at, said.answer.lease.as_deref(), start_id.cloned(), lease_ms, now);
            }
            StateName::Running if start_id.is_some() && run.live.as_ref().unwrap().start_id.as_ref() == start_id => {
                let lease = run.granted.last().unwrap().to_string();
                assert_eq!(said.unwrap().answer.lease, Some(lease));
            }
            StateName::Running => refused(&said, &Refused::InFlight),
            StateName::Dead | StateName::Review => assert!(matches!(said, Err(Error::DeadLettered(_))), "{said:?}"),
            _ => {
                let answer = said.unwrap().answer;
                assert_eq!((answer.state, answer.lease), (run.state, None));
            }
        }
    }

    pub fn enqueue(&mut self, at: &RunRef, due_at: Option<Timestamp>, said: Result<Started>, now: Timestamp) {
        if self.runs.get(&key(at)).is_some_and(|run| run.other_payload) {
            assert!(matches!(said, Err(Error::RunConflict)), "{said:?}");
            return;
        }
        let said = said.unwrap();
        // Enqueuing gives no lease, even while a worker is running it.
        assert_eq!(said.answer.lease, None);
        let run = self.runs.entry(key(at)).or_insert_with(|| {
            assert!(said.created);
            let due = Some(due_at.unwrap_or(now).max(now));
            Run { due, resumable: is_resumable(at), ..Run::new(StateName::Scheduled) }
        });
        assert_eq!(said.answer.state, run.state);
    }

    /// L1: one at a time, and an epoch above all before it.
    pub fn granted(
        &mut self,
        at: &RunRef,
        lease: Option<&str>,
        start_id: Option<Label>,
        lease_ms: u64,
        now: Timestamp,
    ) {
        let lease: LeaseToken = lease.expect("a lease").parse().unwrap();
        let run = self.runs.get_mut(&key(at)).unwrap();
        assert!(run.live.is_none(), "two live leases");
        match run.granted.last() {
            Some(last) => assert!(lease.epoch > last.epoch && lease.run == last.run, "{lease} after {last}"),
            None => assert!(self.numbers.insert(lease.run), "two runs share a number"),
        }
        assert_eq!(lease.attempt, run.attempt + 1);
        run.granted.push(lease);
        (run.attempt, run.state, run.due, run.ended) = (lease.attempt, StateName::Running, None, None);
        let expires = now.plus_ms(lease_ms);
        let deadline = Limit { from: now, at: now.plus_ms(DEADLINE_MS), counted_ms: 0 };
        run.live = Some(Live { lease_ms, expires, deadline, extended: false, start_id });
    }

    pub fn triage(&mut self, at: &RunRef, triage: &Triage, said: Result<Triaged>, now: Timestamp) {
        let Some(run) = self.runs.get_mut(&key(at)) else {
            assert!(matches!(said, Err(Error::NotFound(_))), "{said:?}");
            return;
        };
        if !run.takes(triage) {
            assert!(matches!(said, Err(Error::Refused(_))), "{triage:?} of {run:?}: {said:?}");
            return;
        }
        run.moved_by(triage, now);
        assert_eq!(said.unwrap().answer.state, run.state);
    }
}

impl Run {
    /// Whether a person's act is one for where it stands.
    pub fn takes(&self, triage: &Triage) -> bool {
        match (triage, self.state) {
            (Triage::Note, _) => true,
            (Triage::Replay(replay), state) => match state {
                StateName::Running => false,
                // R1: past an effect that must not be repeated only force goes.
                StateName::Scheduled | StateName::Dead | StateName::Review if !replay.force && self.is_unsafe() => {
                    false
                }
                StateName::Scheduled => true,
                StateName::Dead | StateName::Review => replay.force || self.replays < MAX_REPLAYS,
                _ => replay.force,
            },
            (Triage::Cancel, state) => matches!(state, StateName::Running | StateName::Scheduled),
            (Triage::Resolve | Triage::Discard | Triage::Review, state) => {
                matches!(state, StateName::Dead | StateName::Scheduled | StateName::Review)
            }
            (Triage::Reassign { .. }, state) => matches!(state, StateName::Dead | StateName::Scheduled),
            (Triage::Reject, state) => state == StateName::Review,
            (Triage::Assign { .. }, _) => true,
            (Triage::Approve { .. } | Triage::Defer { .. } | Triage::Merge { .. } | Triage::Unmerge, _) => false,
        }
    }

    pub fn moved_by(&mut self, triage: &Triage, now: Timestamp) {
        match triage {
            Triage::Note => {}
            Triage::Replay(_) => {
                (self.state, self.due) = (StateName::Scheduled, Some(now));
                (self.budget_from, self.replays) = (self.attempt, self.replays + 1);
            }
            Triage::Cancel => {
                if self.live.take().is_some() {
                    self.doubt_what_is_open();
                    (self.ended, self.has_failed) = (Some(Ended::Cancelled), true);
                    self.keep(self.attempt, "cancelled", None, now);
                }
                (self.state, self.due) = (StateName::Dead, None);
            }
            Triage::Review => {
                (self.state, self.due) = (StateName::Review, None);
                self.review_until = Some(Limit { from: now, at: now.plus_ms(REVIEW_MS), counted_ms: 0 });
            }
            Triage::Reject => self.state = StateName::Dead,
            Triage::Assign { .. } | Triage::Reassign { .. } => {}
            Triage::Approve { .. } | Triage::Defer { .. } | Triage::Merge { .. } | Triage::Unmerge => {
                panic!("{triage:?} is not drawn, or was allowed")
            }
            Triage::Resolve => (self.state, self.due) = (StateName::Resolved, None),
            Triage::Discard => (self.state, self.due) = (StateName::Discarded, None),
        }
        self.triaged += 1;
        self.decisions += u32::from(!matches!(triage, Triage::Note));
    }
}
