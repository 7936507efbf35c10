//! Rewritten payloads of attempts, and runs whose payload can never fit.

use redrive_core::ids::QueueName;
use redrive_core::policy::{PolicyLayer, Preflight};
use redrive_core::reason::Reason;
use redrive_core::run::StateName;
use redrive_core::strategy::Failure;
use redrive_core::verdict::{Change, DeadBecause};
use redrive_core::wire::{HandedChange, QueueSettings};
use redrive_engine::{Error, Fit, NewSentPayload, RunRef, Start, StartHow, UnderLease, encode};

use crate::world::{World, new_run, report, start};

fn instruction(applied: bool) -> HandedChange {
    HandedChange { change: Change::AddInstruction { text: "Less.".into() }, applied }
}

fn changed(body: &str) -> NewSentPayload {
    let changes = serde_json::to_vec(&[instruction(true)]).unwrap();
    NewSentPayload { changes: encode(&changes), body: encode(body.as_bytes()) }
}

async fn keep(world: &World, under: &UnderLease, body: &str) -> Result<(), Error> {
    world.store.keep_sent(vec![(under.clone(), changed(body))]).await.pop().unwrap()
}

fn with(run: &str, changes: Vec<Change>) -> Start {
    Start { fit: Fit::With(changes), ..start(run) }
}

fn at(run: &str) -> RunRef {
    RunRef { tenant: "acme".parse().unwrap(), run_id: run.parse().unwrap() }
}

