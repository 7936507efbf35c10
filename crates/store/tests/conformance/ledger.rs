//! The ledger: which entry a report means, who may begin an effect, and what guards a run.

use redrive_core::ledger::RUN_STEPS_MAX;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::HOUR_MS;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::StepStatus::{Committed, Failed, Started, Unknown};
use redrive_core::wire::{StepStatus, Versions};
use redrive_engine::{Error, FailedAttempt, LeaseCall, NewFailure, NewStep, Start, Triage, UnderLease};

use crate::reports::TIMEOUT;
use crate::world::{LEASE_MS, World, failed, lease_call, new_run, report, start, step, success, under, unnamed};

impl World {
    pub async fn entries(&self, run: &str) -> Vec<(String, StepStatus)> {
        self.show(run).await.body.steps.into_iter().map(|step| (step.key.to_string(), step.status)).collect()
    }

    pub async fn because(&self, run: &str) -> Option<DeadBecause> {
        self.show(run).await.summary.dead_because
    }

    /// Whether a step was given back instead of begun.
    pub async fn replays(&self, under: &UnderLease, step: NewStep) -> bool {
        self.store.step(under.clone(), step).await.unwrap().replayed
    }

    pub async fn replay(&self, run: &str) -> UnderLease {
        self.triage(run, Triage::replay(true)).await.unwrap();
        self.lease_one().await.1
    }
}

fn entry(key: &str, status: StepStatus) -> (String, StepStatus) {
    (key.to_owned(), status)
}

pub async fn second_unnamed_effect_is_a_new_entry(world: World) {
    let (_, under) = world.start("r1").await;
    for status in [Started, Committed, Started, Committed, Started] {
        assert!(!world.replays(&under, unnamed("send mail", status)).await);
    }
    let expected = [("", Committed), (":2", Committed), (":3", Started)]
        .map(|(nth, is)| entry(&format!("step:send@20mail{nth}"), is));
    assert_eq!(world.entries("r1").await, expected);
}

pub async fn unnamed_effects_of_a_replay_match_in_order(world: World) {
    let (_, under) = world.start("r1").await;
    for status in [Started, Committed, Started, Committed] {
        world.replays(&under, unnamed("mail", status)).await;
    }
    world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    let again = world.replay("r1").await;
    let mut given_back = Vec::new();
    for _ in 0..3 {
        given_back.push(world.replays(&again, unnamed("mail", Started)).await);
    }
    assert_eq!(given_back, [true, true, false], "two are done, the third is new");
}

pub async fn unnamed_non_ascii_steps_have_their_own_entries(world: World) {
    let (_, under) = world.start("r1").await;
    for name in ["送金", "a b"] {
        for status in [Started, Committed] {
            assert!(!world.replays(&under, unnamed(name, status)).await, "{name} {status}");
        }
    }
    world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    let again = world.replay("r1").await;
    for (name, done) in [("返金", false), ("a-b", false), ("a_b", false), ("送金", true), ("a b", true)] {
        assert_eq!(world.replays(&again, unnamed(name, Started)).await, done, "{name}");
    }
    assert_eq!(world.entries("r1").await.len(), 5);
}

pub async fn repeated_unnamed_call_is_the_same_entry(world: World) {
    let (_, under) = world.start("r1").await;
    let call = |call: &str, status| NewStep { call_id: Some(call.parse().unwrap()), ..unnamed("mail", status) };
    for (id, status) in [("c1", Started), ("c2", Started), ("c1", Started), ("c2", Committed), ("c2", Committed)] {
        world.store.step(under.clone(), call(id, status)).await.unwrap();
    }
    assert_eq!(world.entries("r1").await, [entry("step:mail", Started), entry("step:mail:2", Committed)]);
}

pub async fn repeated_unnamed_outcome_is_the_same_entry(world: World) {
    let (_, under) = world.start("r1").await;
    for status in [Started, Committed, Committed] {
        world.replays(&under, unnamed("mail", status)).await;
    }
    assert_eq!(world.entries("r1").await, [entry("step:mail", Committed)]);
    // Without an intent each outcome is one of its own.
    for _ in 0..2 {
        world.replays(&under, unnamed("row", Committed)).await;
    }
    assert_eq!(world.entries("r1").await[1..], [entry("step:row", Committed), entry("step:row:2", Committed)]);
}

pub async fn unnamed_steps_of_an_ending_match_by_position(world: World) {
    let with = |steps| NewFailure { run: new_run("r1"), failed: FailedAttempt { steps, ..failed(TIMEOUT) } };
    let two = || vec![unnamed("mail", Committed), unnamed("mail", Committed)];
    world.store.report(with(two())).await.unwrap();
    world.wait(3_600_000);
    let again = NewFailure { failed: FailedAttempt { attempt: Some(2), ..with(two()).failed }, ..with(two()) };
    world.store.report(again).await.unwrap();
    assert_eq!(world.entries("r1").await, [entry("step:mail", Committed), entry("step:mail:2", Committed)]);
}

