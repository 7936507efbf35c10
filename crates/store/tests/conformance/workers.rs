//! Attempts under a lease: fencing, lateness, the ledger.

use redrive_core::lifecycle::Refused;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{PayloadOmitted, Role, StepStatus};
use redrive_engine::{
    AttemptBody, Error, FailedAttempt, KeyMark, KeyRecord, LeaseCall, LeaseToken, NewRun, NewStep, PayloadKind, Start,
    StartHow, Success, Triage, UnderLease, encode,
};

use crate::reports::{BUG, TIMEOUT};
use crate::world::{LEASE_MS, World, at, failed, lease_call, new_run, payload, report, start, step, success, under};

async fn goes_quiet(world: &World) {
    world.wait(LEASE_MS + 1);
    assert_eq!(world.store.rescue_expired(100).await.unwrap().moved, 1);
}

pub async fn a_heartbeat_renews_and_a_late_one_is_refused(world: World) {
    let (begun, under) = world.start("r1").await;
    world.wait(LEASE_MS / 2);
    let renewed = world.store.heartbeat(under.clone()).await.unwrap();
    assert_eq!(renewed.since(begun.lease_expires_at.unwrap()), LEASE_MS / 2);
    world.wait(LEASE_MS - 1);
    assert_eq!(world.store.rescue_expired(100).await.unwrap().moved, 0);
    goes_quiet(&world).await;
    assert!(matches!(world.store.heartbeat(under).await, Err(Error::LeaseLost { recorded: false })));
}

pub async fn many_heartbeats_renew_each_lease_or_refuse_it(world: World) {
    let (_, live) = world.start("live").await;
    let (_, over) = world.start("over").await;
    world.store.succeed(success(&over, "1")).await.unwrap();
    let absent = UnderLease { at: at("acme", "absent"), ..live.clone() };
    let theirs = UnderLease { at: at("globex", "live"), ..live.clone() };
    world.wait(LEASE_MS / 2);
    let said = world.store.heartbeats(vec![over, live.clone(), absent, theirs, live]).await;
    let renewed = world.store.now().plus_ms(LEASE_MS);
    assert!(matches!(said[0], Err(Error::LeaseLost { recorded: false })));
    assert!(matches!(said[1], Ok(until) if until == renewed));
    assert!(matches!(said[2..4], [Err(Error::NotFound(_)), Err(Error::NotFound(_))]));
    assert!(matches!(said[4], Ok(until) if until == renewed));
    assert!(world.store.heartbeats(Vec::new()).await.is_empty());
    world.wait(LEASE_MS - 1);
    assert_eq!(world.store.rescue_expired(100).await.unwrap().moved, 0);
}