pub async fn sent_payload_is_stored_beside_the_original(world: World) {
    world.enqueue("acme", "a").await;
    let (run, under) = world.lease_one().await;
    let before = world.store.sent(&at("a"), 1).await.unwrap();
    assert!(before.sent.is_none() && before.changes.is_empty());
    keep(&world, &under, r#"{"n":1.10,"z":"\ud800"}"#).await.unwrap();
    let sent = world.store.sent(&at("a"), 1).await.unwrap();
    assert_eq!(sent.sent.unwrap().get(), r#"{"n":1.10,"z":"\ud800"}"#);
    assert_eq!(sent.original.unwrap().get(), run.payload.unwrap().get());
    assert_eq!((sent.changes, sent.revision), (vec![instruction(true)], 1));
    let shown = world.store.run(&at("a")).await.unwrap().body;
    assert!(shown.attempts[0].changed && shown.payload.unwrap().get() == before.original.unwrap().get());
    assert!(matches!(world.store.sent(&at("a"), 2).await, Err(Error::NotFound(_))));
}

pub async fn expired_lease_stores_no_sent_payload(world: World) {
    world.enqueue("acme", "a").await;
    let (_, under) = world.lease_one().await;
    world.store.release(under.clone()).await.unwrap();
    assert!(matches!(keep(&world, &under, "1").await, Err(Error::LeaseLost { recorded: false })));
    world.wait(10_000);
    let (_, newer) = world.lease_one().await;
    assert!(matches!(keep(&world, &under, "1").await, Err(Error::LeaseLost { recorded: false })));
    assert!(world.store.sent(&at("a"), 1).await.unwrap().sent.is_none());
    keep(&world, &newer, "2").await.unwrap();
}

pub async fn released_attempt_records_the_latest_sent_payload(world: World) {
    world.enqueue("acme", "a").await;
    let (_, first) = world.lease_one().await;
    keep(&world, &first, "1").await.unwrap();
    world.store.release(first).await.unwrap();
    world.wait(10_000);
    let (_, second) = world.lease_one().await;
    keep(&world, &second, "2").await.unwrap();
    assert_eq!(world.store.sent(&at("a"), 1).await.unwrap().sent.unwrap().get(), "2");
}

pub async fn repeated_start_gets_the_same_payload(world: World) {
    let begins = with("a", vec![Change::AddInstruction { text: "Less.".into() }]);
    let first = world.store.start(begins.clone()).await.unwrap();
    assert!(first.created && first.to_prepare && !first.payload_differs);
    assert_eq!(first.answer.changes, [instruction(false)]);
    assert!(first.answer.payload.is_some(), "the payload that is to be changed");
    let lease = first.answer.lease.clone().unwrap().parse().unwrap();
    keep(&world, &UnderLease { at: at("a"), lease }, "\"less\"").await.unwrap();
    let again = world.store.start(begins).await.unwrap();
    assert_eq!(again.answer.payload.unwrap().get(), "\"less\"");
    assert_eq!((again.answer.changes, again.to_prepare), (vec![instruction(true)], false));
}

pub async fn another_tenants_attempt_is_not_found(world: World) {
    world.enqueue("acme", "a").await;
    world.lease_one().await;
    let other = RunRef { tenant: "globex".parse().unwrap(), ..at("a") };
    assert!(matches!(world.store.sent(&other, 1).await, Err(Error::NotFound(_))));
}

/// Numbers from 2^20 up once named the attempts of other runs.
pub async fn an_attempt_number_never_reaches_another_run(world: World) {
    for run in ["a", "b", "c", "d"] {
        world.fail(run, "Request timed out").await;
        let theirs = format!("theirs-{run}");
        world.enqueue("globex", &theirs).await;
        let (_, under) = world.lease_one().await;
        assert_eq!(under.at.run_id.as_str(), theirs);
        keep(&world, &under, "\"secret\"").await.unwrap();
    }
    for run in ["a", "b", "c", "d"] {
        for number in (1..64).flat_map(|distance| [distance << 20, (distance << 20) | 1, (distance << 20) | 2]) {
            let found = world.store.sent(&at(run), number).await;
            assert!(matches!(found, Err(Error::NotFound("attempt"))), "{run} {number}: {found:?}");
        }
    }
}

pub async fn changes_that_need_the_last_error_get_it(world: World) {
    let mut failed = report("a", "any");
    failed.failed.failure = Failure::found(Reason::ToolError, "sample");
    let error = serde_json::json!({"error": {"message": "the tool said no"}});
    failed.failed.body = encode(error.to_string().as_bytes());
    world.store.report(failed).await.unwrap();
    world.wait(60_000);
    let (run, _) = world.lease_one().await;
    let errors: Vec<_> = run
        .changes
        .iter()
        .filter_map(|handed| match &handed.change {
            Change::AddLastError { text } => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(errors, [Some("the tool said no".to_owned())]);
    assert!(run.changes.iter().all(|handed| !handed.applied));
}

pub async fn run_that_can_never_fit_is_dead_at_once(world: World) {
    let fit = Fit::Never { rule: "preflight.too_large", why: "It is too large.".into() };
    let Err(Error::DeadLettered(verdict)) = world.store.start(Start { fit: fit.clone(), ..start("a") }).await else {
        panic!("it began")
    };
    let verdict = verdict.unwrap();
    assert_eq!((verdict.why.as_str(), verdict.rule.as_str()), ("It is too large.", "preflight.too_large"));
    assert_eq!((verdict.reason, verdict.dead_because), (Reason::ContextOverflow, Some(DeadBecause::Rejected)));
    let shown = world.store.run(&at("a")).await.unwrap();
    assert_eq!((shown.summary.state, shown.summary.attempt), (StateName::Dead, 1));
    assert!(shown.body.payload.is_some(), "nothing is lost");
    // The same again says the same; enqueued, the state tells.
    assert!(matches!(world.store.start(start("a")).await, Err(Error::DeadLettered(_))));
    let queued = Start { run: new_run("b"), how: StartHow::Enqueue { due_at: None }, fit, ..start("b") };
    let queued = world.store.start(queued).await.unwrap();
    assert_eq!((queued.answer.state, queued.created, queued.answer.lease), (StateName::Dead, true, None));
    assert!(world.lease(10).await.is_empty());
}

pub async fn reading_a_queues_policy_creates_no_queue(world: World) {
    let (acme, mail) = ("acme".parse().unwrap(), "mail".parse::<QueueName>().unwrap());
    assert_eq!(world.store.policy(&acme, &mail).await.unwrap().preflight, Preflight::Off);
    assert!(world.store.queue(&mail).await.is_err(), "asking made a queue");
    for preflight in [Preflight::Enforce, Preflight::Warn] {
        let policy = PolicyLayer { preflight: Some(preflight), ..PolicyLayer::default() };
        world.store.put_queue(mail.clone(), QueueSettings { policy, ..QueueSettings::default() }).await.unwrap();
        for _ in 0..2 {
            assert_eq!(world.store.policy(&acme, &mail).await.unwrap().preflight, preflight);
        }
    }
}
