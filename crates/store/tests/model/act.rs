//! Actions on a store, and its answers.

use std::sync::Arc;

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{EffectOutcome, EffectView, FailureAnswer, StateAnswer, StepStatus, StepView, SucceedAnswer};
use redrive_engine::{
    EffectRef, FailedAttempt, Fit, LeaseToken, NewFailure, NewRun, NewStep, PayloadKind, Reconcile, Reported, Result,
    RunRef, Start, StartHow, Started, Store, Success, Triage, TriageAct, Triaged, UnderLease,
};

use crate::world::{self, digest, failed, new_run, payload, step};

pub const TENANTS: [&str; 3] = ["acme", "globex", "initech"];
/// The same for every tenant. Those with a `c` are in a queue whose callers retry by themselves.
pub const RUNS: [&str; 6] = ["r0", "r1", "r2", "r3", "c0", "c1"];
pub const CALLS: &str = "calls";
pub const WORDS: [&str; 4] =
    ["Request timed out", "connection reset by peer", "KeyError: 'invoice'", "Invalid API key provided"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Heartbeat,
    Succeed,
    Fail,
    Release,
}

pub const VERBS: [Verb; 4] = [Verb::Heartbeat, Verb::Succeed, Verb::Fail, Verb::Release];

/// Acts whose answers say all that changed; several may be sent at once and take effect in their order.
#[derive(Debug, Clone)]
pub enum Do {
    Report {
        at: RunRef,
        attempt: Option<u32>,
        words: usize,
    },
    Start {
        at: RunRef,
        start_id: Option<Label>,
        other_payload: bool,
        lease_ms: u64,
    },
    Enqueue {
        at: RunRef,
        due_at: Option<Timestamp>,
    },
    Under {
        at: RunRef,
        lease: LeaseToken,
        verb: Verb,
        words: usize,
    },
    SucceedByCaller {
        at: RunRef,
        attempt: Option<u32>,
        words: usize,
    },
    Triage {
        at: RunRef,
        triage: Triage,
    },
    Step {
        at: RunRef,
        lease: LeaseToken,
        key: &'static str,
        status: StepStatus,
        checked: bool,
        call: Option<&'static str>,
    },
    Reconcile {
        at: RunRef,
        key: &'static str,
        outcome: EffectOutcome,
    },
}

/// Two of the run's own and two that all runs of a tenant share.
pub const STEP_KEYS: [&str; 4] = ["p0", "p1", "e0", "e1"];

pub fn is_effect(key: &str) -> bool {
    key.starts_with('e')
}

/// Some runs do nothing that could do harm, so that the rest of life is seen as well.
pub fn has_effects(at: &RunRef) -> bool {
    matches!(at.run_id.as_str(), "r2" | "r3" | "c1")
}

pub fn is_resumable(at: &RunRef) -> bool {
    at.run_id.as_str() == "r3"
}

#[derive(Debug)]
pub enum Said {
    Report(Result<Reported>),
    Start(Result<Started>),
    Heartbeat(Result<Timestamp>),
    Step(Result<StepView>),
    Succeed(Result<SucceedAnswer>),
    Fail(Result<FailureAnswer>),
    Release(Result<StateAnswer>),
    Triage(Result<Triaged>),
    Reconcile(Result<EffectView>),
}

impl Do {
    pub fn at(&self) -> &RunRef {
        match self {
            Self::Report { at, .. }
            | Self::Start { at, .. }
            | Self::Enqueue { at, .. }
            | Self::Under { at, .. }
            | Self::SucceedByCaller { at, .. }
            | Self::Step { at, .. }
            | Self::Reconcile { at, .. }
            | Self::Triage { at, .. } => at,
        }
    }

    pub async fn send(self, store: Arc<dyn Store>) -> Said {
        match self {
            Self::Report { at, attempt, words } => Said::Report(store.report(report(&at, attempt, words)).await),
            Self::Start { at, start_id, other_payload, lease_ms } => {
                let mut run = run_of(&at);
                if other_payload {
                    run.payload = payload(PayloadKind::Json, b"\"another\"");
                }
                let how = StartHow::Start { start_id, lease_ms: Some(lease_ms) };
                Said::Start(
                    store
                        .start(Start {
                            run,
                            how,
                            versions: Default::default(),
                            idle_ms: None,
                            deadline_ms: None,
                            fit: Fit::AsItIs,
                        })
                        .await,
                )
            }
            Self::Enqueue { at, due_at } => {
                let how = StartHow::Enqueue { due_at };
                Said::Start(
                    store
                        .start(Start {
                            run: run_of(&at),
                            how,
                            versions: Default::default(),
                            idle_ms: None,
                            deadline_ms: None,
                            fit: Fit::AsItIs,
                        })
                        .await,
                )
            }
            Self::Under { at, lease, verb, words } => under(&store, UnderLease { at, lease }, verb, words).await,
            Self::SucceedByCaller { at, attempt, words } => {
                Said::Succeed(store.succeed(success(at, None, attempt, words)).await)
            }
            Self::Step { at, lease, key, status, checked, call } => {
                let call_id = call.map(|call| call.parse().unwrap());
                let step = NewStep { checked, call_id, ..step(key, is_effect(key), status) };
                Said::Step(store.step(UnderLease { at, lease }, step).await)
            }
            Self::Reconcile { at, key, outcome } => {
                let at = EffectRef { tenant: at.tenant, key: key.parse().unwrap(), run_id: Some(at.run_id) };
                let (actor, reason) = ("key:ops".to_owned(), Some(Text::from("because")));
                let act = Reconcile { at, outcome, output: None, output_omitted: None, actor, reason };
                Said::Reconcile(store.reconcile(act).await)
            }
            Self::Triage { at, triage } => {
                let act = TriageAct { at, triage, actor: "key:ops".into(), reason: Some(Text::from("because")) };
                Said::Triage(store.triage(act).await)
            }
        }
    }
}

async fn under(store: &Arc<dyn Store>, under: UnderLease, verb: Verb, words: usize) -> Said {
    match verb {
        Verb::Heartbeat => Said::Heartbeat(store.heartbeat(under).await),
        Verb::Succeed => Said::Succeed(store.succeed(success(under.at, Some(under.lease), None, words)).await),
        Verb::Fail => Said::Fail(store.fail(under, failed(WORDS[words])).await),
        Verb::Release => Said::Release(store.release(under).await),
    }
}

fn success(at: RunRef, lease: Option<LeaseToken>, attempt: Option<u32>, words: usize) -> Success {
    let made = world::success(&UnderLease { at, lease: LeaseToken { run: 0, attempt: 0, epoch: 0, proof: 0 } }, "1");
    Success { lease, attempt, digest: digest_of_success(words), ..made }
}

pub fn digest_of_success(words: usize) -> redrive_engine::Digest {
    digest(format!("done {words}").as_bytes())
}

pub fn queue_of(at: &RunRef) -> QueueName {
    if at.run_id.as_str().starts_with('c') { CALLS.parse().unwrap() } else { QueueName::default_queue() }
}

fn run_of(at: &RunRef) -> NewRun {
    let tenant: Tenant = at.tenant.clone();
    let resumable = Some(is_resumable(at));
    NewRun { tenant, queue: queue_of(at), resumable, ..new_run(at.run_id.as_str()) }
}

pub fn report(at: &RunRef, attempt: Option<u32>, words: usize) -> NewFailure {
    NewFailure { run: run_of(at), failed: FailedAttempt { attempt, ..failed(WORDS[words]) } }
}