/// A key that is made of a name is that step's own, in its run alone.
pub async fn explicit_step_key_shifts_no_unnamed_step(world: World) {
    let given = |key: &str, status| NewStep { key: Some(key.parse().unwrap()), ..unnamed("mail", status) };
    let (_, under) = world.start("r1").await;
    world.replays(&under, given("step:mail:7", Committed)).await;
    for status in [Started, Committed, Started, Committed] {
        assert!(!world.replays(&under, unnamed("mail", status)).await);
    }
    let mail = |nth: &str| entry(&format!("step:mail{nth}"), Committed);
    assert_eq!(world.entries("r1").await, [mail(":7"), mail(""), mail(":2")]);
    let (_, other) = world.start("r2").await;
    assert!(!world.replays(&other, given("step:mail", Started)).await, "another run's first mail is another mail");
    let steps = vec![unnamed("mail", Committed), given("step:mail", Committed), unnamed("mail", Committed)];
    let ended = NewFailure { run: new_run("r3"), failed: FailedAttempt { steps, ..failed(TIMEOUT) } };
    world.store.report(ended).await.unwrap();
    assert_eq!(world.entries("r3").await, [mail(":2"), mail(""), mail(":3")]);
}

pub async fn failed_effect_frees_its_key(world: World) {
    let (_, one) = world.start("r1").await;
    let (_, two) = world.start("r2").await;
    for status in [Started, Failed] {
        world.replays(&one, step("charge", true, status)).await;
    }
    for status in [Started, Committed] {
        assert!(!world.replays(&two, step("charge", true, status)).await);
    }
    assert!(world.replays(&one, step("charge", true, Started)).await, "r2 has done it");
    assert_eq!(world.entries("r1").await, [entry("charge", Failed)]);
}

pub async fn effect_unknown_in_another_run_may_not_begin(world: World) {
    let (_, one) = world.start("r1").await;
    let (_, two) = world.start("r2").await;
    world.replays(&one, step("charge", true, Started)).await;
    world.store.fail(one, failed(TIMEOUT)).await.unwrap();
    for status in [Started, Committed, Failed] {
        let refused = world.store.step(two.clone(), step("charge", true, status)).await;
        assert!(matches!(refused, Err(Error::EffectUnknown)), "{status}: {refused:?}");
    }
    assert_eq!(world.entries("r2").await, []);
}

pub async fn reporting_another_runs_effect_guards_the_reporter(world: World) {
    let (_, one) = world.start("r1").await;
    world.replays(&one, step("charge", true, Started)).await;
    for (run, status) in [("r2", Committed), ("r3", Started)] {
        let steps = vec![step("charge", true, status)];
        let told = NewFailure { failed: FailedAttempt { steps, ..failed(TIMEOUT) }, ..report(run, TIMEOUT) };
        world.store.report(told).await.unwrap();
        assert_eq!(world.because(run).await, Some(DeadBecause::Unsafe), "{run}");
    }
    // The key stays with the run that holds it.
    world.replays(&one, step("charge", true, Committed)).await;
    assert_eq!(world.entries("r1").await, [entry("charge", Committed)]);
    assert_eq!(world.entries("r3").await, [entry("charge", Unknown)]);
}

pub async fn plain_step_reported_as_effect_is_guarded(world: World) {
    let (_, under) = world.start("r1").await;
    world.replays(&under, step("charge", false, Started)).await;
    world.replays(&under, step("charge", true, Committed)).await;
    let answer = world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    assert_eq!(answer.verdict.dead_because, Some(DeadBecause::Unsafe));
}

pub async fn unspecified_step_keeps_its_kind_or_is_an_effect(world: World) {
    let silent = |key: &str, status| NewStep { effect: None, ..step(key, true, status) };
    let (_, plain) = world.start("plain").await;
    world.replays(&plain, step("load", false, Started)).await;
    world.replays(&plain, silent("load", Committed)).await;
    let (_, new) = world.start("new").await;
    world.replays(&new, silent("charge", Committed)).await;
    for (under, state) in [(plain, StateName::Scheduled), (new, StateName::Dead)] {
        assert_eq!(world.store.fail(under, failed(TIMEOUT)).await.unwrap().state, state);
    }
}

pub async fn effects_reported_with_an_ending_are_guarded_everywhere(world: World) {
    let told = |status| FailedAttempt { steps: vec![unnamed("mail", status)], ..failed(TIMEOUT) };
    for (run, status) in [("done", Committed), ("open", Started)] {
        let (_, under) = world.start(run).await;
        world.store.fail(under, told(status)).await.unwrap();
        assert_eq!(world.because(run).await, Some(DeadBecause::Unsafe), "{run}");
    }
    let (_, under) = world.start("nothing").await;
    world.store.fail(under, told(Failed)).await.unwrap();
    assert_eq!(world.state("nothing").await, StateName::Scheduled, "failed asserts that nothing happened");
    let (_, quiet) = world.start("quiet").await;
    world.replays(&quiet, unnamed("mail", Committed)).await;
    world.wait(LEASE_MS + 1);
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(world.because("quiet").await, Some(DeadBecause::Unsafe));
}