pub async fn success_recovers_a_run_that_had_failed(world: World) {
    world.fail("r1", TIMEOUT).await;
    world.wait(60_000);
    let (leased, under) = world.lease_one().await;
    assert_eq!((leased.attempt, leased.payload.as_ref().unwrap().get()), (2, r#"{"n":1}"#));
    assert_eq!(world.store.succeed(success(&under, "1")).await.unwrap().state, StateName::Recovered);
}

pub async fn repeated_ending_gets_the_stored_answer(world: World) {
    let (_, done) = world.start("done").await;
    let first = world.store.succeed(success(&done, "1")).await.unwrap();
    let again = world.store.succeed(success(&done, "1")).await.unwrap();
    assert_eq!((first.state, first.late), (again.state, again.late));
    let (_, broken) = world.start("broken").await;
    let first = world.store.fail(broken.clone(), failed(TIMEOUT)).await.unwrap();
    assert_eq!(world.store.fail(broken, failed(TIMEOUT)).await.unwrap(), first);
    let (_, given) = world.start("given").await;
    let first = world.store.release(given.clone()).await.unwrap();
    assert_eq!(world.store.release(given).await.unwrap(), first);
}

pub async fn different_ending_under_an_ended_lease_is_a_conflict(world: World) {
    let (_, done) = world.start("done").await;
    world.store.succeed(success(&done, "1")).await.unwrap();
    let other = world.store.succeed(success(&done, "2")).await;
    assert!(matches!(other, Err(Error::AttemptConflict { attempt: 1 })), "{other:?}");
    assert_eq!(world.show("done").await.body.output.unwrap().get(), "1");
    let (_, broken) = world.start("broken").await;
    let first = world.store.fail(broken.clone(), failed(TIMEOUT)).await.unwrap();
    let other = world.store.fail(broken.clone(), failed(BUG)).await;
    assert!(matches!(other, Err(Error::AttemptConflict { attempt: 1 })), "{other:?}");
    assert_eq!(world.store.fail(broken, failed(TIMEOUT)).await.unwrap(), first);
}

pub async fn a_second_late_success_does_not_replace_the_first(world: World) {
    let (_, under) = world.start("r1").await;
    goes_quiet(&world).await;
    for _ in 0..2 {
        let answer = world.store.succeed(success(&under, "1")).await.unwrap();
        assert_eq!((answer.state, answer.late), (StateName::Recovered, true));
    }
    let other = world.store.succeed(success(&under, "2")).await;
    assert!(matches!(other, Err(Error::AttemptConflict { attempt: 1 })), "{other:?}");
    let shown = world.show("r1").await.body;
    assert_eq!(shown.output.unwrap().get(), "1");
    assert_eq!(shown.history.iter().filter(|entry| entry.event == "late_success").count(), 1);
}

pub async fn old_epoch_changes_nothing_through_any_verb(world: World) {
    let (_, old) = world.start("r1").await;
    goes_quiet(&world).await;
    world.wait(60_000);
    let (_, new) = world.lease_one().await;
    let before = world.show("r1").await.summary;
    let step = step("load", false, StepStatus::Committed);
    assert!(matches!(world.store.heartbeat(old.clone()).await, Err(Error::LeaseLost { recorded: false })));
    assert!(matches!(world.store.step(old.clone(), step).await, Err(Error::LeaseLost { recorded: false })));
    assert!(matches!(world.store.succeed(success(&old, "1")).await, Err(Error::LeaseLost { recorded: false })));
    assert!(matches!(world.store.release(old.clone()).await, Err(Error::LeaseLost { recorded: false })));
    assert!(matches!(world.store.fail(old, failed(BUG)).await, Err(Error::LeaseLost { recorded: true })));
    assert_eq!(world.show("r1").await.summary, before);
    assert_eq!(world.store.succeed(success(&new, "1")).await.unwrap().state, StateName::Recovered);
}

pub async fn late_success_counts_until_a_newer_attempt_begins(world: World) {
    let (_, under) = world.start("r1").await;
    goes_quiet(&world).await;
    let answer = world.store.succeed(success(&under, "7")).await.unwrap();
    assert_eq!((answer.state, answer.late), (StateName::Recovered, true));
    let shown = world.show("r1").await;
    assert_eq!(shown.body.output.unwrap().get(), "7");
    assert!(shown.body.history.iter().any(|entry| entry.event == "late_success"));
    let (_, other) = world.start("r2").await;
    world.store.release(other.clone()).await.unwrap();
    assert!(world.store.succeed(success(&other, "7")).await.unwrap().late);
}

pub async fn success_beats_the_rescuer_that_read_before_it(world: World) {
    for run in (0..20).map(|n| format!("r{n}")) {
        let (_, under) = world.start(&run).await;
        world.wait(LEASE_MS + 1);
        // The rescuer is asked first, and the success is behind it in line.
        let (rescuer, worker) = (world.store.rescue_expired(100), world.store.succeed(success(&under, "1")));
        let (rescued, done) = tokio::join!(rescuer, worker);
        rescued.unwrap();
        let state = done.unwrap().state;
        assert!(matches!(state, StateName::Succeeded | StateName::Recovered), "{state}");
        assert_eq!(world.state(&run).await, state);
    }
}

pub async fn a_late_failure_is_kept_as_evidence(world: World) {
    let (_, under) = world.start("r1").await;
    goes_quiet(&world).await;
    let late = world.store.fail(under, failed(BUG)).await;
    assert!(matches!(late, Err(Error::LeaseLost { recorded: true })));
    let shown = world.show("r1").await;
    assert_eq!(shown.summary.state, StateName::Scheduled);
    assert_eq!(shown.body.attempts.len(), 1);
}

pub async fn cut_evidence_of_a_late_failure_is_marked(world: World) {
    let (_, under) = world.start("r1").await;
    goes_quiet(&world).await;
    let omitted = |bytes| PayloadOmitted { bytes, sha256: Label::from("hash") };
    let error = serde_json::from_str(r#"{"message":"cut"}"#).unwrap();
    let truncated = [("error.message".to_owned(), omitted(7)), ("partial_output".to_owned(), omitted(8))];
    let body = AttemptBody { error: Some(error), truncated: truncated.into(), ..AttemptBody::default() };
    let body = encode(serde_json::to_string(&body).unwrap().as_bytes());
    let late = world.store.fail(under, FailedAttempt { body, ..failed(BUG) }).await;
    assert!(matches!(late, Err(Error::LeaseLost { recorded: true })));
    let shown = world.show("r1").await.body.attempts.pop().unwrap();
    assert_eq!(shown.late.unwrap().message.decode(), "cut");
    assert_eq!(shown.truncated.into_iter().collect::<Vec<_>>(), [("late.message".to_owned(), omitted(7))]);
}

/// A rotated key keeps its lineage, and with it access to the runs it worked on.
pub async fn key_lineage_keeps_access_to_its_own_runs(world: World) {
    let [own, other] = ["key-1", "key-2"].map(KeyMark::of_lineage);
    let mut started = start("started");
    started.run.by = Some(own);
    world.store.start(started).await.unwrap();
    let mut reported = report("reported", BUG);
    reported.run.by = Some(other);
    world.store.report(reported).await.unwrap();
    world.enqueue("acme", "leased").await;
    let leased = world.store.lease(LeaseCall { by: Some(own), ..lease_call(1) }).await.unwrap().pop().unwrap();
    world.store.succeed(Success { by: Some(other), ..success(&under(&leased), "1") }).await.unwrap();
    let mut again = report("reported", "KeyError: 'other'");
    again.run.by = Some(own);
    world.store.report(again).await.unwrap();
    world.enqueue("acme", "nobodys").await;
    let world = world.restarted().await;
    let worked_on = async |run: &str, key| world.store.was_worked_on_by(&at("acme", run), key).await.unwrap();
    for (run, by_own, by_other) in
        [("started", true, false), ("reported", true, true), ("leased", true, true), ("nobodys", false, false)]
    {
        assert_eq!((worked_on(run, own).await, worked_on(run, other).await), (by_own, by_other), "{run}");
    }
    // The first one and the one that it was rotated into.
    for (id, hash) in [("key-1", [1; 32]), ("key-9", [9; 32])] {
        let key = KeyRecord {
            id: id.into(),
            lineage: "key-1".into(),
            hash,
            role: Role::Worker,
            tenant: Some("acme".parse().unwrap()),
            note: None,
            created_at: world.store.now(),
            expires_at: None,
            revoked_at: None,
        };
        world.store.put_key(key).await.unwrap();
        let found = world.store.key_by_hash(hash).await.unwrap().unwrap();
        assert!(worked_on("started", KeyMark::of_lineage(&found.lineage)).await, "{id}");
    }
}

pub async fn released_attempt_keeps_its_number_and_waits_longer(world: World) {
    world.enqueue("acme", "r1").await;
    let mut epochs = Vec::new();
    for wait_ms in [1_000, 2_000, 4_000] {
        let (leased, under) = world.lease_one().await;
        assert_eq!(leased.attempt, 1);
        epochs.push(under.lease.epoch);
        world.store.release(under).await.unwrap();
        let due = world.show("r1").await.summary.next_attempt_at.unwrap();
        assert_eq!(due.since(world.store.now()), wait_ms);
        world.wait(wait_ms);
    }
    assert_eq!(epochs, [1, 2, 3]);
}

pub async fn the_twentieth_release_in_a_row_is_a_failure(world: World) {
    world.enqueue("acme", "r1").await;
    for _ in 0..20 {
        assert_eq!(world.show("r1").await.body.attempts.len(), 0);
        let (_, under) = world.lease_one().await;
        world.store.release(under).await.unwrap();
        world.wait(300_000);
    }
    let shown = world.show("r1").await;
    assert_eq!(shown.body.attempts.len(), 1);
    assert_eq!(shown.body.verdict.unwrap().rule, "builtin.released_too_often");
}

pub async fn failure_resets_the_count_of_releases(world: World) {
    world.enqueue("acme", "r1").await;
    for _ in 0..19 {
        let (_, under) = world.lease_one().await;
        world.store.release(under).await.unwrap();
        world.wait(300_000);
    }
    let (_, under) = world.lease_one().await;
    world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    world.wait(300_000);
    let (leased, under) = world.lease_one().await;
    world.store.release(under).await.unwrap();
    let shown = world.show("r1").await;
    assert_eq!(
        (leased.attempt, shown.body.attempts.len()),
        (2, 1),
        "the twentieth in all, the first since the failure"
    );
    assert_eq!(shown.summary.next_attempt_at.unwrap().since(world.store.now()), 1_000);
}

pub async fn cancelled_worker_learns_of_it_and_may_still_succeed(world: World) {
    let (_, under) = world.start("r1").await;
    assert_eq!(world.triage("r1", Triage::Cancel).await.unwrap(), StateName::Dead);
    assert_eq!(world.show("r1").await.summary.dead_because, Some(DeadBecause::Manual));
    assert!(matches!(world.store.heartbeat(under.clone()).await, Err(Error::Cancelled { recorded: false })));
    let answer = world.store.succeed(success(&under, "1")).await.unwrap();
    assert!(answer.late);
    assert!(world.state("r1").await.is_closed());
}

pub async fn committed_step_is_returned_and_open_effect_is_unknown(world: World) {
    let (_, under) = world.start("r1").await;
    for status in [StepStatus::Started, StepStatus::Committed] {
        world.store.step(under.clone(), step("charge", true, status)).await.unwrap();
    }
    let again = world.store.step(under.clone(), step("charge", true, StepStatus::Started)).await.unwrap();
    assert_eq!((again.replayed, again.output.unwrap().get()), (true, "\"done\""));
    world.store.step(under.clone(), step("mail", true, StepStatus::Started)).await.unwrap();
    let answer = world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    assert_eq!((answer.state, answer.verdict.dead_because), (StateName::Dead, Some(DeadBecause::Unsafe)));
    let steps = world.show("r1").await.body.steps;
    assert_eq!(steps.iter().map(|s| s.status).collect::<Vec<_>>(), [StepStatus::Committed, StepStatus::Unknown]);
}

pub async fn an_effect_key_open_in_another_run_is_refused(world: World) {
    let (_, one) = world.start("r1").await;
    let (_, two) = world.start("r2").await;
    world.store.step(one.clone(), step("charge", true, StepStatus::Started)).await.unwrap();
    let refused = world.store.step(two.clone(), step("charge", true, StepStatus::Started)).await;
    assert!(matches!(refused, Err(Error::EffectInProgress { run_id, .. }) if run_id == "r1"));
    world.store.step(one, step("charge", true, StepStatus::Committed)).await.unwrap();
    assert!(world.store.step(two, step("charge", true, StepStatus::Started)).await.unwrap().replayed);
}

pub async fn one_of_three_concurrent_calls_begins_an_effect(world: World) {
    let (_, under) = world.start("r1").await;
    for named in [false, true] {
        let key = format!("charge-{named}");
        let call = |n: u8| NewStep {
            call_id: named.then(|| format!("call-{n}").parse().unwrap()),
            ..step(&key, true, StepStatus::Started)
        };
        let store = &world.store;
        let said = tokio::join!(
            store.step(under.clone(), call(1)),
            store.step(under.clone(), call(2)),
            store.step(under.clone(), call(3))
        );
        let said = [said.0, said.1, said.2];
        assert_eq!(said.iter().filter(|said| said.is_ok()).count(), 1, "{said:?}");
        let refused = said.iter().filter(|said| {
            matches!(said, Err(Error::EffectInProgress { run_id, call_id }) if run_id == "r1" && call_id.is_some() == named)
        });
        assert_eq!(refused.count(), 2, "{said:?}");
    }
}

pub async fn same_call_id_recovers_a_lost_answer(world: World) {
    let (_, under) = world.start("r1").await;
    let call = |id: &str, status| NewStep { call_id: Some(id.parse().unwrap()), ..step("charge", true, status) };
    for _ in 0..2 {
        let begun = world.store.step(under.clone(), call("c1", StepStatus::Started)).await.unwrap();
        assert_eq!((begun.status, begun.replayed), (StepStatus::Started, false));
    }
    assert!(world.store.step(under.clone(), call("c2", StepStatus::Started)).await.is_err());
    // Nothing happened: another call may begin it.
    world.store.step(under.clone(), call("c1", StepStatus::Failed)).await.unwrap();
    world.store.step(under.clone(), call("c2", StepStatus::Started)).await.unwrap();
    assert!(world.store.step(under.clone(), call("c1", StepStatus::Started)).await.is_err());
    // A plain step does no harm twice.
    for _ in 0..2 {
        world.store.step(under.clone(), step("load", false, StepStatus::Started)).await.unwrap();
    }
}

pub async fn only_the_call_that_began_an_effect_fails_it(world: World) {
    let (_, under) = world.start("r1").await;
    let call = |id: &str, status| NewStep { call_id: Some(id.parse().unwrap()), ..step("charge", true, status) };
    world.store.step(under.clone(), call("c1", StepStatus::Started)).await.unwrap();
    let other = world.store.step(under.clone(), call("c2", StepStatus::Failed)).await;
    assert!(matches!(other, Err(Error::EffectInProgress { .. })), "{other:?}");
    assert!(world.store.step(under.clone(), call("c2", StepStatus::Started)).await.is_err());
    goes_quiet(&world).await;
    let late = world.store.step(under.clone(), call("c2", StepStatus::Failed)).await;
    assert!(matches!(late, Err(Error::LeaseLost { recorded: false })), "{late:?}");
    let late = world.store.step(under, call("c1", StepStatus::Failed)).await;
    assert!(matches!(late, Err(Error::LeaseLost { recorded: true })), "{late:?}");
}

pub async fn a_plain_step_that_becomes_an_effect_is_guarded(world: World) {
    let ((_, one), (_, two)) = (world.start("r1").await, world.start("r2").await);
    let call = |id: &str| NewStep { call_id: Some(id.parse().unwrap()), ..step("charge", true, StepStatus::Started) };
    world.store.step(one.clone(), step("charge", false, StepStatus::Started)).await.unwrap();
    assert!(world.store.step(one.clone(), call("c1")).await.unwrap().effect);
    for (under, id) in [(&one, "c2"), (&two, "c1")] {
        let second = world.store.step(under.clone(), call(id)).await;
        assert!(matches!(second, Err(Error::EffectInProgress { .. })), "{second:?}");
    }
    let answer = world.store.fail(one, failed(TIMEOUT)).await.unwrap();
    assert_eq!((answer.state, answer.verdict.dead_because), (StateName::Dead, Some(DeadBecause::Unsafe)));
}

pub async fn step_and_effect_under_one_key_are_guarded(world: World) {
    for (run, told_with_the_end) in [("r1", false), ("r2", true)] {
        let (_, under) = world.start(run).await;
        let key = format!("{run}:charge");
        world.store.step(under.clone(), step(&key, false, StepStatus::Committed)).await.unwrap();
        let effect = step(&key, true, StepStatus::Committed);
        let mut end = failed(TIMEOUT);
        if told_with_the_end {
            end.steps.push(effect);
        } else {
            assert!(world.store.step(under.clone(), effect).await.unwrap().effect);
        }
        let answer = world.store.fail(under, end).await.unwrap();
        assert_eq!((answer.state, answer.verdict.dead_because), (StateName::Dead, Some(DeadBecause::Unsafe)), "{run}");
    }
}

/// A worker's key that has never had anything to do with the run.
const STRANGER: &str = "stranger";

fn asked_by_a_stranger(run: &str, how: StartHow) -> Start {
    let mut asked = start(run);
    asked.run.payload = payload(PayloadKind::None, b"");
    asked.run.by = Some(KeyMark::of_lineage(STRANGER));
    Start { how, ..asked }
}

pub async fn enqueuing_a_known_run_returns_its_state(world: World) {
    let (_, under) = world.start("r1").await;
    world.store.step(under, step("charge", true, StepStatus::Committed)).await.unwrap();
    let asked = asked_by_a_stranger("r1", StartHow::Enqueue { due_at: None });
    let answer = world.store.start(asked).await.unwrap().answer;
    assert_eq!((answer.state, answer.lease, answer.steps.len()), (StateName::Running, None, 0));
    assert!(answer.payload.is_none() && answer.payload_base64.is_none());
}

pub async fn worker_sees_only_its_own_outputs(world: World) {
    let (_, under) = world.start("r1").await;
    world.store.step(under.clone(), step("charge", true, StepStatus::Committed)).await.unwrap();
    world.store.succeed(success(&under, "\"secret\"")).await.unwrap();
    let how = || StartHow::Start { start_id: None, lease_ms: None };
    let stranger = world.store.start(asked_by_a_stranger("r1", how())).await.unwrap().answer;
    assert_eq!((stranger.state, stranger.steps.len()), (StateName::Succeeded, 0));
    assert!(stranger.output.is_none() && stranger.payload.is_none());
    // The owner of the work, and any non-worker, gets the output.
    let with_the_work =
        Start { run: NewRun { by: Some(KeyMark::of_lineage(STRANGER)), ..new_run("r1") }, ..start("r1") };
    let no_worker = Start { run: NewRun { by: None, ..asked_by_a_stranger("r1", how()).run }, ..start("r1") };
    for known in [with_the_work, no_worker] {
        let answer = world.store.start(known).await.unwrap().answer;
        assert_eq!((answer.output.unwrap().get(), answer.steps.len()), ("\"secret\"", 1));
    }
}

pub async fn each_lease_of_a_run_has_a_new_token(world: World) {
    let (_, first) = world.start("r1").await;
    world.store.release(first.clone()).await.unwrap();
    world.wait(60_000);
    let (_, second) = world.lease_one().await;
    assert_eq!(second.lease.run, first.lease.run);
    assert_ne!(second.lease.proof, first.lease.proof);
    let guessed = UnderLease { lease: LeaseToken { proof: first.lease.proof, ..second.lease }, ..first };
    assert!(matches!(world.store.heartbeat(guessed).await, Err(Error::LeaseLost { recorded: false })));
    assert!(world.store.heartbeat(second).await.is_ok());
}

pub async fn effect_outcome_is_recorded_after_the_lease_ended(world: World) {
    let (_, under) = world.start("r1").await;
    world.store.step(under.clone(), step("charge", true, StepStatus::Started)).await.unwrap();
    goes_quiet(&world).await;
    assert_eq!(world.show("r1").await.summary.dead_because, Some(DeadBecause::Unsafe));
    let blocked = world.triage("r1", Triage::replay(false)).await;
    assert!(matches!(blocked, Err(Error::Refused(Refused::EffectUnknown))));
    let late = world.store.step(under, step("charge", true, StepStatus::Failed)).await;
    assert!(matches!(late, Err(Error::LeaseLost { recorded: true })));
    assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Scheduled);
}

pub async fn a_caller_reports_success_without_a_lease(world: World) {
    world.retried_by_caller("default").await;
    world.fail("r1", TIMEOUT).await;
    let by_caller = |attempt| Success {
        lease: None,
        attempt,
        ..success(&UnderLease { at: at("acme", "r1"), lease: "l1-1-1-1".parse().unwrap() }, "1")
    };
    for attempt in [None, None, Some(2)] {
        let answer = world.store.succeed(by_caller(attempt)).await.unwrap();
        assert_eq!((answer.state, answer.late), (StateName::Recovered, false));
    }
    assert_eq!(world.show("r1").await.body.attempts.len(), 2);
    let other = Success { digest: [9; 16], ..by_caller(Some(2)) };
    assert!(matches!(world.store.succeed(other).await, Err(Error::AttemptConflict { attempt: 2 })));
    let (_, lease) = {
        world.enqueue("acme", "r2").await;
        world.start("r2").await
    };
    let live = Success { lease: None, ..success(&lease, "1") };
    assert!(matches!(world.store.succeed(live).await, Err(Error::Refused(Refused::InFlight))));
}

/// A lease names the number of its attempt: a forged number must not reach another run's attempt.
pub async fn lease_with_a_forged_number_changes_nothing(world: World) {
    let (_, under) = world.start("r1").await;
    for run in ["r2", "r3"] {
        world.fail(run, BUG).await;
    }
    for attempt in [2, (1 << 20) | 1, (2 << 20) | 1, (3 << 20) | 1] {
        let forged = UnderLease { lease: LeaseToken { attempt, ..under.lease }, ..under.clone() };
        assert!(matches!(world.store.succeed(success(&forged, "1")).await, Err(Error::LeaseLost { recorded: false })));
        assert!(matches!(world.store.fail(forged, failed(BUG)).await, Err(Error::LeaseLost { recorded: false })));
    }
    for run in ["r2", "r3"] {
        let attempts = world.show(run).await.body.attempts;
        assert_eq!((attempts.len(), attempts[0].outcome.as_str(), &attempts[0].late), (1, "failed", &None));
    }
    assert_eq!(world.store.succeed(success(&under, "1")).await.unwrap().state, StateName::Succeeded);
}
