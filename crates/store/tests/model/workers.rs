//! The model of leases: which reports still count (L2, L4), and what silence does (L3, L6).

use redrive_core::absence::Absence;
use redrive_core::lifecycle::Refused;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::SucceedAnswer;
use redrive_engine::{Error, LeaseToken, Result, RunRef};

use crate::act::{Said, Verb, WORDS, digest_of_success};
use crate::reference::{Ended, Model, Run, is_callers, key, refused};
use crate::world::digest;

pub fn lost<T: std::fmt::Debug>(said: &Result<T>, recorded: Option<bool>) {
    match said {
        Err(Error::LeaseLost { recorded: found } | Error::Cancelled { recorded: found }) => {
            assert!(recorded.is_none_or(|wanted| wanted == *found), "{said:?}");
        }
        other => panic!("a lease that is over was answered {other:?}"),
    }
}

fn answered(said: Result<SucceedAnswer>, state: StateName, late: bool) {
    let said = said.unwrap();
    assert_eq!((said.state, said.late), (state, late));
}

impl Run {
    pub fn is_last(&self, lease: LeaseToken) -> bool {
        self.granted.last() == Some(&lease)
    }

    /// Whether a late failure is kept as evidence: whatever lease of the run it comes under.
    pub fn keeps_evidence(&self, lease: LeaseToken) -> bool {
        self.granted.contains(&lease)
    }

    /// It may still say that it succeeded: nothing newer has begun, by lease or by report.
    fn is_latest_attempt(&self, lease: LeaseToken) -> bool {
        self.is_last(lease) && self.attempt <= lease.attempt
    }

    /// It reported this before, and no newer attempt has begun.
    fn succeeded_late(&self, lease: LeaseToken) -> bool {
        self.is_latest_attempt(lease) && self.kept.get(&lease.attempt).is_some_and(|kept| kept.outcome == "succeeded")
    }

    fn succeeded(&mut self, attempt: u32, digest: redrive_engine::Digest, now: Timestamp) -> StateName {
        if !self.is_closed() {
            self.state = if self.has_failed { StateName::Recovered } else { StateName::Succeeded };
        }
        (self.live, self.due, self.attempt) = (None, None, self.attempt.max(attempt));
        self.doubt_what_is_open();
        self.keep(attempt, "succeeded", Some(digest), now);
        self.state
    }
}

impl Model {
    pub fn under_lease(
        &mut self,
        at: &RunRef,
        lease: LeaseToken,
        verb: Verb,
        words: usize,
        said: Said,
        now: Timestamp,
    ) {
        let Some(run) = self.runs.get_mut(&key(at)) else {
            let nothing = match &said {
                Said::Heartbeat(said) => matches!(said, Err(Error::NotFound(_))),
                Said::Succeed(said) => matches!(said, Err(Error::NotFound(_))),
                Said::Fail(said) => matches!(said, Err(Error::NotFound(_))),
                Said::Release(said) => matches!(said, Err(Error::NotFound(_))),
                Said::Report(_) | Said::Start(_) | Said::Triage(_) | Said::Step(_) | Said::Reconcile(_) => false,
            };
            assert!(nothing, "{verb:?} of a run that is not there: {said:?}");
            return;
        };
        let live = run.live.is_some() && run.is_last(lease);
        let again = |ended| run.is_last(lease) && run.ended == Some(ended);
        match said {
            Said::Heartbeat(said) if live => {
                let live = run.live.as_mut().unwrap();
                live.expires = live.expires.max(now.plus_ms(live.lease_ms));
                live.extended = false;
                assert_eq!(said.unwrap(), live.expires);
            }
            Said::Heartbeat(said) => lost(&said, Some(false)),
            Said::Succeed(said) if live => {
                run.ended = Some(Ended::Succeeded);
                let state = run.succeeded(lease.attempt, digest_of_success(words), now);
                answered(said, state, false);
            }
            Said::Succeed(said) if again(Ended::Succeeded) || run.succeeded_late(lease) => {
                let same = run.kept.get(&lease.attempt).is_some_and(|kept| kept.is_success(&digest_of_success(words)));
                match said {
                    Ok(answer) => assert_eq!((same, answer.late), (true, !again(Ended::Succeeded))),
                    said => assert!(!same && matches!(said, Err(Error::AttemptConflict { .. })), "{said:?}"),
                }
            }
            Said::Succeed(said) if run.is_latest_attempt(lease) => {
                let state = run.succeeded(lease.attempt, digest_of_success(words), now);
                answered(said, state, true);
            }
            Said::Succeed(said) => lost(&said, Some(false)),
            Said::Fail(said) if live => {
                let answer = said.unwrap();
                assert_eq!(answer.attempt, lease.attempt);
                run.ended = Some(Ended::Failed);
                run.judged(answer.state, answer.verdict.next_attempt_at, now);
                run.keep_failure(digest(WORDS[words].as_bytes()), &answer, now);
            }
            Said::Fail(said) if again(Ended::Failed) => match run.stored_answer(lease.attempt) {
                Some(answer) if run.kept[&lease.attempt].is_failure(&digest(WORDS[words].as_bytes())) => {
                    assert_eq!(&said.unwrap(), answer);
                }
                Some(_) => assert!(matches!(said, Err(Error::AttemptConflict { .. })), "{said:?}"),
                // A late success stands in its place.
                None => lost(&said, Some(false)),
            },
            Said::Fail(said) => lost(&said, Some(run.keeps_evidence(lease))),
            Said::Release(said) if live => self.released(at, said.unwrap().state, now),
            Said::Release(said) if again(Ended::Released) => assert_eq!(said.unwrap().state, run.state),
            Said::Release(said) => lost(&said, Some(false)),
            Said::Report(_) | Said::Start(_) | Said::Triage(_) | Said::Step(_) | Said::Reconcile(_) => {
                panic!("{verb:?} was answered {said:?}")
            }
        }
    }