pub async fn released_run_with_a_done_effect_is_unsafe(world: World) {
    let (_, under) = world.start("r1").await;
    world.replays(&under, step("charge", true, Committed)).await;
    assert_eq!(world.store.release(under).await.unwrap().state, StateName::Dead);
    assert_eq!(world.because("r1").await, Some(DeadBecause::Unsafe));
}

pub async fn replay_under_other_versions_reports_the_change(world: World) {
    let prompt = |version: &str| Versions::from([("prompt".to_owned(), Label::from(version))]);
    let begun = world.store.start(Start { versions: prompt("7"), ..start("r1") }).await.unwrap().answer;
    let lease = UnderLease { at: crate::world::at("acme", "r1"), lease: begun.lease.unwrap().parse().unwrap() };
    world.replays(&lease, step("load", false, Committed)).await;
    world.store.fail(lease, failed(TIMEOUT)).await.unwrap();
    assert_eq!(world.show("r1").await.body.versions_changed, []);
    world.wait(600_000);
    let leased = world.store.lease(LeaseCall { versions: prompt("8"), ..lease_call(1) }).await.unwrap().pop().unwrap();
    let told = |changes: &[redrive_core::ledger::VersionChange]| -> Vec<String> {
        changes.iter().map(|c| format!("{} {} {}", c.kind, c.recorded, c.now)).collect()
    };
    assert_eq!(told(&leased.versions_changed), ["prompt 7 8"]);
    assert_eq!(told(&world.show("r1").await.body.versions_changed), ["prompt 7 8"], "also for who looks");
    world.store.succeed(success(&under(&leased), "1")).await.unwrap();
}

pub async fn own_finished_effect_wins_over_another_runs(world: World) {
    let (_, holder) = world.start("r2").await;
    world.replays(&holder, step("charge", true, Started)).await;
    let (_, own) = world.start("r1").await;
    let told = FailedAttempt { steps: vec![step("charge", true, Committed)], ..failed(TIMEOUT) };
    world.store.fail(own, told).await.unwrap();
    assert_eq!(world.entries("r1").await, [entry("charge", Committed)], "kept beside the holder's");
    let again = world.replay("r1").await;
    assert!(world.replays(&again, step("charge", true, Started)).await, "though r2 is at it");
    assert!(!world.replays(&holder, step("charge", true, Committed)).await);
}

/// A run that has as many steps as it can have, all of them plain.
async fn full_of_steps(world: &World, run: &str) -> UnderLease {
    let (_, under) = world.start(run).await;
    let steps = (0..RUN_STEPS_MAX).map(|n| step(&format!("s{n}"), false, Committed)).collect();
    world.store.fail(under, FailedAttempt { steps, ..failed(TIMEOUT) }).await.unwrap();
    world.wait(HOUR_MS);
    world.start(run).await.1
}

pub async fn full_ledger_refuses_intents_and_drops_steps(world: World) {
    let under = full_of_steps(&world, "r1").await;
    for new in [step("charge", true, Started), step("look", false, Committed), unnamed("mail", Started)] {
        let refused = world.store.step(under.clone(), new).await;
        assert!(matches!(refused, Err(Error::TooManySteps { most: RUN_STEPS_MAX })), "{refused:?}");
    }
    // What is on record goes on, and nothing that was refused is in doubt.
    assert!(world.store.step(under.clone(), step("s7", false, Committed)).await.unwrap().replayed);
    assert_eq!(world.store.fail(under, failed(TIMEOUT)).await.unwrap().state, StateName::Scheduled);
}

pub async fn effect_beyond_the_step_limit_is_unknown(world: World) {
    let under = full_of_steps(&world, "r1").await;
    let done = world.store.step(under.clone(), step("charge", true, Committed)).await;
    assert!(matches!(done, Err(Error::TooManySteps { .. })), "{done:?}");
    let answer = world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    assert_eq!((answer.state, answer.verdict.dead_because), (StateName::Dead, Some(DeadBecause::Unsafe)));
}

pub async fn ending_beyond_the_step_limit_is_recorded(world: World) {
    let under = full_of_steps(&world, "r1").await;
    let steps = vec![step("look", false, Committed), step("mail", true, Failed), step("charge", true, Committed)];
    let answer = world.store.fail(under, FailedAttempt { steps, ..failed(TIMEOUT) }).await.unwrap();
    assert_eq!((answer.state, answer.verdict.dead_because), (StateName::Dead, Some(DeadBecause::Unsafe)));
    let run = world.show("r1").await;
    let notes: Vec<_> = run.body.history.iter().filter(|entry| entry.event == "step_limit").collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
}