    /// The number is given back. When it falls due is read with the next look at the run.
    fn released(&mut self, at: &RunRef, state: StateName, now: Timestamp) {
        let run = self.runs.get_mut(&key(at)).unwrap();
        (run.live, run.ended, run.state) = (None, Some(Ended::Released), state);
        run.attempt -= 1;
        run.doubt_what_is_open();
        if run.is_unsafe() {
            assert_eq!((state, run.due), (StateName::Dead, None));
            return;
        }
        assert_eq!(state, StateName::Scheduled, "given back less than twenty times in a row");
        run.due = Some(now.plus_ms(1));
    }

    pub fn succeed_by_caller(
        &mut self,
        at: &RunRef,
        attempt: Option<u32>,
        words: usize,
        said: Result<SucceedAnswer>,
        now: Timestamp,
    ) {
        let Some(run) = self.runs.get_mut(&key(at)) else {
            assert!(matches!(said, Err(Error::NotFound(_))), "{said:?}");
            return;
        };
        if !is_callers(at) {
            assert!(matches!(said, Err(Error::LeaseNeeded)), "{said:?}");
            return;
        }
        if run.live.is_some() {
            return refused(&said, &Refused::InFlight);
        }
        let digest = digest_of_success(words);
        let kept = run.kept.get(&attempt.unwrap_or(run.attempt));
        if kept.is_some_and(|kept| kept.is_success(&digest)) {
            assert!(!said.unwrap().late);
            return;
        }
        if attempt.is_some_and(|attempt| attempt <= run.attempt) {
            assert!(matches!(said, Err(Error::AttemptConflict { .. })), "{said:?}");
            return;
        }
        let state = run.succeeded(attempt.unwrap_or(run.attempt + 1), digest, now);
        answered(said, state, false);
    }

    pub fn stamped(&mut self, now: Timestamp) {
        self.looked(now);
        self.last_seen = Some(now);
    }

    /// Every judgement by time records an absence first.
    pub fn looked(&mut self, now: Timestamp) {
        if let Some(absence) = Absence::up_to_now(self.last_seen, now) {
            self.absences.push(absence);
            self.last_seen = Some(now);
        }
    }

    pub fn newest_absences(&self) -> Vec<Absence> {
        self.absences.iter().rev().copied().collect()
    }

    /// Who is silent now, and who is owed an extension because none of us was there. Both are looked at.
    pub fn quiet(&mut self, now: Timestamp) -> (Vec<(String, String)>, usize) {
        self.looked(now);
        let newest_first = self.newest_absences();
        let (mut silent, mut extended) = (Vec::new(), 0);
        for (key, run) in &mut self.runs {
            let Some(live) = run.live.as_mut().filter(|live| live.expires.min(live.deadline.at) <= now) else {
                continue;
            };
            let unattended = self.absences.iter().any(|absence| absence.excuses(live.expires));
            live.deadline = live.deadline.attended(now, &newest_first);
            if live.deadline.at > now && live.expires > now {
                extended += 1;
            } else if live.deadline.at > now && unattended && !live.extended {
                (live.expires, live.extended) = (now.plus_ms(live.lease_ms), true);
                extended += 1;
            } else {
                silent.push(key.clone());
            }
        }
        (silent, extended)
    }
}
